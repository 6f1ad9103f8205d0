"""Text that every Python has: the docstrings of its standard library."""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test", "lib2to3"}
_WORDS = 10  # of a docstring that says something


def docstrings() -> Iterator[str]:
    """Docstrings of modules, classes and functions, in the order of their files; nothing is imported."""
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(library.rglob("*.py")):
        if _LEFT_OUT.isdisjoint(path.relative_to(library).parts):
            tree = ast.parse(path.read_bytes())
            documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            texts = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, documented))
            yield from (text for text in texts if text and len(text.split()) >= _WORDS)


def tfidf() -> sparse.csr_matrix:
    """Their tf-idf (documents x words, float64)."""
    return TfidfVectorizer(stop_words="english", min_df=3).fit_transform(docstrings())

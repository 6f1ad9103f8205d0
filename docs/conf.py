"""How Sphinx builds the documentation (``make docs``): no network, warnings are errors, no request to other hosts."""

from __future__ import annotations

import contextlib
import inspect
import re
import shutil
from importlib import import_module
from pathlib import Path

import matplotlib as mpl
from sphinx.application import Sphinx

import dspnmf
from dspnmf.estimators import ComponentFactorization, SymNMF

mpl.use("Agg")
HERE = Path(__file__).parent
FIRST = ("fit", "fit_transform", "transform", "inverse_transform", "partial_fit")  # of an estimator's methods
HOOKS = ("problem", "augmented")  # methods for authors of estimators, described on the page of their base alone

project, author, version = "dspnmf", "The dspnmf developers", dspnmf.__version__
release, project_copyright = version, "the dspnmf developers"
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "reproduction/*.md", "gallery/*.ipynb", "gallery/*.py", "gallery/*.json"]
templates_path, html_static_path = ["_templates"], ["_static"]

nitpicky = True
nitpick_ignore_regex = [("py:obj", ".*")]  # `name` in a docstring links where there is a page, and is code where not
default_role = "py:obj"
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
autodoc_typehints = "none"  # types are in the docstrings, in words
autosummary_generate = True
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # the template lists the methods that are ours
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "reference_url": {"dspnmf": None},
    "write_computation_times": False,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "capture_repr": (),
    "min_reported_time": 1000,
}

html_theme, html_title = "pydata_sphinx_theme", "dspnmf"
html_css_files = ["docs.css"]
smartquotes = False  # X' is a transpose, not a quotation
html_copy_source = html_show_sourcelink = False
html_sidebars = {
    name: [] for name in ("getting-started", "mathematics", "reproduction", "own-term", "faq", "changelog")
}
html_theme_options = {
    "logo": {"text": "dspnmf"},
    "header_links_before_dropdown": 5,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "search_as_you_type": True,
}


def methods_of(cls: type) -> list[str]:
    """Public methods that this package defines: what scikit-learn adds to a class is documented there."""
    ours = [(key, value) for key, value in inspect.getmembers(cls, inspect.isfunction) if key[0] != "_"]
    ours = [(key, inspect.unwrap(value)) for key, value in ours if value.__module__.startswith("dspnmf")]
    names = [key for key, value in sorted(ours, key=lambda item: item[1].__code__.co_firstlineno)]
    if issubclass(cls, ComponentFactorization | SymNMF) and cls is not ComponentFactorization:
        names = [name for name in names if name not in HOOKS]
    return sorted(names, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))


def documented() -> dict[str, list[str]]:
    """Every class that the API page names, and its methods."""
    found: dict[str, list[str]] = {}
    for line in (HERE / "api" / "index.rst").read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.removeprefix(".. currentmodule:: ")
        elif inspect.isclass(
            entry := getattr(import_module(module), line.strip(), None) if line[:3] == "   " else None
        ):
            found[f"{module}.{line.strip()}"] = methods_of(entry)
    return found


autosummary_context = {"our_methods": documented()}


def inside(app: Sphinx, page: str, source: list[str]) -> None:
    """Links to the figures of the benchmarks, which lie outside this folder, lead to the page that includes them."""
    source[0] = re.sub(r"\((\.\./)+benchmarks/(README|gpu)\.md\)", "(/benchmarks.md)", source[0])


def escaped(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """``x : array of shape (n_components_, ...)``: in a type, a name that ends in _ is not a link."""
    for number, line in enumerate(lines):
        begin, colon, kind = line.partition(" : ")
        if colon:
            lines[number] = begin + colon + re.sub(r"(?<![\w`])(\w+)_(?=[,) ])", r"\1\\_", kind)


def make_report(app: Sphinx, error: Exception | None) -> None:
    """The report that the guide links to, by the lines the guide shows."""
    if error is None and app.builder.name == "html":
        blocks = (HERE / "guide" / "report.md").read_text(encoding="utf-8").split("```python\n")[1:]
        code = next(block.split("```")[0] for block in blocks if 'Path("digits.html")' in block)
        with contextlib.chdir(Path(app.outdir) / "guide"):
            exec(code, {})


def keep_results(app: Sphinx, error: Exception | None) -> None:
    """The reproduction's own page and the files it links to, as they were written, next to the pages made here."""
    if error is None and app.builder.name == "html":
        shutil.copytree(HERE / "reproduction", Path(app.outdir) / "reproduction", dirs_exist_ok=True)


def setup(app: Sphinx) -> None:
    """Hooks of the build."""
    app.connect("autodoc-process-docstring", escaped, priority=400)  # before numpydoc
    app.connect("source-read", inside)
    app.connect("build-finished", make_report)
    app.connect("build-finished", keep_results)

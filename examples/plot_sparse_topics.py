"""
Topics of the standard library
==============================

The docstrings of Python's standard library are on every machine: a text of some ten thousand pieces. Word counts are
factorized with an L1 penalty, so that a topic has few words and a docstring few topics.
"""

import ast
import sysconfig
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from dspnmf import NMF

# %%
# Docstrings of one folder's modules, classes and functions; nothing is imported.
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
texts = []
for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
    for node in ast.walk(ast.parse(path.read_bytes())):
        text = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
        if text and len(text.split()) >= 10:
            texts.append(text)
vectorizer = TfidfVectorizer(stop_words="english", min_df=3)
X = vectorizer.fit_transform(texts)
words = vectorizer.get_feature_names_out()
print(f"{X.shape[0]} docstrings, {X.shape[1]} words, {X.nnz / X.shape[0]:.0f} words in each")

# %%
# Without and with the penalty: the same words lead, but most of the rest is gone.
for alpha in (0.0, 3e-5):
    model = NMF(8, alpha_W=alpha, l1_ratio=1.0, init="nndsvda", random_state=0).fit(X)
    V = model.components_
    print(f"\nalpha_W = {alpha:g}: {np.mean(V > 0):.0%} of all words in a topic, error {model.reconstruction_err_:.1f}")
    for topic in V:
        print("   ", ", ".join(words[np.argsort(topic)[:-7:-1]]))

# %%
# How many words each topic has left.
plt.bar(np.arange(8), (V > 0).sum(axis=1))
plt.xlabel("topic")
plt.ylabel("words with a weight")
plt.show()

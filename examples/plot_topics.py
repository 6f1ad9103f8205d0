"""
Topics of texts
===============

Counts of words are non-negative and mostly zero: a sparse matrix, which is never made dense. The texts are the
docstrings of scikit-learn's estimators, which are there wherever this library is. The question: which kinds of
estimators are there, judged by the words alone?
"""

# %%
# From texts to a sparse matrix
# -----------------------------
# Rows are estimators, columns are words, weighted by tf-idf. Rows have unit length, so XX' are cosines.
import inspect

import matplotlib.pyplot as plt
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.utils import all_estimators

from dspnmf import DSPNMF

names, classes = zip(*all_estimators(), strict=True)
texts = [inspect.getdoc(cls).partition("\nReferences\n")[0].partition("\nExamples\n")[0] for cls in classes]
words = TfidfVectorizer(stop_words="english", max_df=0.3, min_df=5, token_pattern=r"[a-z]{4,}", sublinear_tf=True)
X = words.fit_transform(texts)
print(
    f"{X.shape[0]} texts, {X.shape[1]} words, {100 * X.nnz / (X.shape[0] * X.shape[1]):.0f} % of the entries not zero"
)

# %%
# Eight topics
# ------------
# A component is a topic: a weight for every word. Its strongest words, and the texts that use it most:
model = DSPNMF(8, normalize=True, random_state=0)
Z = model.fit_transform(X)
vocabulary = words.get_feature_names_out()
for topic, weights in enumerate(model.components_):
    print(f"{topic}: {', '.join(vocabulary[weights.argsort()[:-7:-1]])}")
    print(f"   {', '.join(names[i] for i in Z[:, topic].argsort()[:-5:-1])}")

# %%
# As a picture
# ------------
figure, axes = plt.subplots(2, 4, figsize=(9, 4.2), layout="constrained")
for topic, ax in enumerate(axes.flat):
    strongest = model.components_[topic].argsort()[-6:]
    ax.barh(vocabulary[strongest], model.components_[topic][strongest], color="#0072B2")
    ax.set_title(f"topic {topic}", fontsize=10)
    ax.set(xticks=[])
    ax.tick_params(labelsize=9, length=0)
    ax.spines[["top", "right", "bottom"]].set_visible(False)

# %%
# A text the model has not seen
# -----------------------------
# `transform` solves the small convex problem of a new row exactly.
question = ["How many trees should the forest have, and how deep should each tree be split?"]
print("topics of the question, strongest first:", model.transform(words.transform(question))[0].argsort()[::-1][:3])

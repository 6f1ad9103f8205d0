"""
In a pipeline, with a grid search
=================================

``DSPNMF`` is a scikit-learn transformer: it stands in a ``Pipeline``, and a ``GridSearchCV`` chooses its rank and
weight. The data are 178 wines with 13 chemical measurements, from three growers.
"""

# %%
# The pipeline
# ------------
# Scale every measurement to [0, 1], reduce 13 features to a few, classify. New wines are scaled and coded with what was
# learned from the training wines; a value outside their range is clipped, as codes are only defined for X >= 0.
import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from dspnmf import DSPNMF

X, y = load_wine(return_X_y=True)
train, test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
pipeline = Pipeline(
    [
        ("scale", MinMaxScaler(clip=True)),
        ("reduce", DSPNMF(random_state=0)),
        ("classify", SVC()),
    ]
)

# %%
# The search
# ----------
# The last test of a model is on wines that took no part in choosing it.
ranks, alphas = [2, 3, 5, 9], [0.0, 0.01, 1.0]
grid = {"reduce__n_components": ranks, "reduce__alpha": alphas}
search = GridSearchCV(pipeline, grid, cv=5).fit(train, y_train)
print("chosen:", {name.removeprefix("reduce__"): value for name, value in search.best_params_.items()})
print(f"accuracy in the search {search.best_score_:.3f}, on the held-out wines {search.score(test, y_test):.3f}")

# %%
# All settings
# ------------
# Two wines of 124 make a difference of 0.016. So the table says that two components are too few, and little else: the
# best of twelve settings is partly luck, which is why its score on wines it has not seen is lower.
scores = search.cv_results_["mean_test_score"].reshape(len(alphas), len(ranks))
figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
image = ax.imshow(scores, cmap="viridis", aspect="auto")
ax.set_xticks(range(len(ranks)), ranks)
ax.set_yticks(range(len(alphas)), alphas)
ax.set(xlabel="n_components", ylabel="alpha")
for (row, column), score in [((i, j), scores[i, j]) for i in range(len(alphas)) for j in range(len(ranks))]:
    ax.text(column, row, f"{score:.2f}", ha="center", va="center", color="black" if score > scores.mean() else "white")
figure.colorbar(image, label="accuracy, 5-fold")

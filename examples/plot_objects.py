"""
Parts of images
===============

What do the components of images look like, and what do the codes keep? Handwritten digits (8 x 8 pixels, they come with
scikit-learn), or the objects of COIL-20 (32 x 32) where ``COIL20.mat`` is in the folder that ``DSPNMF_DATA`` names.
"""

# %%
# The data
# --------
# Rows are images, columns are pixels, scaled to [0, 1].
import matplotlib.pyplot as plt
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from dspnmf import DSPNMF, NMF, datasets, metrics

images = datasets.load("COIL20" if (datasets.data_folder() / "COIL20.mat").exists() else "Digits")
X, y = images.X / images.X.max(), images.y
print(f"{images.name}: {X.shape[0]} images, height and width {images.image_shape}")

# %%
# Two fits from the same seed
# ---------------------------
# Plain NMF only reconstructs the pixels. DSP-NMF also preserves the similarities between images, XX', in the codes.
models = {"DSP-NMF": DSPNMF(16, random_state=0), "NMF": NMF(16, random_state=0)}
codes = {name: model.fit_transform(X) for name, model in models.items()}

figure, rows = plt.subplots(4, 8, figsize=(8, 4.6), layout="constrained")
for part, (name, model) in zip((rows[:2], rows[2:]), models.items(), strict=True):
    for ax, component in zip(part.flat, model.components_, strict=True):
        ax.imshow(component.reshape(images.image_shape), cmap="gray_r")
        ax.set(xticks=[], yticks=[])
    part[0, 0].set_title(f"{name}: 16 components", loc="left", fontsize=10)

# %%
# What the codes keep
# -------------------
# The structure error is what is lost of XX', whatever the unit of the codes (0: nothing, 1: all). Neighbour recall is
# the share of an image's ten nearest images that are still its nearest in the codes. Plain NMF is closer to the pixels;
# DSP-NMF pays a little of that for the similarities.
for name, model in models.items():
    Z = codes[name]
    accuracy = cross_val_score(KNeighborsClassifier(3), Z, y, cv=5).mean()
    pixels, similarities = model.reconstruction_err_ / (X**2).sum() ** 0.5, metrics.structure_error(X, Z)
    print(f"{name:8} error of pixels {pixels:.3f}, of similarities {similarities:.3f}")
    print(f"{'':8} neighbour recall {metrics.neighbour_recall(X, Z):.3f}, 3-NN accuracy {accuracy:.3f}")

# %%
# Similarities, before and after
# ------------------------------
# Every tenth image against every tenth other, sorted by class: bright squares on the diagonal are classes. The codes of
# plain NMF have no unit, so they are scaled by the one factor that suits them best.
order = y.argsort(kind="stable")[::10]
figure, axes = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained")
similarities = {"the data, XX'": X, **{f"codes of {name}, UU'": Z for name, Z in codes.items()}}
for ax, (title, A) in zip(axes, similarities.items(), strict=True):
    unit = ((X.T @ A) ** 2).sum() / ((A.T @ A) ** 2).sum()
    ax.imshow(unit * A[order] @ A[order].T, cmap="viridis", vmin=0, vmax=(X[order] @ X[order].T).max())
    ax.set(xticks=[], yticks=[])
    ax.set_title(title, fontsize=10)

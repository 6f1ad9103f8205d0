"""
Maps of a hyperspectral scene
=============================

Every pixel of a hyperspectral image is a spectrum. Components are spectra of materials, codes say how much of each
material a pixel holds: one map per component. The scene is Indian Pines (145 x 145 pixels, 200 bands) where its two
files are in the folder that ``DSPNMF_DATA`` names. Otherwise it is a small cube made here: four invented materials.
"""

# %%
# The scene
# ---------
import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score

from dspnmf import DSPNMF, datasets


def invented(size=48, bands=80, seed=0):
    """Four materials in the quarters of a scene, mixed at their borders, with noise."""
    rng = np.random.default_rng(seed)
    wavelength = np.linspace(0, 1, bands)
    spectra = np.array([np.exp(-(((wavelength - c) / w) ** 2)) for c, w in ((0.15, 0.1), (0.4, 0.2), (0.65, 0.1))])
    spectra = np.vstack([spectra, 0.2 + 0.6 * wavelength])
    at = np.stack(np.meshgrid(*2 * [np.linspace(-1, 1, size)], indexing="ij"), axis=-1).reshape(-1, 2)
    corners = np.array([(-1, -1), (-1, 1), (1, -1), (1, 1)]) / 2
    near = np.exp(-6 * ((at[:, None] - corners) ** 2).sum(axis=2))
    shares = near / near.sum(axis=1, keepdims=True)
    X = shares @ spectra + 0.02 * rng.random((size * size, bands))
    return X, shares.argmax(axis=1), np.argwhere(np.ones((size, size))), (size, size)


if (datasets.data_folder() / "Indian_pines_corrected.mat").exists():
    scene = datasets.load("IndianPines", fraction=0.5)
    X, y, at, shape = scene.X, scene.y, scene.positions, scene.scene_shape
    print(f"Indian Pines: half of the labelled pixels, {X.shape[0]} spectra of {X.shape[1]} bands")
else:
    X, y, at, shape = invented()
    print(f"Indian Pines is not there, so an invented scene: {X.shape[0]} spectra of {X.shape[1]} bands")
X = X / X.max()

# %%
# The fit
# -------
# ``normalize=True`` gives components of unit length, so that the codes of different materials can be compared.
model = DSPNMF(4, normalize=True, random_state=0)
Z = model.fit_transform(X)
found = KMeans(len(np.unique(y)), n_init=4, random_state=0).fit_predict(Z)
print(f"{model.n_iter_} iterations; k-means on the codes, NMI {normalized_mutual_info_score(y, found):.2f}")

# %%
# One map per component
# ---------------------
# Pixels without a label stay white.
figure, axes = plt.subplots(1, 4, figsize=(9, 2.6), layout="constrained")
for a, ax in enumerate(axes):
    image = np.full(shape, np.nan)
    image[tuple(at.T)] = Z[:, a]
    ax.imshow(image, cmap="viridis", interpolation="nearest")
    ax.set(xticks=[], yticks=[])
    ax.set_title(f"component {a}", fontsize=10)

# %%
# And its spectrum
# ----------------
figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
for a, spectrum in enumerate(model.components_):
    ax.plot(spectrum, label=f"component {a}", color=("#0072B2", "#D55E00", "#009E73", "#CC79A7")[a])
ax.set(xlabel="band", ylabel="reflectance (unit length)")
ax.legend(frameon=False, fontsize=9)

"""
Every picture of a fit
======================

`dspnmf.plot` draws what one looks at after a fit. Every function draws on the axes it is given, or on those of a new
figure, and returns them; none shows or saves anything. The data are handwritten digits, which come with scikit-learn.
"""

# %%
# What are the components?
# ------------------------
# Samples that are images have a ``shape``. Other components are drawn as lines over the features (spectra), or as bars
# of their strongest features where features have names.
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from dspnmf import DSPNMF, DSPNMFCV, NMF, plot

X, y = load_digits(return_X_y=True)
X = X / 16
model = DSPNMF(10, random_state=0)
Z = model.fit_transform(X)
plot.components(model, shape=(8, 8))

# %%
# Did it converge?
# ----------------
# The multiplicative rule ``mm`` is guaranteed to descend, and slow. ``newton-cg`` is the default.
options = {"max_iter": 40, "tol": 0, "random_state": 0}
plot.convergence({name: DSPNMF(10, solver=name, **options).fit(X) for name in ("newton-cg", "hals", "mm")})

# %%
# Are similarities kept?
# ----------------------
# Of 20,000 pairs of digits: their similarity in the data, and in the codes. Pairs on the diagonal are kept exactly.
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
plot.structure(X, Z, ax=axes[0]).set_xlabel("similarity in the data (DSP-NMF)")
plot.structure(X, NMF(10, random_state=0).fit_transform(X), ax=axes[1]).set_xlabel("similarity in the data (NMF)")
# sphinx_gallery_thumbnail_number = 3

# %%
# Do components overlap?
# ----------------------
plot.correlation(model)

# %%
# Two codes of every sample
# -------------------------
# Four of the ten digits, and the two components that vary most among them.
four = y < 4
first, second = Z[four].var(axis=0).argsort()[:-3:-1]
plot.codes(Z[four], y[four], which=(first, second))

# %%
# Would another start find the same?
# ----------------------------------
# With ``n_init`` above 1 components are matched with those of the other starts: 1 is the same in all. Here of every
# third digit.
plot.stability(DSPNMF(10, n_init=4, random_state=0).fit(X[::3]))

# %%
# Which rank, which weight?
# -------------------------
# A search without labels: the error of held-out cells chooses the rank, neighbours of held-out samples the weight. The
# ring is the choice. Every sixth digit is enough here.
search = DSPNMFCV([5, 10, 15], alphas=4, cv=3, max_iter=50, random_state=0).fit(X[::6])
plot.selection(search)

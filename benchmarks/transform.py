"""How long does `transform` of 100,000 rows take, against scikit-learn's NMF with the same components?"""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
from sklearn.decomposition import NMF as ScikitNMF

import _report
from dspnmf import NMF
from plain_nmf import K, dense


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    rows = []
    for n, m in ((100_000, 200), (100_000, 64)):
        X = dense(n, m)
        ours = NMF(K, random_state=0).fit(X[:20_000])
        peer = ScikitNMF(K, init="custom", solver="cd")
        start = np.full((20_000, K), 0.5, np.float32)
        peer.set_params(max_iter=1).fit_transform(X[:20_000], W=start, H=ours.components_.copy())
        peer.components_ = ours.components_
        peer.set_params(max_iter=200)
        theirs = _report.median_time(partial(peer.transform, X), 3)
        mine = _report.median_time(partial(ours.transform, X), 3)
        errors = [float(np.linalg.norm(X - model.transform(X) @ ours.components_)) for model in (peer, ours)]
        rows.append(
            (f"{n:,} x {m}", f"{theirs:.3f} s", f"{mine:.3f} s", mine / theirs, f"{errors[0]:.7g}", f"{errors[1]:.7g}")
        )
    header = ("X (float32)", "scikit-learn", "dspnmf", "ratio of times", "error scikit-learn", "error dspnmf")
    _report.table("transform", header, rows)
    _report.versions()


if __name__ == "__main__":
    main()

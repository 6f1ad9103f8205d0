"""Checkpoints: a fit that was killed goes on, and ends where it would have ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from divergent import powers
from dspnmf import DSPNMF, FRNMF, GDNMF, GNMF, NMF, NSNMF, ONMF, SDNMF, SymNMF
from dspnmf.backends import file
from dspnmf.backends import file_slabs as reading
from dspnmf.estimators import base


class Killed(Exception):  # noqa: N818 - it is no error
    """Stands for the end of the process."""


def kill_at(iteration: int, monkeypatch: pytest.MonkeyPatch, times: int = 1) -> None:
    """The fit ends in the middle of its `times`-th iteration of that number."""
    seen: list[int] = []

    def log(_: Any, number: int, value: float, *start: int) -> None:
        seen.extend([number] if number == iteration else [])
        if number == iteration and len(seen) == times:
            raise Killed

    monkeypatch.setattr(base.Factorization, "_log", log)


def forget_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits run undisturbed again."""
    monkeypatch.setattr(base.Factorization, "_log", lambda *_: None)


FITS: dict[str, Any] = {
    "hals": lambda: DSPNMF(4, solver="hals", random_state=0, max_iter=30, tol=0),
    "newton-cg": lambda: DSPNMF(4, solver="newton-cg", random_state=0, max_iter=30, tol=0),
    "mm": lambda: DSPNMF(4, solver="mm", random_state=0, max_iter=30, tol=0),
    "paper": lambda: DSPNMF(4, solver="paper", random_state=0, max_iter=30, tol=0),
    "plain": lambda: NMF(4, random_state=0, max_iter=30, tol=0, normalize=True),
    "stops by itself": lambda: DSPNMF(4, random_state=0, max_iter=500, tol=1e-4),
    "cosine": lambda: DSPNMF(4, similarity="cosine", random_state=0, max_iter=30, tol=0),
    "diffused": lambda: DSPNMF(4, similarity="diffused", alpha="auto", random_state=0, max_iter=30, tol=0),
    "GNMF": lambda: GNMF(4, random_state=0, max_iter=30, tol=0),
    "NSNMF": lambda: NSNMF(4, random_state=0, max_iter=30, tol=0),
    "ONMF": lambda: ONMF(4, random_state=0, max_iter=30, tol=0),
    "SymNMF": lambda: SymNMF(4, random_state=0, max_iter=30, tol=0),
    "SymNMF paper": lambda: SymNMF(4, solver="paper", random_state=0, max_iter=30, tol=0),
    "FRNMF": lambda: FRNMF(4, random_state=0, max_iter=30, tol=0),
    "Kullback-Leibler": lambda: NMF(4, beta_loss="kullback-leibler", random_state=0, max_iter=30, tol=0),
    "beta 0.5": lambda: NMF(4, beta_loss=0.5, random_state=0, max_iter=30, tol=0),
    "divergence and structure": lambda: DSPNMF(
        4, alpha=0.1, beta_loss=1.5, alpha_W=1e-3, l1_ratio=0.5, random_state=0, max_iter=30, tol=0
    ),
}


def interrupted_at(iteration: int, monkeypatch: pytest.MonkeyPatch, times: int = 1, then: float = 0.0) -> None:
    """Ctrl-C comes that often in the middle of an iteration, which then takes some seconds more."""

    def log(_: Any, number: int, value: float, *start: int) -> None:
        if number == iteration:
            for _again in range(times):
                signal.raise_signal(signal.SIGINT)
            time.sleep(then)

    monkeypatch.setattr(base.Factorization, "_log", log)


def test_ctrl_c_ends_a_fit_with_its_file(wine: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted long before a file is due, a fit ends after its iteration, and the next one goes on from there."""
    path, before = tmp_path / "fit.npz", signal.getsignal(signal.SIGINT)
    expected = FITS["hals"]().fit_transform(wine)
    interrupted_at(13, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        FITS["hals"]().fit(wine, checkpoint_path=path, checkpoint_every=1e9)
    assert signal.getsignal(signal.SIGINT) is before
    done: list[int] = []
    monkeypatch.setattr(base.Factorization, "_log", lambda _, number, value: done.append(number))
    Z = FITS["hals"]().fit_transform(wine, checkpoint_path=path)
    assert done == list(range(14, 31))
    np.testing.assert_allclose(Z, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("times", "then"), [(2, 0.0), (1, 20.0)], ids=["twice", "long iteration"])
def test_ctrl_c_is_not_kept_waiting(
    times: int, then: float, wine: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second Ctrl-C ends the fit at once, and so does one in an iteration that takes long."""
    monkeypatch.setattr("dspnmf.estimators.checkpoint._PATIENCE", 0.1)
    interrupted_at(13, monkeypatch, times, then)
    begin, before = time.monotonic(), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        FITS["hals"]().fit(wine, checkpoint_path=tmp_path / "fit.npz", checkpoint_every=1e9)
    assert time.monotonic() - begin < 10
    assert not (tmp_path / "fit.npz").exists()
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_in_the_last_iteration(wine: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt for which no iteration follows is raised all the same, and nothing is fitted."""
    interrupted_at(30, monkeypatch)
    model = FITS["hals"]()
    with pytest.raises(KeyboardInterrupt):
        model.fit(wine, checkpoint_path=tmp_path / "fit.npz")
    assert not hasattr(model, "components_")


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_killed_fit_ends_where_it_would_have(
    name: str, dtype: Any, wine: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at iteration 13 and called again, every method gives the undisturbed history and codes."""
    X, path = wine.astype(dtype), tmp_path / "fit.npz"
    expected = FITS[name]()
    Z = expected.fit_transform(X)
    kill_at(13, monkeypatch)
    with pytest.raises(Killed):
        FITS[name]().fit(X, checkpoint_path=path, checkpoint_every=0)
    assert path.exists()
    forget_kill(monkeypatch)
    model = FITS[name]()
    Y = model.fit_transform(X, checkpoint_path=path, checkpoint_every=1e9)
    assert model.n_iter_ == expected.n_iter_ >= 13
    tolerance = 1e-9 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=tolerance)
    np.testing.assert_allclose(Y, Z, rtol=1e3 * tolerance, atol=1e3 * tolerance * Z.max())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("solver", ["hals", "newton-cg"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_to_the_last_bit(
    solver: str, dtype: Any, digits: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writing checkpoints, and going on from one, changes no bit of the result."""
    X = digits[:500].astype(dtype)

    def fit(**more: Any) -> Any:
        model = DSPNMF(5, solver=solver, random_state=3, max_iter=25, tol=0)
        return model.fit_transform(X, **more), model.objective_history_

    Z, history = fit()
    kill_at(17, monkeypatch)
    with pytest.raises(Killed):
        fit(checkpoint_path=tmp_path / "fit.npz", checkpoint_every=0)
    forget_kill(monkeypatch)
    Y, resumed = fit(checkpoint_path=tmp_path / "fit.npz", checkpoint_every=0)
    np.testing.assert_array_equal(resumed, history)
    np.testing.assert_array_equal(Y, Z)


@pytest.mark.parametrize("random_state", [0, "generator", None])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_several_starts(
    random_state: Any, times: int, wine: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in any of three starts, the best of all three comes out, and a generator given ends in the same state."""

    def fit(seed: Any, **more: Any) -> Any:
        return DSPNMF(3, n_init=3, random_state=seed, max_iter=12, tol=0).fit(wine, **more)

    def generator() -> Any:
        return np.random.RandomState(5) if random_state == "generator" else random_state

    rng = generator()
    np.random.seed(11)  # noqa: NPY002 - what random_state=None draws from
    expected = fit(rng)
    kill_at(7, monkeypatch, times)
    np.random.seed(11)  # noqa: NPY002 - the same
    with pytest.raises(Killed):
        fit(generator(), checkpoint_path=tmp_path / "fit.npz", checkpoint_every=0)
    forget_kill(monkeypatch)
    again = generator()
    np.random.seed(99)  # noqa: NPY002 - must not matter
    model = fit(again, checkpoint_path=tmp_path / "fit.npz")
    np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=1e-9)
    if random_state == "generator":
        assert again.randint(10**6) == rng.randint(10**6)


@pytest.mark.parametrize("codes", [False, True])
def test_from_a_file(codes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits of data larger than memory go on too, wherever their codes are."""
    monkeypatch.setattr(file, "IN_MEMORY", 0)
    monkeypatch.setattr(reading, "SLAB", 40_000)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((900, 20)))
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    more = {"codes_path": tmp_path / "codes.npy"} if codes else {}

    def fit(**keywords: Any) -> Any:
        return DSPNMF(3, random_state=0, max_iter=20, tol=0, n_init=2).fit_transform(X, **keywords)

    Z = fit()
    kill_at(11, monkeypatch, 2)
    with pytest.raises(Killed):
        fit(checkpoint_path=tmp_path / "fit.npz", checkpoint_every=0, **more)
    forget_kill(monkeypatch)
    np.testing.assert_allclose(fit(checkpoint_path=tmp_path / "fit.npz", **more), Z, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("loss", ["kullback-leibler", "itakura-saito"])
def test_divergences_of_incomplete_rows(loss: str, kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With missing cells, and several starts, a fit goes on as well; other rows or other missing cells are refused."""
    X, path = powers(60, 20), tmp_path / "fit.npz"
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan

    def fit(X: Any, **more: Any) -> Any:
        model = NMF(3, beta_loss=loss, missing="mask", n_init=2, random_state=0, max_iter=20, tol=0)
        return model.fit(kind(X), **more).objective_history_

    expected = fit(X)
    kill_at(13, monkeypatch, 2)
    with pytest.raises(Killed):
        fit(X, checkpoint_path=path, checkpoint_every=0)
    forget_kill(monkeypatch)
    fewer = X.copy()
    fewer[np.isnan(X).argmax(axis=0)[3], 3] = X[~np.isnan(X)].mean()
    for other in (X[::-1], fewer):
        with pytest.raises(ValueError, match=r"norms of X is|X has other rows now, or has them in another order"):
            fit(other, checkpoint_path=path)
    np.testing.assert_allclose(fit(X, checkpoint_path=path), expected, rtol=1e-9)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", ["other codes", "huge V'", "other V'", "memory"])
def test_what_no_fit_of_a_divergence_writes_is_refused(
    how: str, wine: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codes and components of a divergence are checked by the value they give."""
    model, path = NMF(3, beta_loss=1, random_state=0, tol=0), tmp_path / "fit.npz"
    kill_at(9, monkeypatch)
    with pytest.raises(Killed):
        model.fit(wine, checkpoint_path=path, checkpoint_every=0)
    forget_kill(monkeypatch)
    parts, text = CHANGES[how]
    changed(path, **parts)
    text = text if how == "memory" else "its objective is .*, but its history ends with"
    refused(path, rf"is damaged, or not a checkpoint.*{text}", model, wine)


def test_no_more_often_than_asked(wine: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit that takes less than `checkpoint_every` seconds writes nothing."""
    kill_at(10, monkeypatch)
    with pytest.raises(Killed):
        DSPNMF(3, random_state=0, tol=0).fit(wine, checkpoint_path=tmp_path / "fit.npz")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def written(wine: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkpoint of a fit that was killed."""
    kill_at(9, monkeypatch)
    with pytest.raises(Killed):
        DSPNMF(3, random_state=0, tol=0).fit(wine, checkpoint_path=tmp_path / "fit.npz", checkpoint_every=0)
    forget_kill(monkeypatch)
    return tmp_path / "fit.npz"


def refused(path: Path, text: str, model: Any, X: Any, error: type = ValueError, **more: Any) -> None:
    """A fit refuses the file with these words and leaves it as it is."""
    before = path.read_bytes()
    with pytest.raises(error, match=text):
        model.fit(X, checkpoint_path=path, checkpoint_every=0, **more)
    assert path.read_bytes() == before


def test_other_fits_are_refused(written: Path, wine: np.ndarray) -> None:
    """A checkpoint of other data, another method or other parameters is refused, by what differs, and kept."""
    model = DSPNMF(3, random_state=0, tol=0)
    other = "belongs to another fit: "
    refused(written, other + "method is 'DSPNMF' there and 'NMF' here", NMF(3, random_state=0, tol=0), wine)
    refused(written, other + "n_components is 3 there and 4 here", DSPNMF(4, random_state=0, tol=0), wine)
    refused(written, other + "alpha is 1.0 there and 2.0 here", DSPNMF(3, alpha=2.0, random_state=0, tol=0), wine)
    refused(written, other + "random_state is 0 there and 1 here", DSPNMF(3, random_state=1, tol=0), wine)
    refused(written, other + r"shape of X is \[178, 13\] there and \[178, 12\] here", model, wine[:, :12])
    refused(written, other + "dtype of X is 'float64' there", model, wine.astype(np.float32))
    refused(written, other + "norms of X is", model, wine * 0.99)
    refused(written, other + "X has other rows now, or has them in another order", model, wine[::-1])
    refused(written, other + "X has other rows now, or has them in another order", model, sparse.csr_matrix(wine[::-1]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_that_nearly_agree_are_refused(
    dtype: Any, digits: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rows exchanged, or one cell of 64,000 moved within its row, are other data, in float32 too."""
    X, model, path = digits[:1000].astype(dtype), DSPNMF(3, random_state=0, tol=0), tmp_path / "fit.npz"
    kill_at(9, monkeypatch)
    with pytest.raises(Killed):
        model.fit(X, checkpoint_path=path, checkpoint_every=0)
    forget_kill(monkeypatch)
    exchanged, moved = X.copy(), X.copy()
    exchanged[[10, 400]] = X[[400, 10]]
    moved[500, [20, 21]] = X[500, [21, 20]]
    assert moved[500, 20] != moved[500, 21]
    for other in (exchanged, moved, np.asfortranarray(exchanged), sparse.csr_array(exchanged)):
        refused(path, "X has other rows now, or has them in another order|norms of X is", model, other)
    model.fit(sparse.csr_array(X), checkpoint_path=path)
    assert not path.exists()


def test_other_similarities_are_refused(wine: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a graph is all a fit sees of X, a graph of the same rows in another order is refused."""
    model, path = SymNMF(3, random_state=0, tol=0), tmp_path / "fit.npz"
    kill_at(9, monkeypatch)
    with pytest.raises(Killed):
        model.fit(wine, checkpoint_path=path, checkpoint_every=0)
    forget_kill(monkeypatch)
    refused(path, "X has other rows now, or has them in another order", model, wine[::-1])


def test_the_solver_that_ran_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint of newton-cg is refused where "auto" means hals, and goes on there with newton-cg."""
    X, path = np.random.default_rng(0).random((300, 20)), tmp_path / "fit.npz"
    np.save(tmp_path / "x.npy", X)
    kill_at(9, monkeypatch)
    with pytest.raises(Killed):
        DSPNMF(3, random_state=0, tol=0).fit(X, checkpoint_path=path, checkpoint_every=0)
    forget_kill(monkeypatch)
    monkeypatch.setattr(file, "IN_MEMORY", 0)
    stored = np.load(tmp_path / "x.npy", mmap_mode="r")
    text = "belongs to another fit: solver is 'newton-cg' there and 'hals' here"
    refused(path, text, DSPNMF(3, random_state=0, tol=0), stored)
    model = DSPNMF(3, solver="newton-cg", random_state=0, tol=0).fit(stored, checkpoint_path=path)
    expected = DSPNMF(3, random_state=0, tol=0).fit(X)
    np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=1e-9)


def test_verbosity_and_storage_are_no_difference(written: Path, wine: np.ndarray) -> None:
    """The same data stored otherwise, and a fit that says more, go on."""
    expected = DSPNMF(3, random_state=0, tol=0, solver="auto").fit(wine)
    model = DSPNMF(3, random_state=0, tol=0, verbose=1).fit(sparse.csr_matrix(wine), checkpoint_path=written)
    np.testing.assert_allclose(model.objective_history_, expected.objective_history_, rtol=1e-6)


def test_labels_and_starts_count(wine: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is given in addition to X is part of what a checkpoint is known by."""
    y, path = np.arange(len(wine)) % 3, tmp_path / "fit.npz"
    kill_at(9, monkeypatch)
    with pytest.raises(Killed):
        GDNMF(3, random_state=0, tol=0).fit(wine, y, checkpoint_path=path, checkpoint_every=0)
    refused(path, "y, W, H is", GDNMF(3, random_state=0, tol=0), wine, y=(y + 1) % 3)


@pytest.mark.parametrize("harm", ["cut", "flipped", "text", "empty", "another archive"])
def test_damaged_files_are_refused(harm: str, written: Path, wine: np.ndarray) -> None:
    """A file that is damaged, or no checkpoint at all, is refused and kept."""
    content = bytearray(written.read_bytes())
    if harm == "cut":
        written.write_bytes(content[: len(content) // 2])
    elif harm == "flipped":
        with zipfile.ZipFile(written) as archive:
            at = archive.getinfo("codes.npy").header_offset + 300
        content[at] ^= 255
        written.write_bytes(content)
    elif harm == "text":
        written.write_text("not a checkpoint")
    elif harm == "empty":
        written.write_bytes(b"")
    else:
        np.savez(written, a=np.ones(3))
    refused(written, "is damaged, or not a checkpoint of dspnmf .*delete it", DSPNMF(3, random_state=0, tol=0), wine)


def changed(path: Path, **parts: Any) -> None:
    """Write a checkpoint again with other arrays, or other facts in its note."""
    with np.load(path, allow_pickle=False) as content:
        arrays = dict(content)
    about = json.loads(str(arrays["about"]))
    for name, value in parts.items():
        (about if name in about else arrays)[name] = value
    np.savez(path, **arrays | {"about": np.array(json.dumps(about))})


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "codes by columns": ({"codes": np.asfortranarray(np.ones((178, 3)))}, "codes is stored by columns"),
    "fewer codes": ({"codes": np.ones((177, 3))}, r"codes has shape \(177, 3\), but must have \(178, 3\)"),
    "other codes": ({"codes": np.ones((178, 3))}, "its sums are not those of its codes"),
    "codes below 0": ({"codes": -np.ones((178, 3))}, "codes has entries that are not finite, or negative"),
    "float32 codes": ({"codes": np.ones((178, 3), "f4")}, "codes has dtype float32, but must be float64"),
    "small Q": ({"Q": np.ones((1, 1))}, r"Q has shape \(1, 1\), but must have \(3, 3\)"),
    "wide V'": ({"Vt": np.ones((13, 4))}, r"Vt has shape \(13, 4\), but must have \(13, 3\)"),
    "huge P": ({"P": np.full((13, 3), 1e300)}, "its sums are not those of its codes"),
    "huge V'": ({"Vt": np.full((13, 3), 1e300)}, "its objective is (inf|nan), but its history ends with"),
    "other V'": ({"Vt": np.ones((13, 3))}, "its objective is .*, but its history ends with"),
    "NaN": ({"history": np.array([np.nan])}, "history has entries that are not finite"),
    "no history": ({"history": np.empty(0)}, "a history of 0 values"),
    "start": ({"start": 5}, "no fit writes start=5"),
    "operators": ({"operators": 10**9}, "no fit writes operators=1000000000"),
    "memory": ({"memory": {"stretch": -1}}, "no fit writes memory="),
    "generator": ({"generator": ["MT19937", 10**6, 0, 0.0]}, "no fit writes generator="),
    "words": ({"generator": ["MT19937", 5, 0, "x"]}, "must be real number"),
}


@pytest.mark.parametrize("how", CHANGES)
def test_what_no_fit_writes_is_refused(how: str, written: Path, wine: np.ndarray) -> None:
    """Every array and every fact of a checkpoint is checked before it is used."""
    parts, text = CHANGES[how]
    changed(written, **parts)
    refused(written, rf"is damaged, or not a checkpoint.*{text}", DSPNMF(3, random_state=0, tol=0), wine)


def test_sweeps_are_bounded(wine: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint that asks for a billion sweeps gets no more than a fit would take."""
    model, path = DSPNMF(3, solver="hals", random_state=0, max_iter=12, tol=0), tmp_path / "fit.npz"
    kill_at(9, monkeypatch)
    with pytest.raises(Killed):
        model.fit(wine, checkpoint_path=path, checkpoint_every=0)
    forget_kill(monkeypatch)
    rounding = {"unit": 0.0, "factor": 1.0, "drift": 0.0, "last": 0.0}
    changed(path, memory={"stretch": 1e300, "momentum": 1e300, **rounding, "now": 10**9})
    assert model.fit(wine, checkpoint_path=path).n_iter_ == 12


def test_nothing_is_unpickled(written: Path) -> None:
    """Every part of a checkpoint is a plain array."""
    with np.load(written, allow_pickle=False) as content:
        assert {"about", "codes", "Vt", "before", "P", "Q", "history", "generator"} <= set(content)
        assert all(content[name].dtype.kind in "fUu" for name in content)


def test_bad_arguments(wine: np.ndarray, tmp_path: Path) -> None:
    """Paths that cannot be written and times that are none are refused before any work."""
    with pytest.raises(ValueError, match="must name a file in a folder that exists"):
        NMF(2).fit(wine, checkpoint_path=tmp_path / "nowhere" / "fit.npz")
    with pytest.raises(TypeError, match="checkpoint_path=True is not allowed: it must be the path of a file"):
        NMF(2).fit(wine, checkpoint_path=True)
    for every in (-1, np.nan, "60", True):
        with pytest.raises(ValueError, match=r"checkpoint_every=.* is not allowed: it must be a number of seconds"):
            NMF(2).fit(wine, checkpoint_path=tmp_path / "fit.npz", checkpoint_every=every)


def test_checkpoint_and_codes_are_two_files(wine: np.ndarray, tmp_path: Path) -> None:
    """One path for both, by any name, is refused before any work: the end of the fit would remove the codes."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "out.npy")
    for codes in (tmp_path / "out.npy", tmp_path / "sub" / ".." / "out.npy", tmp_path / "link"):
        with pytest.raises(ValueError, match="is the file of the checkpoint too"):
            NMF(2).fit(wine, checkpoint_path=tmp_path / "out.npy", codes_path=codes)
    assert not (tmp_path / "out.npy").exists()


def test_rules_that_cannot_be_resumed_say_so(wine: np.ndarray, tmp_path: Path) -> None:
    """Rules that remember more than codes and components refuse a checkpoint before any iteration."""
    for model in (SDNMF(2), FRNMF(2, solver="paper")):
        with pytest.raises(
            ValueError,
            match=f"{type(model).__name__} keeps no checkpoint here: .* Leave checkpoint_path out",
        ):
            model.fit(wine, checkpoint_path=tmp_path / "fit.npz")
    assert list(tmp_path.iterdir()) == []


_FIT = """
import sys, numpy as np
from dspnmf import NMF
X = np.random.default_rng(0).random((60_000, 12), dtype=np.float32)
model = NMF(8, random_state=0, max_iter=60, tol=0)
model.fit(X, **({"checkpoint_path": sys.argv[1], "checkpoint_every": 0} if len(sys.argv) > 1 else {}))
print(model.n_iter_, repr(model.objective_))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Killed by the system at random moments, mostly while it writes, a fit leaves a whole checkpoint and goes on."""
    path, command = tmp_path / "fit.npz", [sys.executable, "-c", _FIT]
    rng, done = np.random.default_rng(), []
    for _ in range(3):
        fit = subprocess.Popen([*command, str(path)])
        before = path.stat().st_mtime_ns if path.exists() else 0
        while fit.poll() is None and not (path.exists() and path.stat().st_mtime_ns > before):
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.1))
        fit.send_signal(signal.SIGKILL)
        assert fit.wait() == -signal.SIGKILL
        with np.load(path, allow_pickle=False) as content:
            done.append(len(content["history"]) - 1)
            assert content["codes"].shape == (60_000, 8)
            assert np.isfinite(content["codes"]).all()
    assert 0 < done[0] < done[1] < done[2]
    resumed = subprocess.run([*command, str(path)], capture_output=True, text=True, check=True).stdout.split()
    undisturbed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert resumed[0] == undisturbed[0]
    assert float(resumed[1]) == pytest.approx(float(undisturbed[1]), rel=1e-9)
    assert list(tmp_path.iterdir()) == []

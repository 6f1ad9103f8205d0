"""Rows and data on a device against those in memory: the same model, operators and codes give the same numbers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dspnmf.backends.batch_history import RowsWithHistory
from dspnmf.backends.incomplete import IncompleteData
from dspnmf.backends.memory import MEMORY, MemoryData
from dspnmf.backends.row_model import Completion, Operator, RowModel, Ties

torch = pytest.importorskip("torch", reason="Torch is not installed")

from device_tensors import DEVICES, AnyDevice, Fit, device_data, needs_cuda, tensor  # noqa: E402  # not without Torch
from dspnmf.backends import tensor_nnls  # noqa: E402

N, M, K, SCALE = 157, 24, 5, 1.7
pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning"),
]
on_devices = pytest.mark.parametrize("device", DEVICES)
layouts = pytest.mark.parametrize("layout", ["dense", "csr"])
precisions = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def data(layout: str, dtype: Any = np.float64, holes: bool = False) -> Any:
    """X with zeros in it, and if asked NaN in a tenth of its other cells."""
    rng = np.random.default_rng(0)
    X = (rng.random((N, K)) ** 2 @ rng.random((K, M)) + 0.1 * rng.random((N, M))) * (rng.random((N, M)) < 0.7)
    if holes:
        X[(rng.random((N, M)) < 0.1) & (X > 0)] = np.nan
    return sparse.csr_array(X.astype(dtype)) if layout == "csr" else X.astype(dtype)


def memory_data(X: Any) -> Any:
    """X in memory."""
    values = X.data if sparse.issparse(X) else X
    kind = IncompleteData if np.isnan(values).any() else MemoryData
    return kind(X, MEMORY, float(np.nanmax(values)))


def both(X: Any, device: str) -> tuple[Any, Any]:
    """X in memory, and on the device."""
    return memory_data(X), device_data(X, device, "mask")


def graph(seed: int, *, constant: bool) -> Operator:
    """The Laplacian of a random graph: with its degrees, or normalized to a constant diagonal."""
    A = sparse.random_array((N, N), density=0.05, rng=np.random.default_rng(seed), format="csr")
    A = sparse.csr_array(A + A.T)
    degrees = np.asarray(A.sum(axis=1)).ravel() + 0.1
    if not constant:
        return Operator(A, degrees)
    half = sparse.diags_array(degrees**-0.5)
    return Operator(sparse.csr_array(half @ A @ half), np.ones(N))


MASK = Operator(sparse.csr_array((N, N)), (np.arange(N) % 3 == 0).astype(float))
OPERATORS: dict[str, tuple[Operator, ...]] = {
    "none": (),
    "constant": (graph(1, constant=True),),
    "varying": (graph(1, constant=True), graph(2, constant=False)),
    "mask": (MASK,),
}
operators = pytest.mark.parametrize("between", list(OPERATORS))


def model_of(between: str, width: int = M, coupling: float = 0.005) -> RowModel:
    """A convex model with a part for every operator: matrices where diagonals are constant, otherwise diagonals."""
    rng = np.random.default_rng(3)

    def square() -> Any:
        A = rng.random((K, K))
        return A @ A.T / K + 0.1 * np.eye(K)

    S, pull = square(), rng.random((width, K)) / width
    pulls: dict[int, Any] = {}
    curves: dict[int, Any] = {}
    for j, operator in enumerate(OPERATORS[between]):
        constant = bool((operator.diagonal == operator.diagonal[0]).all())
        pulls[j], curves[j] = 0.2 * square(), 0.1 * square() if constant else 0.1 * rng.random(K)
    return RowModel(S, pull, coupling, pulls, curves)


def moved(model: RowModel, rows: Any) -> RowModel:
    """The model where the rows keep their small arrays."""
    adopt = rows.small.adopt
    parts = ({j: adopt(A) for j, A in part.items()} for part in (model.pulls, model.curves))
    return RowModel(adopt(model.S), adopt(model.M), model.coupling, *parts)


class Pair:
    """The same rows in memory and on a device, asked the same."""

    def __init__(self, X: Any, device: str, between: str = "none") -> None:
        self.memory, self.device = (d.rows(K, SCALE, OPERATORS[between]) for d in both(X, device))
        self.rtol = 1e-10 if X.dtype == np.float64 else 2e-3
        U = np.random.default_rng(4).random((N, K)) * (np.random.default_rng(5).random((N, K)) < 0.8)
        for rows in (self.memory, self.device):
            rows.begin(U.astype(X.dtype))

    def same(self, found: Any, known: Any) -> None:
        """Whether results agree, relative to the largest number of each array."""
        if isinstance(known, tuple):
            names = known._fields if hasattr(known, "_fields") else None
            parts = [getattr(found, name) for name in names] if names else list(found)
            assert len(parts) == len(known)
            for part, expected in zip(parts, known, strict=True):
                self.same(part, expected)
            return
        found, known = self.device.small.host(found), np.asarray(known)
        assert found.shape == known.shape
        assert np.abs(found - known).max(initial=0.0) <= self.rtol * max(np.abs(known).max(initial=0.0), 1e-12)

    def same_codes(self) -> None:
        """Whether the codes agree."""
        self.same(np.concatenate(list(self.device.save_codes())), self.memory.codes)


@on_devices
@layouts
@precisions
@pytest.mark.parametrize("tied", ["alone", "pulled", "tied"])
def test_solve(device: str, layout: str, dtype: Any, tied: str) -> None:
    """Codes of separate rows are the minimum that memory finds, with the pull and the curvature of ties too."""
    pair, model, rng = Pair(data(layout, dtype), device), model_of("none"), np.random.default_rng(6)
    model = model._replace(S=model.S + np.eye(K))
    parts = (rng.random((N, K)).astype(dtype), rng.random(N).astype(dtype), rng.random(K).astype(dtype))
    ties = {"alone": None, "pulled": Ties(parts[0]), "tied": Ties(*parts)}[tied]
    found, known = pair.device.solve(model, ties), pair.memory.solve(model, ties)
    pair.same(found.T, known)
    if tied == "pulled":
        own = Ties(torch.from_numpy(parts[0].T.copy()).to(device))
        pair.same(pair.device.solve(moved(model, pair.device), own).T, known)


@on_devices
@pytest.mark.parametrize("tied", [False, True], ids=["alone", "tied"])
@pytest.mark.parametrize("k", [3, 40])
def test_rows_by_pivoting(device: str, tied: bool, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No move of a code lowers the model, also where components are much alike; rows that are left go to the host."""
    rng = np.random.default_rng(0)
    V = rng.random((k, 60)) + 2 * rng.random((1, 60))
    S, G = V @ V.T, V @ (rng.random((60, 200)) ** 3 * 5)
    weight, lengths = 5 * rng.random(200), rng.random(k)
    rows = tensor_nnls.RowCurvature(tensor(weight, device), tensor(lengths, device)) if tied else None
    own = weight * lengths[:, None] if tied else 0.0
    for rounds in (tensor_nnls.ROUNDS, -3 * k):
        monkeypatch.setattr(tensor_nnls, "ROUNDS", rounds)
        Y = tensor_nnls.solve_rows(tensor(G, device), tensor(S, device), rows).cpu().numpy()
        rise, size = G - S @ Y - own * Y, np.abs(G).max()
        assert Y.min() >= 0
        assert 0.05 < (Y > 0).mean() < 0.9
        assert np.abs(rise[Y > 0]).max() <= 1e-9 * size
        assert rise.max() <= 1e-9 * size


# -- data --------------------------------------------------------------------------------------------------------------


@on_devices
def test_gram_norm_in_tiles(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles add up to the whole, whichever side is smaller."""
    from dspnmf.backends import cuda_data

    monkeypatch.setattr(cuda_data, "_TILE", 7)
    monkeypatch.setattr(cuda_data, "CHUNK", 7 * 11)
    for X in (data("dense"), np.ascontiguousarray(data("dense").T)):
        expected = float(np.linalg.norm(X.T @ X / SCALE**2) ** 2)
        assert device_data(X, device).gram_norm2(SCALE) == pytest.approx(expected)


@on_devices
@layouts
def test_empty_rows_and_columns(device: str, layout: str) -> None:
    """Rows of zeros keep zero length; a matrix of zeros has facts too."""
    X = np.zeros((4, 3))
    X[1, 2] = 2.0
    for A in (X, 0 * X):
        X2 = sparse.csr_array(A) if layout == "csr" else A
        known, found = MemoryData(X2, MEMORY, A.max()), device_data(X2, device)
        assert (found.largest, found.mean(), found.norm2(2.0)) == (known.largest, known.mean(), known.norm2(2.0))
        rows = found.with_unit_rows(2.0).rows(2, 2.0)
        rows.begin(np.ones((4, 2)))
        np.testing.assert_allclose(rows.small.host(rows.sums()[0])[3:].sum(), 2.0 * (A > 0).sum())


BAD: list[tuple[str, float, str]] = [
    ("error", np.nan, r"NaN, first at X\[3, 2\]"),
    ("error", -1.0, r"first at X\[3, 2\] = -1"),
    ("mask", -1.0, r"first at X\[3, 2\] = -1"),
    ("mask", np.inf, r"infinity, first at X\[3, 2\]"),
]


@on_devices
@layouts
@pytest.mark.parametrize(("missing", "value", "match"), BAD)
def test_bad_cells_are_named(device: str, layout: str, missing: str, value: float, match: str) -> None:
    """The first cell that is no entry of X is named; NaN only where it does not mean a missing cell."""
    X = np.random.default_rng(0).random((6, 5))
    X[3, 2] = value
    if missing == "mask":
        X[1, 1] = np.nan
    with pytest.raises(ValueError, match=match):
        device_data(sparse.csr_array(X) if layout == "csr" else X, device, missing)


@on_devices
def test_nothing_known(device: str) -> None:
    """An X without a known cell is refused; cells that a CSR tensor does not store are known."""
    X = np.full((3, 2), np.nan)
    with pytest.raises(ValueError, match="All 3 x 2 cells of X are missing"):
        device_data(X, device, "mask")
    stored = sparse.csr_array(([np.nan], [1], [0, 0, 1, 1]), shape=(3, 2))
    assert device_data(stored, device, "mask").mean() == 0.0


def test_codes_in_a_file() -> None:
    """Codes on a device cannot be stored in a file while they are found."""
    from pathlib import Path

    backend = AnyDevice(torch.device("cpu"))
    assert backend.storing(None) is backend
    with pytest.raises(ValueError, match=r"codes\.npy"):
        backend.storing(Path("codes.npy"))


# -- missing cells -----------------------------------------------------------------------------------------------------


@on_devices
@layouts
@precisions
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_cells_are_completed(device: str, layout: str, dtype: Any, twice: bool) -> None:
    """After every iteration cells are those of UV, similarities after 1, 2, 4: sums and norms are those of memory."""
    X, rtol = data(layout, dtype, holes=True), 1e-10 if dtype == np.float64 else 1e-3
    labels, rows = np.random.default_rng(2).random((N, 2)).astype(dtype), []
    for each in both(X, device):
        wide = (each.with_similarity_block()[0] if twice else each).widened("labels", labels)
        rows.append(wide.rows(K, SCALE, OPERATORS["constant"]))
    memory, ours = rows
    assert ours.completes
    U = np.random.default_rng(4).random((N, K)).astype(dtype)
    for _ in range(2):  # a second start begins where the first did
        for each in rows:
            each.restart()
            each.begin(U.copy())
        for turn in range(4):
            for known, found in zip(memory.sums()[:2], ours.sums()[:2], strict=True):
                np.testing.assert_allclose(ours.small.host(found), known, rtol=rtol)
            Vt = np.random.default_rng(turn).random((ours.shape[1], K))
            known, found = memory.refresh(Vt), ours.refresh(ours.small.adopt(Vt))
            assert found.keys() == known.keys()
            for name in known:
                assert found[name].norm2 == pytest.approx(known[name].norm2, rel=rtol)
                assert found[name].gram_norm2() == pytest.approx(known[name].gram_norm2(), rel=rtol)


@on_devices
@layouts
@precisions
def test_new_rows_with_missing_cells(device: str, layout: str, dtype: Any) -> None:
    """Codes of incomplete rows and their cells settle where they settle in memory."""
    X, rng = data(layout, dtype, holes=True), np.random.default_rng(1)
    Vt = rng.random((M, K))
    S = Vt.T @ Vt + 0.5 * np.eye(K)
    for goal in (np.zeros((M, K)), 0.2 * rng.random((M, K))):
        codes = []
        for each in both(X, device):
            completion = Completion(Vt, 1.0, each.column_means())
            codes.append(each.rows(K, SCALE).solve(RowModel(S, Vt + goal), completion=completion))
        found, known = codes[1].T.cpu().numpy(), codes[0]
        assert np.abs(found - known).max() <= (1e-6 if dtype == np.float64 else 1e-3) * np.abs(known).max()


# -- batches -----------------------------------------------------------------------------------------------------------


@on_devices
@layouts
@precisions
def test_batches_with_a_history(device: str, layout: str, dtype: Any) -> None:
    """Rows of a batch and the mixing of earlier codes move as in memory."""
    pair, rng = Pair(data(layout, dtype), device), np.random.default_rng(3)
    earlier, codes = rng.random((50, M)), rng.random((50, K))
    P, Q = earlier.T @ codes / SCALE, codes.T @ codes
    known, found = (RowsWithHistory(rows, P, Q, 50) for rows in (pair.memory, pair.device))
    assert found.shape == (N + 50, M)
    assert (found.completes, found.refresh(None)) == (False, None)
    Vt = rng.random((M, K))
    for t in (0.8, 1.0, 0.5):
        model = RowModel(Vt.T @ Vt + 0.1 * np.eye(K), Vt)
        pair.same(found.sums(), known.sums())
        pair.same(found.look(moved(model, pair.device), 3, 1.5), known.look(model, 3, 1.5))
        known.step(t)
        found.step(torch.tensor(t, dtype=torch.float64, device=device))
        pair.same(found._T, known._T)
    pair.same(found.sums(), known.sums())
    pair.same_codes()


@needs_cuda
@layouts
def test_nothing_waits_for_the_device(layout: str) -> None:
    """Looks, conjugate gradients and their sums, operators included, leave the host free to go on."""
    pair = Pair(data(layout), "cuda", "varying")
    rows, model = pair.device, moved(model_of("varying"), pair.device)
    half, inverse = rows.small.adopt(np.float64(0.5)), rows.small.adopt(np.eye(K))

    def iteration() -> Sequence[Any]:
        rows.look(model, 2, 1.2)
        rows.step(half)
        D, _, _ = rows.face(model, 2)
        along = rows.couple(rows.cg_start(half, half, model, D.UD, inverse))
        along = rows.couple(rows.cg_step(half, half, model, along.UD, inverse))
        rows.step(half)
        return along.DLD, rows.project(), rows.combine(half)

    iteration()
    torch.cuda.synchronize()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that the mode is a prototype
            torch.cuda.set_sync_debug_mode("error")
        iteration()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@needs_cuda
@pytest.mark.parametrize("k", [5, 80])
@pytest.mark.parametrize("solver", ["hals", "newton-cg"])
def test_recorded_iterations_are_those_done_one_by_one(solver: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit whose iterations are recorded once and repeated gives the bits of one that launches all of its work."""
    from dspnmf import DSPNMF
    from dspnmf.backends.cuda_small import DeviceSmall

    X, fits = tensor(np.random.default_rng(0).random((3000, 100)).astype(np.float32), "cuda"), []
    for recorded in (True, False):
        if not recorded:
            monkeypatch.setattr(DeviceSmall, "repeated", lambda self, owner, function, *arguments: function(*arguments))
        fits.append(DSPNMF(k, solver=solver, n_init=2, max_iter=8, tol=0, random_state=0).fit(X))
    np.testing.assert_array_equal(fits[0].objective_history_, fits[1].objective_history_)
    np.testing.assert_array_equal(fits[0].components_.cpu(), fits[1].components_.cpu())


@needs_cuda
def test_history_has_digits_in_float32() -> None:
    """At alpha = 1, where all is structure, objectives in float32 are those of the codes, to a thousandth."""
    from dspnmf import DSPNMF

    rng = np.random.default_rng(0)
    X = (rng.random((200_000, 6)) ** 3 @ rng.random((6, 64)) ** 3 + 0.05 * rng.random((200_000, 64))).astype(np.float32)
    for iterations in (1, 5, 30):
        model = DSPNMF(6, max_iter=iterations, tol=0, random_state=0)
        Z = model.fit_transform(tensor(X, "cuda")).double().cpu().numpy()
        wide, V = X.astype(np.float64), model.components_.double().cpu().numpy()
        P, Q, G = wide.T @ Z, Z.T @ Z, wide.T @ wide
        direct = np.sum((wide - Z @ V) ** 2) + np.sum(G**2) - 2 * np.sum(P**2) + np.sum(Q**2)
        assert model.objective_ == pytest.approx(direct, rel=1e-3)
        assert model.objective_history_[-1] == pytest.approx(direct, rel=1e-3)


@on_devices
def test_codes_and_components_come_back_as_tensors(device: str) -> None:
    """What a user gets is on the device X was on: codes n x k, components, samples."""
    backend, X = AnyDevice(torch.device(device)), data("dense")
    rows = backend.check(Fit(), tensor(X, device), reset=True).rows(K, 1.0)
    rows.begin(np.ones((N, K)))
    Z, V = backend.codes(rows.codes), backend.components(np.ones((K, M)))
    assert (Z.shape, V.shape, Z.device.type, V.device.type) == ((N, K), (K, M), device, device)
    np.testing.assert_allclose(backend.samples(Z, V).cpu(), np.full((N, M), K))

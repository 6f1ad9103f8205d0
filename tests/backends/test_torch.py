"""Tensors: on the CPU they are NumPy arrays, on a device the same fit with everything kept there."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import dspnmf
from dspnmf import DSPNMF, GNMF, NMF
from dspnmf.backends import MemoryRows, RowModel
from dspnmf.backends.small_arrays import LONGEST, best_step, components

torch = pytest.importorskip("torch", reason="Torch is not installed")

from device_tensors import DEVICES, AnyDevice, needs_cuda  # noqa: E402  # not without Torch
from dspnmf.backends import cuda, cuda_tiles, tensors  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning"),
]


@pytest.fixture(params=DEVICES)
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A device whose tensors get rows of their own."""
    if request.param == "cpu":
        monkeypatch.setattr(tensors, "backend_for", lambda X: AnyDevice(X.device))
    return request.param


def planted(n: int = 300, m: int = 40, k: int = 5, dtype: Any = np.float64) -> np.ndarray:
    """Non-negative factors and noise: the objective stays well above rounding."""
    rng = np.random.default_rng(0)
    return (rng.random((n, k)) ** 3 @ rng.random((k, m)) ** 3 + 0.3 * rng.random((n, m))).astype(dtype)


def tensor(X: np.ndarray, layout: str, where: str) -> Any:
    """X as a tensor."""
    dense = torch.from_numpy(X).to(where)
    return dense.to_sparse_csr() if layout == "csr" else dense


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_cpu_tensors_are_numpy_arrays(layout: str, dtype: Any) -> None:
    """A CPU tensor gives the codes of the NumPy array, bit by bit, as a tensor; so do transform and the way back."""
    X = planted(dtype=dtype)
    plain = sparse.csr_array(X) if layout == "csr" else X
    expected, model = DSPNMF(5, random_state=0, max_iter=30), DSPNMF(5, random_state=0, max_iter=30)
    Z, T = (
        expected.set_params(tol=0).fit_transform(plain),
        model.set_params(tol=0).fit_transform(tensor(X, layout, "cpu")),
    )
    assert isinstance(T, torch.Tensor)
    assert isinstance(model.components_, torch.Tensor)
    np.testing.assert_array_equal(T.numpy(), Z)
    np.testing.assert_array_equal(model.transform(tensor(X, layout, "cpu")).numpy(), expected.transform(plain))
    back = model.inverse_transform(T)
    assert isinstance(back, torch.Tensor)
    np.testing.assert_allclose(back.numpy(), expected.inverse_transform(Z), rtol=1e-5)
    np.testing.assert_allclose(model.inverse_transform(Z), expected.inverse_transform(Z), rtol=1e-5)


def test_cpu_tensors_in_the_family() -> None:
    """Methods with a graph take CPU tensors as well."""
    X = planted()
    np.testing.assert_array_equal(GNMF(3, random_state=0).fit_transform(torch.from_numpy(X)).numpy(),
                                  GNMF(3, random_state=0).fit_transform(X))  # fmt: skip


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("solver", ["hals", "newton-cg"])
@pytest.mark.parametrize("cls", [DSPNMF, NMF])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_history_is_that_of_numpy(cls: Any, solver: str, layout: str, dtype: Any, where: str) -> None:
    """The same start, the same objective history over 50 iterations: to 1e-9, in float32 to 1e-4.

    Both terms weigh the same: where the structure term outweighs all, its float32 rounding is more than 1e-4 of what
    is left of it, and even dense and CSR arrays in memory differ by more.
    """
    X = planted(dtype=dtype)
    parameters = {"solver": solver, "max_iter": 50, "tol": 0, "random_state": 0, "inner_iter": 4}
    if cls is DSPNMF:
        parameters["alpha"] = float(np.sum(X**2) / np.linalg.norm(X.T @ X) ** 2)
    expected = cls(5, **parameters).fit(X).objective_history_
    model = cls(5, **parameters)
    Z = model.fit_transform(tensor(X, layout, where))
    np.testing.assert_allclose(model.objective_history_, expected, rtol=1e-9 if dtype == np.float64 else 1e-4)
    assert Z.device.type == model.components_.device.type == where
    assert Z.dtype == model.components_.dtype == (torch.float64 if dtype == np.float64 else torch.float32)
    assert (np.diff(model.objective_history_) <= 1e-6 * model.objective_history_[0]).all()


FAMILY: dict[str, dict[str, Any]] = {
    "GNMF": {},
    "SymNMF": {},
    "NSNMF": {},
    "NPNMF": {},
    "SPNMF": {},
    "GDNMF": {},
    "DSPNMF cosine": {"similarity": "cosine"},
    "DSPNMF diffused": {"similarity": "diffused", "alpha": "auto"},
    "DSPNMF knn": {"similarity": "knn"},
    "DSPNMF self-tuned": {"similarity": "self-tuned"},
    "DSPNMF labels": {"label_weight": 2.0},
    "DSPNMF missing": {"missing": "mask"},
    "NMF missing": {"missing": "mask"},
}


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("solver", ["hals", "newton-cg"])
@pytest.mark.parametrize("name", FAMILY)
def test_the_family_is_that_of_numpy(name: str, solver: str, layout: str, where: str) -> None:
    """Every method on a device: objective, codes and components of NumPy in float64, to 1e-8 over 50 iterations."""
    X = planted(150, 30)
    if "missing" in FAMILY[name]:
        X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    parameters = {"solver": solver, "max_iter": 50, "tol": 0, "random_state": 0, "inner_iter": 4, **FAMILY[name]}
    labelled = name == "GDNMF" or "label_weight" in FAMILY[name]
    y = np.where(np.arange(len(X)) % 2 == 0, np.arange(len(X)) % 3, -1) if labelled else None
    cls = getattr(dspnmf, name.split()[0])
    known, found = cls(4, **parameters), cls(4, **parameters)
    expected = known.fit_transform(sparse.csr_array(X) if layout == "csr" else X, y)
    Z = found.fit_transform(tensor(X, layout, where), y)
    np.testing.assert_allclose(found.objective_history_, known.objective_history_, rtol=1e-8)
    np.testing.assert_allclose(Z.cpu(), expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())
    if hasattr(known, "components_"):
        np.testing.assert_allclose(found.components_.cpu(), known.components_, rtol=1e-6, atol=1e-8)
    if hasattr(known, "components_") and name != "DSPNMF self-tuned":  # such a graph says nothing of new rows
        new = known.transform(sparse.csr_array(X[::2]) if layout == "csr" else X[::2])
        theirs = found.transform(tensor(X[::2], layout, where))
        np.testing.assert_allclose(theirs.cpu(), new, rtol=1e-5, atol=1e-6 * np.abs(new).max())


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("cls", [DSPNMF, NMF])
def test_batches_are_those_of_numpy(cls: Any, layout: str, where: str) -> None:
    """Batch after batch on a device, components and error are those of NumPy."""
    X = planted(240, 30)
    known, found = (cls(4, random_state=0, max_iter=10, tol=0, inner_iter=4) for _ in range(2))
    for i in range(0, len(X), 80):
        batch = X[i : i + 80]
        known.partial_fit(sparse.csr_array(batch) if layout == "csr" else batch)
        found.partial_fit(tensor(batch, layout, where))
        assert found.reconstruction_err_ == pytest.approx(known.reconstruction_err_, rel=1e-8)
        np.testing.assert_allclose(found.components_.cpu(), known.components_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_transform_gives_the_codes_of_the_fit(layout: str, where: str) -> None:
    """Codes of the training rows are those of the fit; NumPy rows get the same from a model fitted on a device."""
    X = planted()
    model = DSPNMF(5, random_state=0, tol=1e-8, max_iter=500)
    Z = model.fit_transform(tensor(X, layout, where))
    np.testing.assert_allclose(model.transform(tensor(X, layout, where)).cpu(), Z.cpu(), atol=1e-5)
    np.testing.assert_allclose(model.transform(X), Z.cpu(), atol=1e-5)


def test_errors_are_those_of_numpy(where: str) -> None:
    """Norms, objective and both errors agree with NumPy's."""
    X = planted(200, 30)
    expected, model = (DSPNMF(4, random_state=0, max_iter=20, tol=0, inner_iter=8) for _ in range(2))
    expected.fit(X)
    model.fit(tensor(X, "csr", where))
    for name in ("objective_", "reconstruction_err_", "structure_err_"):
        assert getattr(model, name) == pytest.approx(getattr(expected, name), rel=1e-6)


def all_tiles() -> list[Any]:
    """Every implementation of the work on tiles that this machine can run."""
    found = [pytest.param("plain", id="plain")]
    return [*found, pytest.param("fused", id="fused", marks=needs_cuda)]


def work(kind: str, k: int, dtype: Any) -> tuple[Any, str]:
    """An implementation, and its device."""
    if kind == "plain":
        return cuda_tiles.PlainTiles(), "cpu"
    from dspnmf.backends.cuda_fused import tiles_for

    return tiles_for(torch.zeros(1, 1, device="cuda", dtype=torch.from_numpy(np.zeros(1, dtype)).dtype), k), "cuda"


@pytest.mark.parametrize("kind", all_tiles())
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 5, 20, 33, 80, 200])
def test_products_and_sweeps(kind: str, k: int, dtype: Any) -> None:
    """Pull, push, a look's direction and its sums are those of the NumPy rows, for ranks that fill a tile or do not."""
    X = planted(257, 70, dtype=dtype)
    rng = np.random.default_rng(3)
    U, M, A = rng.random((257, k), dtype=dtype), rng.random((70, k)), rng.random((k, k))
    S = A @ A.T + np.eye(k)
    plain = MemoryRows(X, k)
    plain.begin(U.copy())
    expected = plain.look(RowModel(S, M), 3, 1.5)
    ours, kept = work(kind, k, dtype)
    data, codes = torch.from_numpy(X).to(kept), torch.from_numpy(np.ascontiguousarray(U.T)).to(kept)
    D, curvature = torch.zeros_like(codes), torch.from_numpy(S).to(kept)
    G = ours.pull(data, torch.from_numpy(M).to(kept), k)
    rtol = 2e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(G.cpu().numpy(), (X @ M.astype(dtype)).T, rtol=rtol)
    _, _, DD, UD = ours.look(G, codes, D, torch.zeros((), dtype=torch.float64, device=kept), curvature, 3, 1.5)
    for found, known in ((UD, expected.UD), (DD, expected.DD), (ours.push(data, D), expected.PD)):
        np.testing.assert_allclose(found.cpu().numpy(), known, rtol=50 * rtol, atol=5 * rtol * np.abs(known).max())


@pytest.mark.parametrize("kind", all_tiles())
def test_small_side(kind: str) -> None:
    """The exact step and the sweeps over components are those of the host."""
    ours, kept = work(kind, 6, np.float64)
    rng = np.random.default_rng(0)
    for _ in range(50):
        c = rng.standard_normal(4) * 10.0 ** rng.integers(-3, 4, 4)
        t, reach, gain = ours.best_step(torch.from_numpy(c).to(kept))
        assert float(gain) == pytest.approx(np.polyval([*c[::-1], 0.0], float(t)), abs=1e-9 * np.abs(c).max())
        for found, end in ((t, 1.0), (reach, 2 * LONGEST)):
            value, best = (np.polyval([*c[::-1], 0.0], float(at)) for at in (found, best_step(c, end)))
            assert value <= best + 1e-9 * np.abs(c).max()
    Vt, P, Q = rng.random((50, 6)), rng.random((50, 6)), rng.random((6, 6))
    Q = Q @ Q.T + 0.1 * np.eye(6)
    found = ours.components(*(torch.from_numpy(A).to(kept) for A in (Vt, P, Q)), 1e-13)
    np.testing.assert_allclose(found.cpu().numpy(), components(Vt, P, Q), rtol=1e-9, atol=1e-12)


UNUSUAL: dict[str, tuple[Any, str]] = {
    "coo": (lambda X: X.to_sparse_coo(), r"layout torch\.sparse_coo: .*X\.to_sparse_csr\(\)"),
    "half": (lambda X: X.half(), r"tensor of torch\.float16, .*X\.float\(\)"),
    "bfloat16": (lambda X: X.bfloat16(), r"tensor of torch\.bfloat16, .*X\.float\(\)"),
    "half csr": (lambda X: X.to_sparse_csr().half(), r"tensor of torch\.float16, .*X\.float\(\)"),
    "complex": (lambda X: X + 1j, r"tensor of torch\.complex64, .*X\.float\(\)"),
    "meta": (lambda X: X.to("meta"), r"tensor on meta, .*X\.cpu\(\)"),
}


@pytest.mark.parametrize("kind", UNUSUAL)
@pytest.mark.parametrize("kept", DEVICES)
def test_unusual_tensors_are_refused(kind: str, kept: str) -> None:
    """A layout, a precision or a device without kernels is named, with what to pass instead."""
    make, text = UNUSUAL[kind]
    with pytest.raises(ValueError, match=text):
        DSPNMF(2).fit(make(torch.rand(5, 4, device=kept)))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
@pytest.mark.parametrize("kept", DEVICES)
def test_whole_numbers(dtype: Any, kept: str) -> None:
    """Integers and flags are numbers: as data they become float64, as codes they take the components' precision."""
    X = torch.from_numpy(3 * planted(60, 10)).to(dtype).to(kept)
    model = DSPNMF(2, random_state=0, max_iter=5, tol=0)
    assert model.fit_transform(X).dtype == torch.float64
    Z = torch.tensor([[1, 0], [1, 1]], dtype=dtype, device=kept)
    back = model.inverse_transform(Z)
    assert back.dtype == torch.float64
    np.testing.assert_allclose(back.cpu(), model.inverse_transform(Z.double()).cpu())
    assert back.any()


def test_codes_have_two_dimensions() -> None:
    """One row of codes is to be a matrix too, and the error says so."""
    model = DSPNMF(2, random_state=0, max_iter=5, tol=0).fit(torch.from_numpy(planted(60, 10)))
    with pytest.raises(
        ValueError, match=r"Expected 2D array, got 1D array instead: Z must have shape \(n_samples, 2\)"
    ):
        model.inverse_transform(torch.ones(2))


@needs_cuda
def test_what_a_gpu_does_not_do_is_refused_at_once() -> None:
    """NaN, negative cells, published rules and SVD starts on CUDA fail with a message that helps."""
    X = torch.rand(50, 10, device="cuda")
    bad = X.clone()
    bad[3, 4] = float("nan")
    with pytest.raises(ValueError, match=r"NaN, first at X\[3, 4\]"):
        DSPNMF(2).fit(bad)
    bad[3, 4] = -1
    with pytest.raises(ValueError, match=r"first at X\[3, 4\] = -1"):
        DSPNMF(2).fit(bad.to_sparse_csr())
    for parameters in ({"solver": "mm"}, {"init": "nndsvd"}):
        with pytest.raises(ValueError, match="a tensor on cuda"):
            DSPNMF(2, **parameters).fit(X)


@needs_cuda
@pytest.mark.parametrize(("solver", "k"), list(itertools.product(["hals", "newton-cg"], [3, 20, 40, 70])))
def test_fused_kernels_descend(solver: str, k: int) -> None:
    """On CUDA in float32, at ranks that fit the kernels and beyond, the objective falls to about what NumPy reaches.

    A device spends fewer conjugate-gradient steps on an iteration, so it may end a little above.
    """
    X = planted(3000, 100, 8, np.float32)
    parameters = {"solver": solver, "max_iter": 40, "tol": 0, "random_state": 0}
    expected = DSPNMF(k, **parameters).fit(X).objective_history_
    found = DSPNMF(k, **parameters).fit(torch.from_numpy(X).cuda()).objective_history_
    assert (np.diff(found) <= 2e-7 * found[0]).all()
    assert found[-1] <= 1.5 * expected[-1] + 2e-7 * found[0]


@needs_cuda
def test_cupy_arrays() -> None:
    """CuPy arrays go in and come out."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    X = planted(dtype=np.float32)
    model = DSPNMF(3, random_state=0)
    Z = model.fit_transform(cupy.asarray(X))
    assert isinstance(Z, cupy.ndarray)
    assert isinstance(model.components_, cupy.ndarray)
    expected = DSPNMF(3, random_state=0).fit(X)
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-2)


@needs_cuda
def test_one_transfer_an_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between iterations of hals the host asks the device once."""
    fetches = 0

    def counted(fetch: Any) -> Any:
        def counting(self: Any, *given: Any) -> Any:
            nonlocal fetches
            fetches += 1
            return fetch(self, *given)

        return counting

    for name in ("fetch", "fetch_all", "host"):
        monkeypatch.setattr(cuda.DeviceSmall, name, counted(getattr(cuda.DeviceSmall, name)))
    X, counts = torch.from_numpy(planted(dtype=np.float32)).cuda(), []
    for iterations in (10, 20):
        fetches = 0
        DSPNMF(3, solver="hals", max_iter=iterations, tol=0, random_state=0).fit(X)
        counts.append(fetches)
    assert counts[1] - counts[0] == 10


@pytest.mark.parametrize(
    ("method", "layout"),
    [("NMF", "dense"), ("NMF", "csr"), ("DSPNMF", "dense"), pytest.param("GNMF", "dense", marks=pytest.mark.slow)],
)
def test_starts_together_are_those_one_after_another(
    method: str, layout: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Starts that share their products with X end where single ones do, also when some end before others."""
    from dspnmf import GNMF
    from dspnmf.backends.cuda import DeviceRows

    X = tensor(planted(90, 20), layout, where)
    model = {"NMF": NMF(4), "DSPNMF": DSPNMF(4, alpha=0.01), "GNMF": GNMF(4, beta=1.0)}[method]
    together, pushes = DeviceRows.together, []
    monkeypatch.setattr(DeviceRows, "together", lambda self, some: pushes.append(len(some)) or together(self, some))
    fits = []
    for _ in range(2):
        fits.append(model.set_params(n_init=3, tol=0.05, max_iter=8, random_state=1).fit(X))
        fits[-1] = {name: fits[-1].__dict__[name] for name in ("objective_history_", "components_", "stability_")}
        monkeypatch.setattr(DeviceRows, "several", lambda self, wanted: [self])
    assert 3 in pushes
    np.testing.assert_allclose(fits[0]["objective_history_"], fits[1]["objective_history_"], rtol=1e-7)
    np.testing.assert_allclose(fits[0]["components_"].cpu(), fits[1]["components_"].cpu(), atol=1e-5)
    np.testing.assert_allclose(fits[0]["stability_"], fits[1]["stability_"], atol=1e-5)

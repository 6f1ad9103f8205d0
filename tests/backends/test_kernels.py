"""Triton kernels for tiles of codes do what plain Torch does, at every width, precision and step.

They run on the CUDA device where there is one, and elsewhere on CPU tensors by Triton's interpreter.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="Torch is not installed")

from device_tensors import KERNELS_ON, AnyDevice, with_kernels  # noqa: E402  # first: it chooses the interpreter

triton = pytest.importorskip(
    "triton", reason="Triton is not installed: it comes with Torch for CUDA, and with the extra `test`"
)

from dspnmf import DSPNMF, NMF  # noqa: E402  # not without Triton
from dspnmf.backends import cuda_fused, cuda_fused_tiles, tensor_nnls, tensors  # noqa: E402
from dspnmf.backends.cuda import numpy_dtype  # noqa: E402
from dspnmf.backends.cuda_fused_nnls import FusedProblem  # noqa: E402
from dspnmf.backends.cuda_fused_slabs import FusedSlabsOf  # noqa: E402
from dspnmf.backends.cuda_fused_tiles import FusedTiles  # noqa: E402
from dspnmf.backends.cuda_narrow_tiles import NarrowTiles, OnChipTiles  # noqa: E402
from dspnmf.backends.cuda_small import DeviceSmall  # noqa: E402
from dspnmf.backends.cuda_tiles import PlainTiles  # noqa: E402
from dspnmf.backends.memory_divergence import FLOORS  # noqa: E402
from dspnmf.backends.row_model import DivergenceModel, RandomCodes, RowModel, Slope  # noqa: E402
from dspnmf.backends.tensor_divergence import Pairs, SmallModel, Step  # noqa: E402
from dspnmf.backends.tensor_slabs import SlabsOf  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks are implicitly disabled:UserWarning"),
    pytest.mark.filterwarnings("ignore:(invalid value|divide by zero) encountered:RuntimeWarning"),  # as GPUs divide
]
ROWS = 67  # two tiles and more; interpreting takes long
LENGTHS = (0.3, 0.2, 0.17, 0.1)
PLAIN = PlainTiles()
both_precisions = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


@pytest.fixture(autouse=True)
def nothing_is_read_before_it_is_written() -> Iterator[None]:
    """Memory that kernels are to fill holds NaN."""
    torch.use_deterministic_algorithms(True, warn_only=True)  # which is what makes Torch fill it
    yield
    torch.use_deterministic_algorithms(False)


class Problem:
    """Random arrays of tiles on a device, and both implementations of the work on them."""

    def __init__(self, k: int, dtype: torch.dtype, m: int = 37) -> None:
        self.k, self.n, self.dtype = k, ROWS, dtype
        self._random = torch.Generator().manual_seed(k)
        self.X, self.M = self.rand(self.n, m), self.rand(m, k).double()
        self.kernels = cuda_fused.tiles_for(self.X, k)
        self.U = self.rand(k, self.n) * (self.rand(k, self.n) < 0.7)
        self.D = torch.where(self.rand(k, self.n) < 0.3, -self.U, self.rand(k, self.n) - self.U / 2)
        self.G = self.rand(k, self.n) * k * k / 2
        A = self.rand(k, k).double()
        self.S = A @ A.T + torch.eye(k, dtype=torch.float64, device=KERNELS_ON)
        self.C = 0.1 * self.rand(k, k).double()
        self.rtol = 3e-6 if dtype == torch.float32 else 1e-12

    def rand(self, *shape: int) -> Any:
        """Uniform numbers."""
        return torch.rand(*shape, generator=self._random, dtype=self.dtype).to(KERNELS_ON)

    def same(self, found: Any, known: Any, factor: float = 1.0) -> None:
        """Whether results agree, relative to the largest number of each array."""
        if isinstance(known, (list, tuple)):
            assert len(found) == len(known)
            for one, other in zip(found, known, strict=True):
                self.same(one, other, factor)
            return
        found, known = (torch.as_tensor(A).double().cpu() for A in (found, known))
        assert found.shape == known.shape
        assert (found - known).abs().max() <= factor * self.rtol * known.abs().max() + 1e-30


def number(value: float) -> Any:
    """A number of the device."""
    return torch.tensor(value, dtype=torch.float64, device=KERNELS_ON)


@pytest.mark.parametrize("k", [1, 3, 10, 20, 40, 64, 80])
@pytest.mark.parametrize(
    ("dtype", "wide"),
    [(torch.float32, True), (torch.float32, False), (torch.float64, True)],
    ids=["float32, float64 units", "float32", "float64"],
)
def test_products_and_sums(k: int, dtype: Any, wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """(X M)', X'D and Gram matrices, also those of the part of a direction that ends at zero."""
    if not wide and KERNELS_ON == "cpu":
        monkeypatch.setattr(cuda_fused_tiles, "multiplies_float64", lambda device: False)
    p = Problem(k, dtype)
    A = torch.where(p.U + p.D == 0, p.D, 0)
    p.same(p.kernels.pull(p.X, p.M, k), PLAIN.pull(p.X, p.M, k))
    p.same(p.kernels.push(p.X, p.D), PLAIN.push(p.X, p.D))
    p.same(p.kernels.gram(p.D, p.U), PLAIN.gram(p.D, p.U))
    p.same(p.kernels.gram(p.D, p.U, p.D, part=True), PLAIN.gram(A, p.U, p.D))
    assert p.kernels.gram(p.D)[0].dtype == torch.float64


@pytest.mark.parametrize("k", [1, 3, 10, 20, 40, 64, 80])
def test_sweeps(k: int) -> None:
    """The pending step, sweeps, the new direction and its sums; a component without curvature is left as it is."""
    p = Problem(k, torch.float64 if k in (3, 40) else torch.float32)
    if k > 1:
        p.S[k // 2] = p.S[:, k // 2] = 0.0

    def done(tiles: Any, method: str, *arguments: Any) -> Any:
        U, D = p.U.clone(), p.D.clone()
        return [U, D, *getattr(tiles, method)(p.G.clone(), U, D, number(0.3), p.S, *arguments)]

    for method, arguments in (("look", (number(2.0), number(1.5))), ("face", (1,))):
        found, known = (done(tiles, method, *arguments) for tiles in (p.kernels, PLAIN))
        if method == "look":  # the last sweep's change is a difference of numbers that are nearly equal
            p.same(found.pop(3), known.pop(3), 1e9 if k == 1 else 1e5)
        p.same(found, known, 1e3)


def steps_of(alphas: tuple[float, ...], operators: bool) -> Callable[[Any, Problem], list[Any]]:
    """Conjugate gradients by tiles, the last step by `project`, then `combine`: all that these leave."""

    def taken(tiles: Any, p: Problem) -> list[Any]:
        names = dict.fromkeys("zrupq")
        w = {"U": p.U.clone(), "D": p.D.clone(), "G": 0.3 * p.G, **{name: torch.empty_like(p.U) for name in names}}
        w["free"] = torch.empty(p.U.shape, dtype=torch.int8, device=KERNELS_ON)
        T = torch.linalg.inv(p.S)
        left = [tiles.cg_start(w, (number(0.7), 1.0), p.S, p.C)]
        left += tiles.couple(w, p.C, T)
        for turn, alpha in enumerate(alphas):
            W = 0.3 * w["u"] if operators else None
            Ur = tiles.cg_step(w, (number(alpha), number(0.5 * alpha if turn else 0.0)), p.S, p.C, W, turn == 0)
            along = tiles.couple(w, p.C, T)
            left += [Ur, *along] if alpha else []  # after a step of length zero they say nothing
        last = alphas[-1] if alphas else 0.2
        left += tiles.project(w, (number(last), number(0.5 * last if alphas else 0.0)), not alphas)
        left.append(w["z"].clone())
        return [*left, *tiles.combine(w, number(0.8), number(1.4)), w["D"]]

    return taken


@pytest.mark.parametrize(
    ("k", "count"), [*itertools.product([1, 3, 10, 20], [0, 1, 4]), (40, 0), (40, 4), (64, 4), (80, 1)]
)
def test_conjugate_gradients(k: int, count: int) -> None:
    """The residual, so many steps and their sums, the projection and the direction made of it."""
    p = Problem(k, torch.float64 if k == 3 else torch.float32)
    taken = steps_of(LENGTHS[:count], operators=count == 4)
    p.same(taken(p.kernels, p), taken(PLAIN, p), 1e3)


@pytest.mark.parametrize("k", [5, 40])
@pytest.mark.parametrize("before", range(4))
def test_steps_of_length_zero(k: int, before: int) -> None:
    """Steps after the last that is taken change nothing, and no number that was never written comes back."""
    p = Problem(k, torch.float32)
    taken = steps_of((*LENGTHS[:before], 0.0, 0.0, 0.0), operators=False)
    p.same(taken(p.kernels, p), taken(PLAIN, p), 1e3)


@pytest.mark.parametrize("k", [1, 10, 20, 40])
def test_small_side_of_conjugate_gradients(k: int) -> None:
    """What couples rows in a residual, and the lengths of steps: the first, one after it, one after the last taken."""
    p = Problem(k, torch.float64)
    preconditioner, Ur = torch.stack([p.rand(k, k) for _ in range(4)]), p.rand(k, k)
    p.same(p.kernels.coupling_part(Ur, preconditioner), PLAIN.coupling_part(Ur, preconditioner), 10)
    model, small = RowModel(p.S, p.C, 2.5), DeviceSmall(PLAIN, p.S.device, records=False)
    UW, WW = (0.01 * p.rand(k + 1, k + 2)[:k, :k] for _ in range(2))
    ours = known = None
    for slope in (3.0, 1.5, 0.001, 0.5):
        along = Slope(number(slope), UW, WW)
        ours = p.kernels.conjugate_step(small, along, model, ours, 0.1, 1e-7)
        known = PLAIN.conjugate_step(small, along, model, known, 0.1, 1e-7)
        p.same([float(A) for A in ours], [float(A) for A in known], 1e3)
    assert float(ours.going) == 0.0


def systems(k: int, n: int, alike: float) -> tuple[Any, Any]:
    """A curvature and pulls of non-negative least squares; the more alike components are, the fewer codes count."""
    rng = np.random.default_rng(k)
    V = rng.random((k, 80)) + alike * rng.random((1, 80))
    G = V @ (rng.random((80, n)) ** 3 * 5)
    return tuple(torch.from_numpy(A).to(KERNELS_ON) for A in (V @ V.T, G))


@pytest.mark.parametrize(("k", "alike"), [(3, 0.0), (20, 0.0), (20, 2.0), (45, 0.3)])
def test_rows_by_elimination(k: int, alike: float) -> None:
    """Systems among positive codes and among zeros, in groups that are full and not; no component, no code."""
    S, G = systems(k, 70, alike)
    S[1], S[:, 1], G[1] = 0.0, 0.0, 0.0
    found = tensor_nnls.solve_rows(G, S, kind=FusedProblem)
    known = tensor_nnls.solve_rows(G, S)
    assert 0.03 < float((known > 0).double().mean()) < 0.97
    assert not found[1].any()
    torch.testing.assert_close(found, known, rtol=1e-9, atol=1e-12 * float(known.max()))


def test_what_is_exchanged() -> None:
    """What is wrong, rows that are not solved well, and which codes are exchanged, as the plain operations find it."""
    S, G = systems(6, 150, 0.5)
    known, fused = (kind(G, S, None, 1e-3) for kind in (tensor_nnls.Problem, FusedProblem))
    random = torch.Generator(device=KERNELS_ON).manual_seed(0)
    Y = torch.rand(G.shape, generator=random, device=KERNELS_ON, dtype=torch.float64) - 0.2
    F = torch.rand(G.shape, generator=random, device=KERNELS_ON) < 0.5
    Y = F * Y
    Y[:, :50] = known.by_elimination(F, F * G)[:, :50]
    found = known.solved(Y)
    torch.testing.assert_close(fused.solved(Y).slope, found.slope)
    wrong = known.wrong(F, found)
    assert 0 < int(wrong.short.sum()) < 150
    assert len(wrong.many.unique()) > 3
    for ours, theirs in zip(fused.wrong(F, found), wrong, strict=True):
        assert torch.equal(ours, theirs)
    everything, share = torch.arange(150, device=KERNELS_ON) % 3 == 0, torch.linspace(0, 1, 150, device=KERNELS_ON)
    exchanged = known.exchanged(F, found, wrong.codes, everything, share.double())
    assert torch.equal(fused.exchanged(F, found, wrong.codes, everything, share.double()), exchanged)
    assert torch.equal((exchanged ^ F)[:, everything], wrong.codes[:, everything])
    assert ((exchanged ^ F) & ~wrong.codes).sum() == 0
    assert bool((exchanged ^ F)[:, wrong.many > 0].any(0).all())


@pytest.mark.parametrize("k", [3, 20])
@both_precisions
def test_codes_of_separate_rows(k: int, dtype: Any) -> None:
    """Codes that minimise every sample's model."""
    p = Problem(k, dtype)
    p.same(p.kernels.solve(p.G, p.S), PLAIN.solve(p.G, p.S), 10)


@pytest.mark.parametrize("k", [1, 10, 40])
def test_components(k: int) -> None:
    """Sweeps over the components, until one changes little."""
    p = Problem(k, torch.float64)
    Vt, P = p.rand(3, k), p.rand(3, k) * k / 4
    p.same(p.kernels.components(Vt, P, p.S, 1e-13), PLAIN.components(Vt, P, p.S, 1e-13), 1e3)


@both_precisions
def test_facts(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest entry, both sums, and how many entries are not allowed."""
    monkeypatch.setattr(cuda_fused, "_FACTS", 5)
    X = Problem(3, dtype, m=200).X
    largest, total, squares, bad = cuda_fused.facts(X)
    assert (largest, bad) == (float(X.max()), 0)
    assert total == pytest.approx(float(X.double().sum()), rel=1e-12)
    assert squares == pytest.approx(float(X.double().square().sum()), rel=1e-12)
    X[3, 7], X[60, 199], X[0, 0] = float("nan"), -1.0, float("inf")
    assert cuda_fused.facts(X)[3] == 3


@both_precisions
@pytest.mark.parametrize("k", [1, 7])
def test_random_codes(k: int, dtype: Any) -> None:
    """The same numbers as on the host."""
    U = torch.empty(k, 1025, dtype=dtype, device=KERNELS_ON)
    start = RandomCodes(2**62 + 11, 0.7, k, numpy_dtype(U))
    cuda_fused.draw(start, U)
    np.testing.assert_array_equal(U.cpu().numpy().T, start(0, 1025))


def test_kinds_of_tiles() -> None:
    """Few components in float32 have kernels of their own; beyond 256 there are none."""
    X = torch.zeros(1, 1, device=KERNELS_ON)
    kinds = {1: OnChipTiles, 32: OnChipTiles, 33: NarrowTiles, 64: NarrowTiles, 65: FusedTiles, 257: PlainTiles}
    assert {k: type(cuda_fused.tiles_for(X, k)) for k in kinds} == kinds
    assert type(cuda_fused.tiles_for(X.double(), 5)) is FusedTiles


def test_an_old_triton_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Triton without products in float64 is as none."""
    monkeypatch.setattr(triton, "__version__", "3.4.0")
    monkeypatch.delitem(sys.modules, "dspnmf.backends.cuda_fused")
    with pytest.raises(ImportError, match=r"Triton 3\.4\.0 makes no products in float64"):
        importlib.import_module("dspnmf.backends.cuda_fused")


@pytest.mark.parametrize("k", [1, 3, 10, 20, 32])
def test_looks_of_a_divergence(k: int) -> None:
    """Distances, pulls, curvature and sums of dense rows, zeros and rows of zeros among them; of some rows, too."""
    p = Problem(k, torch.float32)
    X = torch.floor(4 * p.X * (p.X > 0.3))
    X[5] = 0
    Vt, U = p.rand(37, k).double(), p.U.contiguous()
    U[:, 7] = 0
    model = SmallModel.of(DivergenceModel(1.0, Vt), Pairs.of(k, X.device), torch.float32, FLOORS[4], anchored=True)
    penalized = dataclasses.replace(model, l1=0.1, l2=0.05)
    plain, ours = (kind(X, 1.0, 0.5, k, incomplete=False) for kind in (SlabsOf, FusedSlabsOf))
    looks = [slabs.slab(slice(0, ROWS)).look(U, model) for slabs in (ours, plain)]
    some = torch.tensor([3, 7, 60], device=X.device)
    looks += [look.slab.rows(some).look(U[:, some], model) for look in looks]
    for found, known in zip(looks[::2], looks[1::2], strict=True):
        p.same(found.distances, known.distances, 10)
        p.same(found.pull(), known.pull(), 10)
        p.same(found.curvature(), known.curvature(), 500)  # rounded to TF32 on a GPU
        raised = torch.arange(len(known.distances), device=X.device) % 5 == 1
        other = found.with_codes(raised, 0.5 * found.U), known.with_codes(raised, 0.5 * known.U)
        p.same(other[0].distances, other[1].distances, 10)
        p.same(other[0].U, other[1].U)
        step = Step.of(known.slab, known, penalized)
        p.same(ours.swept(step, penalized, 2), plain.swept(step, penalized, 2), 30)
    sums = [ours.sums(), plain.sums()]
    for total, look in zip(sums, looks, strict=False):
        look.add_pull(total)
    p.same(sums[0].total(U), sums[1].total(U), 10)


def test_slabs_of_a_divergence() -> None:
    """Kernels look at dense float32 without missing cells, by Kullback-Leibler, with up to 32 components."""
    X = torch.ones(3, 2, device=KERNELS_ON)
    assert cuda_fused.slabs_for(X, 1.0, 32, incomplete=False) is FusedSlabsOf
    for A, beta, k, incomplete in (
        (X, 1.0, 33, False), (X, 0.5, 5, False), (X.double(), 1.0, 5, False), (X, 1.0, 5, True),
        (X.to_sparse_csr(), 1.0, 5, False),
    ):  # fmt: skip
        assert cuda_fused.slabs_for(A, beta, k, incomplete=incomplete) is SlabsOf


@pytest.mark.parametrize("parameters", [{"alpha_W": 0.01, "l1_ratio": 0.5}, {"alpha": 0.01}], ids=str)
def test_fits_by_a_divergence(parameters: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits to counts by kernels are those by plain Torch, and the objective never rises."""
    monkeypatch.setattr(tensors, "backend_for", lambda X: AnyDevice(X.device))
    monkeypatch.setattr(cuda_fused, "_FACTS", 5)
    rng = np.random.default_rng(0)
    counts = rng.poisson(5 * rng.random((ROWS, 3)) ** 3 @ rng.random((3, 20)) ** 3).astype(np.float32)
    cls, X = DSPNMF if "alpha" in parameters else NMF, torch.from_numpy(counts).to(KERNELS_ON)
    fits, codes = [], []
    for used in (True, False):
        model = cls(3, beta_loss="kullback-leibler", max_iter=3, tol=0, random_state=0, **parameters)
        with with_kernels(used=used):
            fits.append(model.fit(X))
            codes.append(fits[0].transform(X[::8]).cpu())
    ours, plain = (model.objective_history_ for model in fits)
    np.testing.assert_allclose(ours, plain, rtol=1e-4)
    assert (np.diff(ours) <= 1e-6 * ours[0]).all()
    np.testing.assert_allclose(*codes, atol=1e-2 * float(codes[0].max()))


@pytest.mark.slow
@pytest.mark.parametrize(("k", "dtype", "capability"), [(10, "float32", 90), (20, "float32", 90)])
def test_kernels_compile(k: int, dtype: str, capability: int) -> None:
    """What tiles launch compiles for a GPU, also where there is none, and needs no more registers than that has."""
    script = Path(__file__).with_name("compiled_kernels.py")
    plain = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    plain["PYTHONPATH"] = os.pathsep.join(sys.path)
    lines = subprocess.run(
        [sys.executable, str(script), str(k), dtype, str(capability)],
        capture_output=True, text=True, check=True, env=plain,
    ).stdout.splitlines()  # fmt: skip
    assert {"look" if dtype == "float32" else "block_look", "cg_step", "couple"} <= {
        json.loads(a)["name"] for a in lines
    }
    assert not [
        line for line in lines if json.loads(line)["stack"] > 1024
    ]  # some spilling is no slower than small tiles


FITS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "NMF": (NMF, {"solver": "hals"}),
    "DSP-NMF": (DSPNMF, {"solver": "newton-cg"}),
    "penalties": (NMF, {"solver": "newton-cg", "alpha_W": 0.001, "l1_ratio": 0.5}),
    "several starts": (DSPNMF, {"solver": "newton-cg", "n_init": 2}),
}


@pytest.mark.parametrize(("name", "dtype"), [*((name, np.float32) for name in FITS), ("DSP-NMF", np.float64)])
def test_fits(name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit on a device by kernels is that of NumPy: history, components, codes, codes of new rows."""
    monkeypatch.setattr(tensors, "backend_for", lambda X: AnyDevice(X.device))
    monkeypatch.setattr(cuda_fused, "_FACTS", 5)
    monkeypatch.setattr(cuda_fused_tiles, "_PROGRAMS", 4)
    (cls, parameters), rng = FITS[name], np.random.default_rng(0)
    X = (rng.random((ROWS, 3)) ** 3 @ rng.random((3, 10)) ** 3 + 0.3 * rng.random((ROWS, 10))).astype(dtype)
    if cls is DSPNMF:  # both terms weigh the same, so that rounding of neither is large
        parameters = {**parameters, "alpha": float(np.sum(X**2) / np.linalg.norm(X.T @ X) ** 2)}
    known, found = (cls(3, max_iter=3, tol=0, random_state=0, inner_iter=4, **parameters) for _ in range(2))
    expected = known.fit_transform(X)
    with with_kernels():
        Z = found.fit_transform(torch.from_numpy(X).to(KERNELS_ON))
        new = found.transform(torch.from_numpy(X[::2].copy()).to(KERNELS_ON))
    rtol = 1e-8 if dtype is np.float64 else 1e-4
    np.testing.assert_allclose(found.objective_history_, known.objective_history_, rtol=rtol)
    np.testing.assert_allclose(Z.cpu(), expected, atol=10 * rtol * expected.max())
    np.testing.assert_allclose(new.cpu(), known.transform(X[::2]), atol=10 * rtol * expected.max())

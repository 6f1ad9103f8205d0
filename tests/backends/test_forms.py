"""Numbers of a device that are computed together are what they are when computed alone."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="Torch is not installed")

from dspnmf.backends import cuda_small  # noqa: E402  # not without Torch
from dspnmf.backends.cuda_small import DeviceSmall  # noqa: E402
from dspnmf.backends.cuda_tiles import PlainTiles  # noqa: E402
from dspnmf.backends.forms import Form, layout_of  # noqa: E402
from dspnmf.backends.small_arrays import dot, stepped  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def arrays(*shapes: tuple[int, int]) -> list[torch.Tensor]:
    """Random arrays."""
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(shape, generator=generator, dtype=torch.float64).to(DEVICE) for shape in shapes]


def small() -> DeviceSmall:
    """Small arrays of a device."""
    return DeviceSmall(PlainTiles(), torch.device(DEVICE), records=False)


def test_forms_are_computed_together() -> None:
    """Sums, differences and multiples, of products of several shapes, with numbers of the host and of the device."""
    A, B, C, D = arrays((7, 3), (7, 3), (3, 3), (3, 3))
    t = torch.tensor(1.5, dtype=torch.float64, device=DEVICE)
    scalars = [
        2 * dot(A, B) - dot(C, D) + 3.0,
        1.0 - dot(C, C.T) / 4,
        t - dot(A, A),
        -dot(D, D) + t,
        t,
        0.25,
        t > 1,
        np.float64(2.0) * dot(C, D),
    ]
    a, b, c, d = (np.asarray(X.cpu()) for X in (A, B, C, D))
    known = [
        2 * np.vdot(a, b) - np.vdot(c, d) + 3, 1 - np.vdot(c, c.T) / 4, 1.5 - np.vdot(a, a), 1.5 - np.vdot(d, d),
        1.5, 0.25, 1.0, 2 * np.vdot(c, d),
    ]  # fmt: skip
    np.testing.assert_allclose(small().fetch(scalars), known, rtol=1e-14)
    np.testing.assert_allclose([float(number) for number in small().numbers(*scalars)], known, rtol=1e-14)
    alone = [float(scalar.now() if isinstance(scalar, Form) else scalar) for scalar in scalars]
    np.testing.assert_allclose(alone, known, rtol=1e-14)


def test_forms_meet_numbers_of_a_device() -> None:
    """Products, quotients and comparisons with tensors are computed at once."""
    A, B = arrays((4, 2), (4, 2))
    t, form = torch.tensor(2.0, dtype=torch.float64, device=DEVICE), dot(A, B)
    value = float((A * B).sum())
    for found, known in ((t * form, 2 * value), (form / t, value / 2), (t / form, 2 / value), (form * form, value**2)):
        assert isinstance(found, torch.Tensor)
        assert float(found) == pytest.approx(known, rel=1e-14)
    assert [bool(c) for c in (form < value + 1, form > value + 1, form <= value - 1, form >= value - 1)] == [
        True, False, False, True,
    ]  # fmt: skip
    assert float(form) == pytest.approx(value, rel=1e-14)


def test_every_array_is_taken_once() -> None:
    """Views of the same numbers are one array; a transposed view is another."""
    A, B = arrays((3, 3), (3, 3))
    layout = layout_of([dot(A, B), dot(A[:], B), dot(A.T, A)])
    assert [len(group) for group in layout.groups] == [3]
    np.testing.assert_array_equal(layout.weights[0], layout.weights[1])
    assert (layout.weights[2] != layout.weights[0]).any()


def test_weights_are_kept_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same forms of other arrays need no new weights; there is a limit to what is kept."""
    monkeypatch.setattr(cuda_small, "_MOST_KNOWN", 2)
    A, B, C = arrays((5, 2), (5, 2), (5, 2))
    here = small()
    for factor in (1.0, 2.0, 3.0, 1.0):
        for X, Y in ((A, B), (B, C)):
            assert here.fetch([factor * dot(X, Y)]) == pytest.approx([factor * float((X * Y).sum())])
        assert 1 <= len(here._known) <= 2


def test_numbers_and_arrays_come_together() -> None:
    """One transfer brings both, in their order and shapes."""
    A, B = arrays((2, 3), (2, 2))
    numbers, parts = small().fetch_all([dot(B, B), 4.0], [A, B])
    assert numbers == pytest.approx([float((B * B).sum()), 4.0])
    for part, known in zip(parts, (A, B), strict=True):
        np.testing.assert_array_equal(part, known.cpu().numpy())


def test_a_step_is_one_operation() -> None:
    """``A + t B``, whatever t is."""
    A, B = arrays((2, 3), (2, 3))
    for t in (0.5, torch.tensor(0.5, dtype=torch.float64, device=DEVICE)):
        torch.testing.assert_close(stepped(A, t, B), A + 0.5 * B)
    a, b = A.cpu().numpy(), B.cpu().numpy()
    np.testing.assert_array_equal(stepped(a, 0.5, b), a + 0.5 * b)

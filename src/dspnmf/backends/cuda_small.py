"""Small arrays on a device: float64 tensors, and work on them that is recorded, shared, or done side by side.

Every operation on a small array costs a launch, which takes longer than its arithmetic. So inner products are computed
together (`dspnmf.backends.forms`), an iteration is recorded as a CUDA graph and repeated with one launch, and several
starts work on streams of their own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import torch

from dspnmf._typing import Array, Scalar, SmallArray
from dspnmf.backends.cuda_tiles import PlainTiles, Tensor, stacked
from dspnmf.backends.forms import Form, layout_of
from dspnmf.backends.memory_rows import MOST_STARTS
from dspnmf.backends.row_model import RowModel, Slope
from dspnmf.backends.small_arrays import ConjugateStep, Small

_MOST_KNOWN = 64  # sets of weights that are kept on a device


class Recording:
    """The work of a function on the device, recorded as a CUDA graph: repeated with one launch.

    The function takes and returns tensors (numbers become tensors) and never waits for the device.
    """

    def __init__(self, function: Callable[..., tuple[Tensor, ...]], arguments: Sequence[Scalar]) -> None:
        device = next(argument.device for argument in arguments if isinstance(argument, Tensor))
        self._numbers = torch.tensor(_numbers(arguments), dtype=torch.float64).to(device)
        own = iter(self._numbers.unbind())
        self._given = [a.clone() if isinstance(a, Tensor) else next(own) for a in arguments]
        self._held = [own for own, a in zip(self._given, arguments, strict=True) if isinstance(a, Tensor)]
        self._graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._graph.capture_begin(capture_error_mode="thread_local")
            try:
                self._left = function(*self._given)
            finally:
                self._graph.capture_end()
        torch.cuda.current_stream().wait_stream(stream)

    def __call__(self, arguments: Sequence[Scalar]) -> tuple[Tensor, ...]:
        """What the function would return for other arguments of the same shapes."""
        torch._foreach_copy_(self._held, [a for a in arguments if isinstance(a, Tensor)])  # in one launch or two
        if len(self._numbers):
            numbers = torch.tensor(_numbers(arguments), dtype=torch.float64)
            self._numbers.copy_(numbers.pin_memory(), non_blocking=True)
        self._graph.replay()
        left = [torch.empty_like(A) for A in self._left]
        torch._foreach_copy_(left, list(self._left))
        return tuple(left)


def _numbers(arguments: Sequence[Scalar]) -> list[float]:
    """Those of the host."""
    return [float(argument) for argument in arguments if not isinstance(argument, Tensor)]


@cache
def _streams(device: torch.device) -> list[torch.cuda.Stream]:
    """Streams for work side by side."""
    return [torch.cuda.Stream(device) for _ in range(MOST_STARTS)]  # type: ignore[no-untyped-call]


def _products(arrays: Sequence[Tensor]) -> Tensor:
    """Inner products of arrays of one shape, all with all, in one dimension."""
    flat = torch.stack(list(arrays)).flatten(1)
    return (flat @ flat.T).flatten()


class DeviceSmall(Small):
    """Small arrays on the device."""

    def __init__(self, tiles: PlainTiles, device: torch.device, *, records: bool) -> None:
        self._tiles, self._device, self._records = tiles, device, records
        # of what is repeated, by the name of the function: owners of one that has been done, and then its recording
        self._done: dict[str, list[tuple[Sequence[object], Recording | None]]] = {}
        self._known: dict[tuple[bytes, bytes], tuple[Tensor, Tensor]] = {}  # weights of forms

    def repeated(
        self, owners: Sequence[object], function: Callable[..., tuple[SmallArray, ...]], *arguments: Scalar
    ) -> tuple[SmallArray, ...]:
        """Done the first time, recorded the second, then repeated."""
        if not self._records:
            return function(*arguments)
        done = self._done.setdefault(function.__name__, [])
        for entry in [entry for entry in done if any(owner is one for owner in owners for one in entry[0])]:
            done.remove(entry)  # of these owners, or of some that now go on without the others
            if len(entry[0]) == len(owners) and all(map(operator.is_, owners, entry[0])):
                recording = entry[1] or Recording(function, arguments)
                done.append((owners, recording))
                return recording(arguments)
        done.append((owners, None))
        return function(*arguments)

    def unrecorded(self) -> DeviceSmall:
        """Every repetition is done anew."""
        return DeviceSmall(self._tiles, self._device, records=False)

    def forget(self) -> None:
        """Other codes: what is recorded has become useless."""
        self._done.clear()

    def side_by_side(self, work: Callable[[int], None], n: int) -> None:
        """On streams of their own, which begin where the current one stands, and end before it goes on.

        So memory that one of them frees is used again by itself alone, or after all have met: nothing can be
        overwritten that another one still reads.
        """
        if n == 1 or self._device.type != "cuda":
            for item in range(n):
                work(item)
            return
        here = torch.cuda.current_stream(self._device)
        streams = _streams(self._device)[:n]
        for stream in streams:
            stream.wait_stream(here)
        for item in range(n):
            with torch.cuda.stream(streams[item % len(streams)]):
                work(item)
        for stream in streams:
            here.wait_stream(stream)

    def where(self, condition: Scalar, yes: Scalar, no: Scalar) -> Scalar:
        """Chosen on the device."""
        if not isinstance(condition, Tensor):
            return yes if condition else no
        return torch.where(condition, yes, no)

    def over(self, going: Scalar) -> bool:
        """The host does not know."""
        return False

    def numbers(self, *scalars: Scalar) -> Sequence[Scalar]:
        """By a few launches for all."""
        return self.stack(scalars).unbind()

    def stack(self, scalars: SmallArray) -> Tensor:
        """As one tensor, if they are not."""
        if isinstance(scalars, Tensor):
            return scalars
        if not any(isinstance(scalar, Form) for scalar in scalars):
            return stacked(scalars, self._device)
        groups, numbers, weights, constants = layout_of([Form.of(scalar) for scalar in scalars])
        known = self._weights(weights, constants)
        if known is None:
            return stacked([scalar.now() if isinstance(scalar, Form) else scalar for scalar in scalars], self._device)
        parts = [_products(arrays) for arrays in groups]
        if numbers:
            parts.append(stacked(numbers, self._device))
        return torch.addmv(known[1], known[0], torch.cat(parts) if len(parts) > 1 else parts[0])

    def _weights(self, weights: Array, constants: Array) -> tuple[Tensor, Tensor] | None:
        """Weights and constants of forms, which are nearly always the same; None: they cannot be brought here now."""
        name = weights.tobytes(), constants.tobytes()
        if name not in self._known:
            if self._device.type == "cuda" and torch.cuda.is_current_stream_capturing():
                return None
            if len(self._known) >= _MOST_KNOWN:
                self.forget()  # recordings read them
                self._known.clear()
            self._known[name] = torch.from_numpy(weights).to(self._device), torch.from_numpy(constants).to(self._device)
            if self._device.type == "cuda":
                torch.cuda.current_stream(self._device).synchronize()  # other streams read them too
        return self._known[name]

    def fetch(self, scalars: SmallArray) -> list[float]:
        """One transfer."""
        values: list[float] = self.stack(scalars).tolist()
        return values

    def fetch_all(self, scalars: SmallArray, arrays: Sequence[SmallArray]) -> tuple[list[float], list[Array]]:
        """One transfer."""
        scalars = self.stack(scalars)
        everything = torch.cat([scalars, *(A.flatten() for A in arrays)]).cpu().numpy()
        values, *parts = np.split(everything, np.cumsum([len(scalars), *(A.numel() for A in arrays)])[:-1])
        return values.tolist(), [part.reshape(A.shape) for part, A in zip(parts, arrays, strict=True)]

    def host(self, A: SmallArray) -> Array:
        """Copied."""
        return A.cpu().numpy() if isinstance(A, Tensor) else np.asarray(A)

    def adopt(self, A: SmallArray) -> Tensor:
        """Copied."""
        if isinstance(A, Tensor):
            return A
        copy = torch.from_numpy(np.array(A, order="C"))  # pinned memory is copied while the host goes on
        return copy.pin_memory().to(self._device, non_blocking=True) if self._device.type == "cuda" else copy

    def best_step(self, c: Sequence[Scalar]) -> tuple[Scalar, Scalar, Scalar]:
        """By the device."""
        return self._tiles.best_step(self.stack(c))

    def components(self, Vt: SmallArray, P: SmallArray, Q: SmallArray, rounding: float) -> Tensor:
        """By the device."""
        return self._tiles.components(Vt, P, Q, rounding)

    def coupling_part(self, Ur: SmallArray, preconditioner: SmallArray) -> Tensor:
        """By the device."""
        return self._tiles.coupling_part(Ur, preconditioner)

    def conjugate_step(
        self, along: Slope, model: RowModel, before: ConjugateStep | None, reduction: float, eps: float
    ) -> ConjugateStep:
        """By the device; what operators add is added up number by number."""
        if model.curves:
            return super().conjugate_step(along, model, before, reduction, eps)
        return self._tiles.conjugate_step(self, along, model, before, reduction, eps)

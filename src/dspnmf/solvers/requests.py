"""Starts that look at X together: what a start does is a generator that yields its requests for a look.

A start asks (`ask`) and is given the answer; between two requests it works on its own codes and small arrays. With one
start a request is a call of the method. With several, all of them go on to their next request, and rows that share X
answer those of one kind with one reading of it (`Rows.together`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

from dspnmf._typing import Scalar, SmallArray
from dspnmf.backends.protocol import Request
from dspnmf.backends.small_arrays import Small

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Repetition(NamedTuple):
    """Work of a start that is the same in every iteration, requests included: a device may record it."""

    small: Small
    owner: object
    work: Callable[..., Requests[tuple[SmallArray, ...]]]
    arguments: tuple[Scalar, ...]


Requests = Generator[Request | Repetition, Any, Result]


def ask(method: Callable[Given, Result], *arguments: Given.args, **_: Given.kwargs) -> Requests[Result]:
    """What a method of rows returns that looks at X; other starts may share the look."""
    answer: Result = yield Request(method, arguments)
    return answer


def repeat(
    small: Small, owner: object, work: Callable[..., Requests[tuple[SmallArray, ...]]], *arguments: Scalar
) -> Requests[tuple[SmallArray, ...]]:
    """What ``work(*arguments)`` returns, which its owner does in every iteration (`Small.repeated`)."""
    left: tuple[SmallArray, ...] = yield Repetition(small, owner, work, arguments)
    return left


def answered(starts: Sequence[Requests[Result]], small: Small) -> list[Result]:
    """What every start returns in the end: all go on to their next request, and those of one kind are answered at once.

    Until then they go on side by side (`Small.side_by_side`).
    """
    results: dict[int, Result] = {}
    waiting: dict[int, Request | Repetition] = {}
    ready: list[tuple[int, Any]] = [(number, None) for number in range(len(starts))]  # with the answer it is given

    def go_on(i: int) -> None:
        number, answer = ready[i]
        try:
            waiting[number] = starts[number].send(answer)
        except StopIteration as end:
            results[number] = end.value

    while ready:
        small.side_by_side(go_on, len(ready))
        kind = _kind(waiting[min(waiting)]) if waiting else ""
        same = sorted(number for number, request in waiting.items() if _kind(request) == kind)
        answers = _answers([waiting.pop(number) for number in same]) if same else []
        ready = list(zip(same, answers, strict=True))
    return [results[number] for number in range(len(starts))]


def _kind(request: Request | Repetition) -> str:
    return request.name if isinstance(request, Request) else ""


def _answers(requests: Sequence[Any]) -> list[Any]:
    first = requests[0]
    if isinstance(first, Request):
        return first.rows.together(requests) if len(requests) > 1 else [first.method(*first.arguments)]
    r, each = len(requests), len(first.arguments)

    def work(*given: Scalar) -> tuple[SmallArray, ...]:
        parts = (given[i * each : (i + 1) * each] for i in range(r))
        done = answered([request.work(*part) for request, part in zip(requests, parts, strict=True)], first.small)
        return tuple(array for left in done for array in left)

    owners, arguments = [request.owner for request in requests], [a for request in requests for a in request.arguments]
    left = first.small.repeated(owners, work, *arguments)
    return [left[i : i + len(left) // r] for i in range(0, len(left), len(left) // r)]

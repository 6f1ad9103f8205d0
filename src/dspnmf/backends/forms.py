"""Numbers that a device has not computed yet: linear forms of inner products of small arrays.

Terms and solvers are sums of inner products, many of them of the same arrays. On a device every operation is a launch,
so an inner product of tensors (`dspnmf.backends.small_arrays.dot`) is only noted, with its weight, and whoever needs
numbers has all of them computed at once (`DeviceSmall.stack`). Where a form meets a tensor it is computed alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dspnmf._typing import Array, Scalar, SmallArray


class Product(NamedTuple):
    """A weight times <A, B>."""

    weight: float
    A: SmallArray
    B: SmallArray


class Number(NamedTuple):
    """A weight times a tensor without dimensions."""

    weight: float
    value: SmallArray


@dataclass(frozen=True, eq=False)
class Form:
    """``constant + sum of weight <A, B> + sum of weight number``."""

    constant: float = 0.0
    products: tuple[Product, ...] = ()
    numbers: tuple[Number, ...] = ()

    @classmethod
    def of(cls, scalar: Scalar) -> Form:
        """A form, a number of the host, or a tensor without dimensions, as a form."""
        if isinstance(scalar, Form):
            return scalar
        if _on_host(scalar):
            return cls(float(scalar))
        return cls(numbers=(Number(1.0, scalar),))

    def now(self) -> SmallArray:
        """Computed alone."""
        parts = [w * (A * B).sum() for w, A, B in self.products] + [w * value for w, value in self.numbers]
        return sum(parts, self.constant)

    def _scaled(self, factor: float) -> Form:
        products = tuple(Product(factor * w, A, B) for w, A, B in self.products)
        return Form(factor * self.constant, products, tuple(Number(factor * w, value) for w, value in self.numbers))

    def __add__(self, other: Scalar) -> Form:
        """A form, so nothing is computed."""
        more = Form.of(other)
        return Form(self.constant + more.constant, self.products + more.products, self.numbers + more.numbers)

    __radd__ = __add__

    def __neg__(self) -> Form:
        """A form."""
        return self._scaled(-1.0)

    def __sub__(self, other: Scalar) -> Form:
        """A form."""
        return self + Form.of(other)._scaled(-1.0)

    def __rsub__(self, other: Scalar) -> Form:
        """A form."""
        return Form.of(other) - self

    def __mul__(self, other: Scalar) -> Scalar:
        """A form where the other is a number of the host."""
        return self._scaled(float(other)) if _on_host(other) else self._with(operator.mul, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Scalar) -> Scalar:
        """A form where the other is a number of the host."""
        return self._scaled(1.0 / float(other)) if _on_host(other) else self._with(operator.truediv, other)

    def __rtruediv__(self, other: Scalar) -> SmallArray:
        """Computed."""
        return other / self.now()

    def _with(self, operation: Callable[[Any, Any], Any], other: Scalar) -> SmallArray:
        return operation(self.now(), other.now() if isinstance(other, Form) else other)

    def __lt__(self, other: Scalar) -> SmallArray:
        """Computed."""
        return self._with(operator.lt, other)

    def __gt__(self, other: Scalar) -> SmallArray:
        """Computed."""
        return self._with(operator.gt, other)

    def __le__(self, other: Scalar) -> SmallArray:
        """Computed."""
        return self._with(operator.le, other)

    def __ge__(self, other: Scalar) -> SmallArray:
        """Computed."""
        return self._with(operator.ge, other)

    def __float__(self) -> float:
        """Computed, for the host."""
        return float(self.now())


def _on_host(scalar: Scalar) -> bool:
    """Whether it is a number of the host."""
    return isinstance(scalar, bool | int | float | np.floating)


class Layout(NamedTuple):
    """Which inner products and numbers some forms are made of, and by what weights.

    Arrays of one shape are multiplied all with all: `groups` holds them. Of the products, then the numbers, row i of
    `weights` makes form i, next to constant i.
    """

    groups: list[list[SmallArray]]
    numbers: list[SmallArray]
    weights: Array
    constants: Array


def layout_of(forms: Sequence[Form]) -> Layout:
    """Every array and every number once."""
    groups: dict[tuple[int, ...], dict[Any, tuple[int, SmallArray]]] = {}
    numbers: dict[int, tuple[int, SmallArray]] = {}
    for form in forms:
        for _, *pair in form.products:
            for A in pair:
                group = groups.setdefault(tuple(A.shape), {})
                group.setdefault(_identity(A), (len(group), A))
        for _, value in form.numbers:
            numbers.setdefault(id(value), (len(numbers), value))
    begins, at = {}, 0
    for shape, group in groups.items():
        begins[shape], at = at, at + len(group) ** 2
    weights = np.zeros((len(forms), at + len(numbers)))
    for row, form in zip(weights, forms, strict=True):
        for w, A, B in form.products:
            group = groups[tuple(A.shape)]
            row[begins[tuple(A.shape)] + group[_identity(A)][0] * len(group) + group[_identity(B)][0]] += w
        for w, value in form.numbers:
            row[at + numbers[id(value)][0]] += w
    constants = np.array([form.constant for form in forms])
    arrays = [[A for _, A in group.values()] for group in groups.values()]
    return Layout(arrays, [value for _, value in numbers.values()], weights, constants)


def _identity(A: SmallArray) -> tuple[Any, ...]:
    """What tells arrays that exist at the same time apart; views of the same numbers are the same."""
    return A.data_ptr(), tuple(A.shape), A.stride()

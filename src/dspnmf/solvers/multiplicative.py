"""Multiplicative rules: the paper's, as printed and as its appendix derives them, and one that is guaranteed.

Each multiplies the codes by a factor computed from the model around them: with ``c = X M``, the quadratic part
``b = U (S - coupling Q)`` and the quartic part ``a = coupling U Q`` (all n x k; for DSP-NMF these are X (V' + 2 alpha
lam P), U V V' and 2 alpha lam^2 U Q), then the components by ``V <- V P' / (Q V)``, Eq. (ourw).

The printed rule is kept for comparison. It is not monotone: where the reconstruction vanishes, u <- c/u is a 2-cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from dspnmf._typing import Array
from dspnmf.backends.protocol import MultiplicativeRows, Rows
from dspnmf.backends.small_arrays import with_rows
from dspnmf.objective.objective import Objective
from dspnmf.objective.state import State
from dspnmf.solvers.loop import Update

Factor = Callable[[Array, Array, Array], Array]


def printed(a: Array, b: Array, c: Array) -> Array:
    """Eq. (ourh) as printed: lam^2 where the gradient has 2 lam^2."""
    return ratio(c, b + a / 2)


def appendix(a: Array, b: Array, c: Array) -> Array:
    """Appendix A: the fixed point is right, the exponent (1) is not small enough for descent."""
    return ratio(c, b + a)


def guaranteed(a: Array, b: Array, c: Array) -> Array:
    """The t >= 0 with ``a t^3 + b t = c``: minimises a separable upper bound that touches the objective at t = 1.

    XX' is positive semi-definite, so its term is concave and bounded by its tangent; the quartic is bounded as in Yang
    & Oja, IEEE TNN 22(12), 2011. With s = t sqrt(3a/b) the equation is s^3/3 + s = c/b sqrt(3a/b), solved by sinh.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        bend = np.sqrt(3 * a / b)
        curved = 2 * np.sinh(np.arcsinh(1.5 * (c / b) * bend) / 3) / bend
        cubic = np.cbrt(c / a)
    return np.where(np.isfinite(curved), curved, np.where((a > 0) & (bend > 0), cubic, ratio(c, b)))


def ratio(numerator: Array, denominator: Array) -> Array:
    """Entrywise quotient, 1 where the denominator vanishes: such an entry does not enter the objective."""
    with np.errstate(over="ignore"):  # whoever multiplies by it stays in range
        return np.divide(numerator, denominator, out=np.ones_like(denominator), where=denominator > 0)


@dataclass
class Multiplicative(Update):
    """One iteration of a rule: codes, then components.

    An L1 penalty lowers c; where nothing is left of it, the bound is lowest at zero.
    Operators between rows (graphs) enter as published everywhere in the family: what pulls is added to c, what pushes
    to b. `published` is the objective the rule was derived for, where it is not the one that is recorded.
    """

    factor: Factor
    published: Objective | None = None

    def __call__(self, rows: Rows, objective: Objective, s: State) -> tuple[float, State]:
        """Advance by one iteration."""
        derived = self.published or objective
        model = derived.model(s)
        quartic = (model.coupling * s.Q).astype(rows.dtype)
        quadratic = (model.S - model.coupling * s.Q).astype(rows.dtype)
        most = rows.dtype.type(
            2.0 ** (np.finfo(rows.dtype).maxexp // 4 - 1)
        )  # its fourth power is a number: rules overshoot

        def rule(U: Array, c: Array, push: Array) -> Array:
            return np.minimum(U * self.factor(U @ quartic, U @ quadratic + push, np.maximum(c, 0)), most)

        sums = mapped(rows)(rule, model)
        new = s.with_sums(*sums)
        Vt = s.Vt
        for term in derived.with_components:
            some = term.features.columns
            grown = Vt[some] * ratio(np.maximum(term.pull(new), 0), Vt[some] @ term.curvature(new))
            Vt = with_rows(Vt, some, np.minimum(grown, most))
        new = replace(new, Vt=Vt)
        return objective.value(new), new


def mapped(rows: Rows) -> Callable[..., tuple[Array, Array, tuple[Array, ...]]]:
    """`map` of rows whose backend has declared it (`dspnmf._validation.check_backend`)."""
    return cast(MultiplicativeRows, rows).map

"""What methods share that keep neighbours together: GNMF, NPNMF, SPNMF, GDNMF."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dspnmf import _validation
from dspnmf._typing import Array, ArrayLike, Sparse
from dspnmf._validation import MATRIX, Allowed, either, one_of, whole
from dspnmf.backends.protocol import Capability, Data
from dspnmf.backends.row_model import Operator, Ties
from dspnmf.estimators.base import INIT, INNER_ITER, Problem
from dspnmf.estimators.checkpoint import Run
from dspnmf.estimators.labels import Labels
from dspnmf.estimators.parameters import parameter
from dspnmf.estimators.penalties import Penalized, Penalties
from dspnmf.objective.objective import Objective
from dspnmf.objective.state import State
from dspnmf.objective.terms import Reconstruction, Smoothness
from dspnmf.solvers import multiplicative

GRAPH_SOLVER = one_of("auto", "newton-cg", "hals", "paper")
KNN_OR_MATRIX: Allowed = either(one_of("knn"), MATRIX)
EDGE_WEIGHTS = one_of("binary", "heat", "cosine")


@dataclass(eq=False, repr=False)
class GraphFactorization(Penalized):
    """``||X - UV||^2`` and terms of a graph between rows; new rows are tied to their neighbours in the training set.

    The graph's term counts with codes as they are when components have unit length. Without penalties the product UV
    is all that the rest of the objective knows, so components are given that length. Penalties know how large codes
    and components are, as in scikit-learn: with them, both stay as they were found.
    """

    n_neighbors: int = parameter(5, whole(1))
    graph: str | Sparse = parameter("knn", KNN_OR_MATRIX)
    solver: str = parameter("auto", GRAPH_SOLVER)
    init: str = parameter("random", INIT)
    n_init: int = parameter(1, whole(1))
    inner_iter: int | str = parameter("auto", INNER_ITER)

    _rules: ClassVar[Mapping[str, multiplicative.Factor]] = {"paper": multiplicative.appendix}
    _capability: ClassVar[Capability | None] = "graphs"

    def _operator(self, data: Data) -> tuple[Operator, float]:
        """The operator between rows, and its weight."""
        raise NotImplementedError

    def problem(self, data: Data, y: ArrayLike, scale: float) -> Problem:
        """The graph's term belongs to the reconstruction, whose components have unit length; labels where there are."""
        operator, weight = self._operator(data)
        label_weight = getattr(self, "label_weight", None)  # None: a method that does not learn from labels
        labels = Labels(*_validation.check_labels(None if label_weight is None else y, data.shape[0]))
        operators, weights, terms = [operator], {"reconstruction": 1.0}, {}
        if label_weight is not None and labels.known.any():
            data = data.widened("labels", labels.one_hot(scale, data.dtype))
            operators.append(labels.mask())
            terms["labels"] = labels.term(data.block("labels"), mask=1)
            weights["labels"] = float(label_weight) / (scale * scale)
            _validation.check_weights_finite(self, "label_weight", np.array(list(weights.values())))
        data = self.with_penalized_sums(data, scale)
        rows = data.rows(self.n_components, scale, operators)
        penalties = self.solver_penalties(*data.shape, scale, scale)
        plain = penalties.of_components(Reconstruction(data.norm2(scale), data.block()))
        parts = {"reconstruction": plain, **terms}
        objective, largest = penalties.objective({name: (part, weights[name]) for name, part in parts.items()}, data)
        graph = {"graph": Smoothness(0)}, {"graph": weight / largest}
        published = Objective({**objective.terms, **graph[0]}, {**objective.weights, **graph[1]})
        # label components count in the lengths as if the labels were as large as X, but never more than in the fit
        counted = min(float(label_weight or 0.0), data.largest * data.largest or math.inf)
        lengths = {"reconstruction": 1.0, "labels": counted / label_weight if label_weight else 0.0}
        bound = {name: replace(part, smooth=_smooth(weight * lengths[name])) for name, part in parts.items()}
        objective = replace(objective, terms={**objective.terms, **bound})
        counted /= scale * scale
        details = {"labels": labels if terms else None, "counted": counted, "penalties": penalties}
        return Problem(data, rows, objective, largest * scale * scale, scale, published, details)

    def _errors(self, values: Mapping[str, float], problem: Problem, s: State) -> dict[str, float]:
        reconstruction = problem.objective.terms["reconstruction"]
        assert isinstance(reconstruction, Reconstruction)
        return {"reconstruction_err_": float(np.sqrt(max(reconstruction.error2(s), 0.0))) * problem.scale}

    def _lengths(self, problem: Problem, s: State) -> Array:
        """Lengths of the components, those of the labels included: what the graph's term counts with."""
        squares = (s.Vt[: self.n_features_in_] ** 2).sum(axis=0)
        if problem.details.get("labels") is not None:
            B = s.Vt[problem.data.block("labels").columns]
            squares = squares + problem.details["counted"] * (B * B).sum(axis=0)
        return np.sqrt(squares)

    def _components(self, problem: Problem, s: State) -> tuple[Array, Array]:
        """Components at unit length; codes of one without features have no part in the objective, and are zero.

        With penalties: as they were found.
        """
        if _penalties(problem).any:
            return super()._components(problem, s)
        length = self._lengths(problem, s)
        return (s.Vt[: self.n_features_in_] * _inverse(length)).T, problem.code * length

    def _for_transform(self, problem: Problem, run: Run) -> dict[str, Any]:
        """The reconstruction by components at unit length, and the training rows new ones are tied to."""
        length, penalties = self._lengths(problem, run.state), _penalties(problem)
        inverse = _inverse(length)
        components = (run.state.Vt[: self.n_features_in_] * inverse).T
        training, unit = self._training_rows(problem, run), np.full(len(components), problem.code)
        training.codes[:] *= length
        curvature, pull = components @ components.T, np.ascontiguousarray(components.T)
        if penalties.any:  # of codes that are so many times as large
            unit = problem.code * inverse
            curvature = curvature + np.diag(penalties.codes_l2 * inverse * inverse)
        if penalties.codes_l1 > 0:
            pull = np.vstack([pull, -penalties.codes_l1 / 2 * inverse])
        return {"unit": unit, "curvature": curvature, "pull": pull, "training": training}

    def _neighbours(self, data: Data) -> tuple[Sparse, Array]:
        """Weights (sparse, new x training) that pull a new row to its neighbours' codes, and what they add up to."""
        raise NotImplementedError

    def _ties(self, data: Data) -> Ties | None:
        state = self._transform_state
        _validation.check_ties(self, "graph", state.parameters["graph"], ("knn",))
        weights, total = self._neighbours(data)
        pull = np.ascontiguousarray((weights @ state.training.codes).astype(data.dtype))
        return Ties(pull, total.astype(data.dtype), np.ones(len(state.curvature), data.dtype))


def _penalties(problem: Problem) -> Penalties:
    """Those of a fit, in the solver's units."""
    found: Penalties = problem.details["penalties"]
    return found


def _smooth(weight: float) -> dict[int, float]:
    """The weight of the graph in a reconstruction."""
    return {0: weight} if weight > 0 else {}


def _inverse(lengths: Array) -> Array:
    """1 over lengths, 0 where there is none."""
    return np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)

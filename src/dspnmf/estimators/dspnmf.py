"""DSP-NMF: the similarities between samples are preserved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dspnmf import _validation, graphs
from dspnmf._typing import Array, ArrayLike, Sparse
from dspnmf._validation import AUTO_OR_COUNT, FLAG, MATRIX, either, number, one_of, whole
from dspnmf.backends.protocol import Capability, Data
from dspnmf.backends.row_model import Operator, Ties
from dspnmf.estimators.base import Problem
from dspnmf.estimators.checkpoint import Run
from dspnmf.estimators.labels import Labels
from dspnmf.estimators.parameters import parameter
from dspnmf.estimators.partial_fit import BatchLearner
from dspnmf.estimators.structure_weight import ALPHA, structure_weight
from dspnmf.estimators.transform_state import TrainingRows
from dspnmf.objective.objective import Term
from dspnmf.objective.state import State
from dspnmf.objective.terms import GramSimilarity, GraphSimilarity, Reconstruction

SIMILARITIES = ("gram", "diffused", "cosine", "knn", "self-tuned")
_AVERAGED = 2**24  # numbers of averaged rows that are dense at once
_NEIGHBOURS = 5  # of similarity="knn"
_OWN = 0.2  # share of a row itself in its diffused row: keeps near rows apart within a cluster
_UNITLESS = ("cosine", "knn", "self-tuned", "")  # similarities that do not change with the unit of X


@dataclass(eq=False, repr=False)
class DSPNMF(BatchLearner):
    """Non-negative matrix factorization that preserves the similarities between samples.

    Minimises, over codes U (n x k) and components V (k x m), both non-negative,

        ||X - U V||^2 + alpha ||X X' - lam U U'||^2

    without ever forming an n x n matrix, by a solver whose objective never rises.

    Parameters
    ----------
    n_components : int, "auto" or None, default=10
        Rank k. "auto": that of W and H where ``init="custom"``, otherwise, as with None, the number of features.
    alpha : float or "auto", default=1.0
        Weight of the structure term; the paper's is 1, 0 is plain NMF. A number's effect depends on the unit of X and
        on the number of rows: scaling X by s has the effect of scaling alpha by s^2, so scale the data (the paper:
        min-max to [0, 1]) before comparing. "auto" depends on neither: it is 100 times the weight at which both terms
        are equal at U = 0, here ``||X||^2 / ||XX'||^2`` (`partial_fit`: of all rows seen, estimated from the first
        batch). Prefer it for data in other units, above some 50,000 rows, and where components are to be read.
    lam : float, default=1.0
        The paper's lambda. It is a unit, not a knob: it divides the codes by sqrt(lam), multiplies the components by
        it and changes nothing else (except with the two paper solvers, which do not converge: lam decides how far they
        get).
    solver : {"auto", "newton-cg", "hals", "mm", "paper", "paper-appendix"}, default="auto"
        "newton-cg": Gauss-Newton model with conjugate gradients; "hals": the cheaper model without coupling between
        rows; "mm": a multiplicative rule that is guaranteed to descend; "paper": the rule as printed (it rises);
        "paper-appendix": as derived in the paper's appendix. "auto": "newton-cg", and "hals" where alpha is 0 or X is
        not in memory. "cd" and "mu", scikit-learn's words, are "auto".
    init : {"random", "nndsvd", "nndsvda", "nndsvdar", "custom"} or None, default="random"
        Start; "custom" takes W and H of `fit_transform`. None: "nndsvda" where X is in memory and n_components not
        above its sides, otherwise "random".
    similarity : {"gram", "diffused", "cosine", "knn", "self-tuned"} or matrix of shape (n_samples, n_samples), \
default="gram"
        What the codes are to preserve: XX' (the paper), ``Xd Xd'`` of rows that are averaged over neighbours (for
        clusters of any shape; see Notes), the cosines of the rows (none of these makes an n x n matrix), a graph of
        nearest neighbours (`dspnmf.graphs.knn`, `dspnmf.graphs.self_tuned`), or a symmetric sparse matrix of your own.
        `transform` is defined for the first four ("self-tuned" and matrices say nothing about new rows).
    n_neighbors : int or "auto", default="auto"
        Neighbours of "diffused" ("auto": 6 for 100 rows, 5 more for every ten times as many) and "knn" ("auto": 5).
    diffusion_steps : int, default=128
        Steps of "diffused": how far rows are averaged.
    mutual : bool, default=True
        Whether "diffused" averages over mutual neighbours only (each among the other's `n_neighbors`).
    missing : {"error", "mask"}, default="error"
        What NaN in X means: an error, or a missing cell that carries no weight (dense X, or NaN stored in a sparse
        one; see Notes). `inverse_transform` of the codes imputes.
    beta_loss : {"frobenius", "kullback-leibler", "itakura-saito"} or float, default="frobenius"
        How errors are measured: ``||X - UV||^2``, or by a beta divergence, as in scikit-learn (see Notes). Then
        `solver` is "auto", and `similarity` is "gram".
    label_weight : float, default=0.0
        Weight b of ``b ||Y - U B||^2`` over the labelled rows: Y holds one column per class (one-hot), B >= 0 is
        learned. Labels are the `y` of `fit`, -1 where unknown; `transform` neither needs nor sees any.
    alpha_W, alpha_H : float, default=0.0 and "same"
        Weights of penalties on codes and on components, with scikit-learn's meaning and units: `objective_` gains
        ``2 alpha_W l1_ratio m ||U||_1 + alpha_W (1 - l1_ratio) m ||U||^2``, and the same of V with `alpha_H` and the
        number of samples n in place of the number of features m; "same" is `alpha_W`. `transform` counts with that of
        the codes. An L1 penalty on codes adds a column of ones to X, which copies an X in memory.
    l1_ratio : float, default=0.0
        Share of L1 (sparse codes and components) in these, from 0 to 1; the rest is L2.
    n_init : int, default=1
        Number of starts; the best result is kept. Starts share every look at X where it is in memory or on a device:
        up to 16 at a time, whose codes take no more memory than X (or 256 MiB).
    max_iter : int, default=200
        Maximum number of iterations of each start.
    tol : float, default=1e-4
        Stop when an iteration lowers the objective by at most this fraction of it; 0: only `max_iter` stops.
    inner_iter : int or "auto", default="auto"
        Sweeps ("hals") or conjugate-gradient steps ("newton-cg") per iteration. "auto" follows what a pass over X costs
        and what the last ones achieved.
    normalize : bool, default=False
        Scale components to unit length after the fit, and codes so that their product is unchanged. Objective and
        errors are those of the factors before this.
    forget_factor : float, default=1.0
        What is left of the weight of earlier rows when `partial_fit` adds a batch, > 0 and <= 1; 1 forgets nothing.
        `fit` does not use it.
    random_state : int, RandomState or None, default=None
        Seed of the start.
    verbose : int, default=0
        Log every `verbose`-th iteration (logger "dspnmf").

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        V.
    objective_ : float
        The objective at the end, not halved.
    objective_history_ : ndarray of shape (n_iter_ + 1,)
        The objective at the start and after every iteration.
    reconstruction_err_ : float
        ``||X - UV||`` (Frobenius).
    structure_err_ : float
        ``||XX' - lam UU'||`` (Frobenius); of the similarities that were asked for.
    alpha_ : float
        The weight of the structure term: alpha, or the weight that "auto" found.
    n_iter_ : int
        Iterations of the best start; after a later `partial_fit` those of its batch.
    n_samples_seen_ : int
        Rows learned from: those of `fit`, or of every batch so far.
    n_steps_ : int
        Batches so far; a `fit` counts as one.
    stability_ : ndarray of shape (n_components,) or None
        How well each component came back from the other starts (`dspnmf.stability`); None with one start.
    n_components_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    label_components_ : ndarray of shape (n_components, n_classes)
        B, and `classes_` the order of its columns; only where labels were used. ``U B`` scores the classes.

    Notes
    -----
    ``similarity="diffused"`` preserves ``Xd Xd'``, ``Xd = 0.8 R^diffusion_steps X + 0.2 X``: in a step, R averages
    every row with its neighbours (`dspnmf.graphs.diffusion`), so rows that a chain of neighbours joins become alike.
    The share of 0.2 keeps near rows apart. Xd is held next to X and makes an iteration twice as long; of sparse X it
    fills in, and what would take half of the machine's memory is refused. The Xd of a new row is interpolated from
    those of its `n_neighbors` nearest training rows, by ``1 / distance^2``: a row that equals a training row gets that
    row's, so `transform` gives the codes of the fit again. The model keeps X for this.

    With missing cells, ``||X - UV||^2`` counts the known cells only, and XX' is that of the completed rows: missing
    cells are those of UV, first those of the column means. The completed rows whose similarities are preserved are
    renewed after iterations 1, 2, 4, 8, ...; between two of these the objective never rises (with alpha = 0: never).
    `objective_history_` begins with missing cells at the column means.

    With any `beta_loss` but "frobenius", the divergence d(X | UV) stands in the objective in place of ``||X - UV||^2``:
    Kullback-Leibler for counts, Itakura-Saito for power spectra, a number for others (2 is "frobenius"). `objective_`
    is d(X | UV) itself plus the other terms, `reconstruction_err_` is ``sqrt(2 d(X | UV))``, as in scikit-learn.
    Missing cells have no weight there. For 1 <= beta <= 2 codes of new rows are a convex problem, which is solved; for
    others `transform` finds a local minimum, which need not be the one `fit_transform` ended in.

    `partial_fit` learns from batches of rows and keeps sums only. The structure term then means what it means in a
    `fit` on all rows seen so far (with ``forget_factor < 1``: each with the weight it has left), so its share grows
    with their number. `objective_`, `objective_history_` and `structure_err_` do not exist after it.

    References
    ----------
    R. Hedjam, A. Abdesselam, A. Rahiche, M. Cheriet: Non-negative matrix factorization with scale data structure
    preservation.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dspnmf import DSPNMF
    >>> X = load_digits().data / 16
    >>> model = DSPNMF(n_components=10, random_state=0)
    >>> Z = model.fit_transform(X)
    >>> Z.shape
    (1797, 10)
    >>> bool((Z >= 0).all() and (model.components_ >= 0).all())
    True
    """

    alpha: float | str = parameter(1.0, ALPHA)
    lam: float = parameter(1.0, number(0, strict=True))
    similarity: str | Sparse = parameter("gram", either(one_of(*SIMILARITIES), MATRIX))
    n_neighbors: int | str = parameter("auto", AUTO_OR_COUNT)
    diffusion_steps: int = parameter(128, whole(1))
    mutual: bool = parameter(True, FLAG)
    label_weight: float = parameter(0.0, number(0))

    def _needs(self) -> dict[Capability, str]:
        needs, kind = super()._needs(), _kind(self.similarity)
        if kind != "gram":
            shown = repr(kind) if kind else "a matrix"
            needs["features" if kind == "cosine" else "graphs"] = f"similarity={shown}"
        if kind == "diffused":
            needs["features"] = f"similarity={shown}"
        if self.label_weight > 0:
            needs["features"] = f"label_weight={self.label_weight!r}"
        return needs

    def problem(self, data: Data, y: ArrayLike, scale: float) -> Problem:
        """Reconstruction and structure, also where that weighs nothing; labels where there are any."""
        if self._divergent:
            alpha = float(self.alpha)  # a word is refused before
            return self.divergence_problem(data, scale, alpha if self.missing == "error" else None, self.lam)
        kind, root = _kind(self.similarity), float(np.sqrt(self.lam))
        operators: list[Operator] = []
        similar = "X"
        if kind == "gram" and self.alpha != 0:
            data, similar = data.with_similarity_block()
        elif kind == "cosine":
            data, similar = data.with_unit_rows(scale), "unit rows"
        elif kind == "diffused":
            R = graphs.diffusion(data.on_host(), _neighbours(kind, self.n_neighbors, data.shape[0]), self.mutual)
            data, similar = data.with_averaged_rows(R, self.diffusion_steps, _OWN), "averaged rows"
        elif kind != "gram":
            operators = [self._graph(data)]
        labels = Labels(*_validation.check_labels(y if self.label_weight > 0 else None, data.shape[0]))
        if labels.known.any():
            data = data.widened("labels", labels.one_hot(scale, data.dtype))
        data, area = self.with_penalized_sums(data, scale), scale * scale
        if kind in _UNITLESS:  # similarities, and with them the codes, have no unit
            unit, weight, code = 1.0, area, 1.0 / root
        else:  # similarities are squares of X's unit, and so are the codes'
            unit, weight, code = area, 1.0, scale / root
        penalties = self.solver_penalties(*data.shape, code, scale, weight)
        reconstruction = penalties.of_components(Reconstruction(data.norm2(scale), data.block()))
        structure: Term
        if operators:
            structure = GraphSimilarity(float(operators[0].off.power(2).sum()))
        else:
            structure = GramSimilarity(data.gram_norm2(scale, similar), data.block(similar))
        parts: dict[str, Term] = {"reconstruction": reconstruction, "structure": structure}
        alpha = structure_weight(self.alpha, unit, parts, {"reconstruction": weight})
        terms = {"reconstruction": (parts["reconstruction"], weight), "structure": (structure, alpha)}
        if labels.known.any():
            terms["labels"] = labels.term(data.block("labels"), len(operators)), float(self.label_weight) / unit
            operators.append(labels.mask())
        _validation.check_weights_finite(self, "alpha", np.array([weight for _, weight in terms.values()]))
        objective, largest = penalties.objective(terms, data)
        rows = data.rows(self.n_components_, scale, operators)
        alpha = alpha / unit if self.alpha == "auto" else float(self.alpha)
        details = {"similar": similar, "labels": labels if labels.known.any() else None, "alpha": alpha}
        return Problem(data, rows, objective, largest * unit, code, details=details)

    @property
    def _preserves_gram(self) -> bool:
        return _kind(self.similarity) == "gram"

    def _graph(self, data: Data) -> Operator:
        """The operator -A of a similarity A that is a graph."""
        kind = _kind(self.similarity)
        if self.solver == "mm":
            raise ValueError(_validation.NOT_SEMI_DEFINITE.format(similarity=kind or "a matrix"))
        if not kind:
            A = graphs.check_graph(self.similarity, data.shape[0], name="similarity", signed=True)
        else:
            X = data.on_host()
            count = _neighbours(kind, self.n_neighbors, data.shape[0])
            A = graphs.knn(X, count) if kind == "knn" else graphs.self_tuned(X)
        return Operator(A, np.zeros(data.shape[0]))

    def augmented(self, data: Data) -> Data:
        """With rows of unit length, where cosines are preserved."""
        state = self._transform_state
        cosine = _kind(state.parameters["similarity"]) == "cosine"
        return super().augmented(data.with_unit_rows(state.scale) if cosine else data)

    def _for_transform(self, problem: Problem, run: Run) -> dict[str, Any]:
        if self._divergent:
            return super()._for_transform(problem, run)
        data, similar = problem.data, problem.details["similar"]
        model = problem.objective.without("labels").model(run.state)  # new rows have no labels
        M = model.M[data.block().columns]
        if similar == "unit rows":
            M = np.vstack([M, model.M[data.block(similar).columns]])
        elif similar not in ("X", "averaged rows"):  # similarities of a second X: of a new row, both are the same
            M = M + model.M[data.block(similar).columns]
        if self.sums_are_penalized(vars(self)):
            M = np.vstack([M, model.M[data.block("ones").columns]])
        kept = {**super()._for_transform(problem, run), "curvature": model.S, "pull": M}
        if similar == "averaged rows":  # of a new row: those of its neighbours
            kept["training"] = TrainingRows(self._averages(problem, model.M), data.on_host().copy())
            kept["batches"] = None  # no batch can follow: its rows have other neighbours
        if model.pulls:
            weight = 2 * problem.objective.weights["structure"]
            kept["training"] = self._training_rows(problem, run, weight=weight)
        return kept

    def _averages(self, problem: Problem, M: Array) -> Array:
        """What their averaged rows pull the codes of training rows to, n x k."""
        data, rows = problem.data, problem.rows
        M = M[data.block("averaged rows").columns] / rows.scale
        some = np.array_split(np.arange(rows.shape[0]), 1 + rows.shape[0] * len(M) // _AVERAGED)
        pulls = [data.some_rows(part, "averaged rows") @ M for part in some]
        return np.maximum(np.concatenate(pulls), 0.0).astype(rows.dtype)

    def _ties(self, data: Data) -> Ties | None:
        state = self._transform_state
        if state.training is None:
            return None
        kind = _kind(state.parameters["similarity"])
        count = _neighbours(kind, state.parameters["n_neighbors"], state.training.data.shape[0])
        if kind == "diffused":
            near = graphs.interpolation_in(data.on_host(), state.training.data, count)
            return self._pulled(near, data.dtype)
        _validation.check_ties(self, "similarity", state.parameters["similarity"], SIMILARITIES[:4])
        neighbours = graphs.neighbours_in(data.on_host(), state.training.data, count)
        return self._pulled(neighbours, data.dtype)

    def _errors(self, values: Mapping[str, float], problem: Problem, s: State) -> dict[str, float]:
        if self._divergent:
            return super()._errors(values, problem, s)
        unit = 1.0 if _kind(self.similarity) in _UNITLESS else problem.scale * problem.scale
        error = float(np.sqrt(max(values["structure"], 0.0))) * unit
        return {**super()._errors(values, problem, s), "structure_err_": error}


def _neighbours(kind: str, n_neighbors: int | str, n_rows: int) -> int:
    """The neighbours of a graph of so many training rows."""
    if not isinstance(n_neighbors, str):
        return int(n_neighbors)
    return graphs.diffusion_neighbors(n_rows) if kind == "diffused" else _NEIGHBOURS


def _kind(similarity: str | Sparse) -> str:
    """The similarity by its name; "" for a matrix."""
    return similarity if isinstance(similarity, str) else ""

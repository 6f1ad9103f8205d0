"""DSP-NMF."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from dspnmf import _validation, graphs
from dspnmf._validation import MATRIX, Allowed, either, number, one_of, whole
from dspnmf.backends import ArrayRows, Operator, Rows
from dspnmf.backends.dispatch import Place, as_rows
from dspnmf.backends.incomplete import Incomplete, IncompleteRows
from dspnmf.backends.row_model import Array
from dspnmf.estimators.base import Problem, Run
from dspnmf.estimators.labels import Labels, beside, label_components
from dspnmf.estimators.partial_fit import Streaming
from dspnmf.objective.state import State
from dspnmf.objective.terms import ALL, GramSimilarity, GraphSimilarity, Objective, Reconstruction, Term

Structure = GramSimilarity | GraphSimilarity


def with_unit_rows(X: Any, scale: float) -> Any:
    """X, and beside it its rows at unit length (times the scale the solver divides by); rows of zeros stay zero."""
    X64 = X.astype(np.float64) / scale
    if sparse.issparse(X):
        lengths = np.sqrt(np.asarray(X64.power(2).sum(axis=1)).ravel())
        unit = sparse.diags_array(scale / np.where(lengths > 0, lengths, 1.0)) @ X64
        return sparse.csr_array(sparse.hstack([X, unit.astype(X.dtype)], format="csr"))
    lengths = np.linalg.norm(X64, axis=1, keepdims=True)
    return np.hstack([X, (X64 * (scale / np.where(lengths > 0, lengths, 1.0))).astype(X.dtype)])


class DSPNMF(Streaming):
    """Non-negative matrix factorization that preserves the similarities between samples.

    Minimises, over codes U (n x k) and components V (k x m), both non-negative,

        ||X - U V||^2 + alpha ||X X' - lam U U'||^2

    without ever forming an n x n matrix, by a solver whose objective never rises.

    Parameters
    ----------
    n_components : int, default=10
        Rank k.
    alpha : float, default=1.0
        Weight of the structure term; the paper's is 1, 0 is plain NMF. Its effect depends on the unit of X: scaling X
        by s has the effect of scaling alpha by s^2, so scale the data (the paper: min-max to [0, 1]) before comparing.
    lam : float, default=1.0
        The paper's lambda. It is a unit, not a knob: it divides the codes by sqrt(lam), multiplies the components by
        it and changes nothing else (except for the two paper solvers, whose start and rule do not converge alike).
    solver : {"auto", "newton-cg", "hals", "mm", "paper", "paper-appendix"}, default="auto"
        "newton-cg": Gauss-Newton model with conjugate gradients; "hals": the cheaper model without coupling between
        rows; "mm": a multiplicative rule that is guaranteed to descend; "paper": the rule as printed (it rises);
        "paper-appendix": as derived in the paper's appendix. "auto": "newton-cg", and "hals" where alpha is 0 or X is
        not in memory.
    init : {"random", "nndsvd", "nndsvda", "nndsvdar", "custom"}, default="random"
        Start; "custom" takes W and H of `fit_transform`.
    similarity : {"gram", "cosine", "knn", "self-tuned"} or matrix of shape (n_samples, n_samples), default="gram"
        What the codes are to preserve: XX' (the paper), the cosines of the rows (still no n x n matrix), a graph of
        nearest neighbours (`dspnmf.graphs.knn`, `dspnmf.graphs.self_tuned`), or a symmetric sparse matrix of your own.
        `transform` is defined for the first three.
    n_neighbors : int, default=5
        Neighbours of ``similarity="knn"``.
    missing : {"error", "mask"}, default="error"
        What NaN in X means: an error, or a missing cell that carries no weight (dense X, or NaN stored in a sparse
        one; see Notes). `inverse_transform` of the codes imputes.
    label_weight : float, default=0.0
        Weight b of ``b ||Y - U B||^2`` over the labelled rows: Y holds one column a class (one-hot), B >= 0 is learned.
        Labels are the `y` of `fit`, -1 where unknown; `transform` neither needs nor sees any.
    n_init : int, default=1
        Number of starts; the best result is kept.
    max_iter : int, default=200
        Most iterations of a start.
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
        ``||XX' - lam UU'||`` (Frobenius).
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
    With missing cells, ``||X - UV||^2`` counts the known cells only, and XX' is that of the completed rows: missing
    cells are those of UV, first those of the column means. The completed rows whose similarities are preserved are
    renewed after iterations 1, 2, 4, 8, ...; between two of these the objective never rises (with alpha = 0: never).
    `objective_history_` begins with missing cells at the column means.

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

    _allowed: ClassVar[Mapping[str, Allowed]] = {
        **Streaming._allowed,
        "alpha": number(0),
        "lam": number(0, strict=True),
        "similarity": either(one_of("gram", "cosine", "knn", "self-tuned"), MATRIX),
        "n_neighbors": whole(1),
        "missing": one_of("error", "mask"),
        "label_weight": number(0),
    }
    _anywhere = True

    def __init__(
        self,
        n_components: int = 10,
        *,
        alpha: float = 1.0,
        lam: float = 1.0,
        solver: str = "auto",
        init: str = "random",
        similarity: Any = "gram",
        n_neighbors: int = 5,
        missing: str = "error",
        label_weight: float = 0.0,
        n_init: int = 1,
        max_iter: int = 200,
        tol: float = 1e-4,
        inner_iter: int | str = "auto",
        normalize: bool = False,
        forget_factor: float = 1.0,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_components, solver, init, n_init, max_iter, tol, inner_iter, normalize, random_state, verbose
        )
        self.forget_factor = forget_factor
        self.alpha = alpha
        self.lam = lam
        self.similarity = similarity
        self.n_neighbors = n_neighbors
        self.missing = missing
        self.label_weight = label_weight

    def _problem(self, X: Any, y: Any, scale: float) -> Problem:
        root = float(np.sqrt(self.lam))
        labels = self._labels(y, X.shape[0])
        rows, structure, term = self._rows(X, scale, labels)
        data = Reconstruction(as_rows(X, 1, scale).norm2(), slice(0, X.shape[1]) if rows.shape != X.shape else ALL)
        if self._like_gram:  # similarities are squares of X's unit, and so are the codes'
            weights, unit, code = [1.0, self.alpha * scale * scale], scale * scale, scale / root
        else:  # similarities, and with them the codes, have no unit
            weights, unit, code = [scale * scale, float(self.alpha)], 1.0, 1 / root
        terms: tuple[Term, ...] = (data, structure)
        if term is not None:
            terms, weights = (*terms, term), [*weights, float(self.label_weight) / unit]
        _validation.check_weights_finite(self, "alpha", np.array(weights))
        objective = Objective(terms, tuple(float(weight / max(weights)) for weight in weights))
        return Problem(rows, objective, float(max(weights)) * unit, code)

    def _labels(self, y: Any, n: int) -> Labels | None:
        """Labels that count; None where there are none, or they weigh nothing."""
        labels = Labels.of(y, n) if self.label_weight > 0 else None
        self._classes = None if labels is None or not labels.known.any() else labels.classes
        for name in ("classes_", "label_components_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        return None if self._classes is None else labels

    @property
    def _like_gram(self) -> bool:
        return isinstance(self.similarity, str) and self.similarity == "gram"

    def _rows(self, X: Any, scale: float, labels: Labels | None) -> tuple[Rows, Structure, Reconstruction | None]:
        """Rows, the term that preserves the similarity asked for, and that of the labels, if there are any."""
        k = self.n_components
        if isinstance(X, Incomplete):
            return self._incomplete_rows(X, scale, labels)
        if self._like_gram and labels is None:
            here = as_rows(X, k, scale)
            return here, GramSimilarity(here.gram_norm2()), None
        structure, wide, operators = self._structure(X, scale)
        if labels is None:
            return ArrayRows(wide, k, scale, operators), structure, None
        rows = ArrayRows(beside(wide, labels.one_hot(scale, X.dtype)), k, scale, [*operators, labels.mask()])
        return rows, structure, labels.term(wide.shape[1], len(operators))

    def _incomplete_rows(self, X: Incomplete, scale: float, labels: Labels | None) -> Any:
        """The same where cells are missing: similarities are those of a second, completed X beside the first."""
        _validation.check_complete(self, self._like_gram)
        k, m = self.n_components, X.shape[1]
        twice = self.alpha > 0
        Y = None if labels is None else labels.one_hot(scale, X.dtype)
        dense = Y if Y is None or sparse.issparse(X.X) else Y.toarray()
        operators = [] if labels is None else [labels.mask()]
        rows = IncompleteRows(X, k, scale, operators, twice=twice, beside=dense)
        structure = GramSimilarity(rows.similarity_norm2(), slice(m, 2 * m) if twice else slice(0, m))
        return rows, structure, None if labels is None else labels.term(m * (1 + twice), 0)

    def _structure(self, X: Any, scale: float) -> tuple[Structure, Any, list[Operator]]:
        """The term that preserves the similarity asked for, and the features and operators it speaks of."""
        n, m = X.shape
        if self._like_gram:
            return GramSimilarity(as_rows(X, 1, scale).gram_norm2(), slice(0, m)), X, []
        if isinstance(self.similarity, str) and self.similarity == "cosine":
            both = with_unit_rows(X, scale)
            cosines = ArrayRows(both[:, m:], 1, scale).gram_norm2()
            return GramSimilarity(cosines, slice(m, 2 * m)), both, []
        if self.solver == "mm":
            name = self.similarity if isinstance(self.similarity, str) else "a matrix"
            raise ValueError(_validation.NOT_SEMI_DEFINITE.format(similarity=name))
        if not isinstance(self.similarity, str):
            A = graphs.check_graph(self.similarity, n, name="similarity", signed=True)
        else:
            A = graphs.knn(X, self.n_neighbors) if self.similarity == "knn" else graphs.self_tuned(X)
        return GraphSimilarity(float(A.power(2).sum())), X, [Operator(A, np.zeros(n))]

    def _kept(self) -> str:
        """The similarity of the fit; "" for a matrix."""
        similarity = self._at_fit["similarity"]
        return similarity if isinstance(similarity, str) else ""

    def _augmented(self, X: Any) -> Any:
        return with_unit_rows(X, self._scale) if self._kept() == "cosine" else X

    def _codes_of_incomplete(self, X: Incomplete, place: Place, path: Path | None) -> Any:
        _validation.check_complete(self, self._kept() == "gram")
        return super()._codes_of_incomplete(X, place, path)

    def _for_transform(self, problem: Problem, run: Run) -> dict[str, Any]:
        unlabelled = Objective(problem.objective.terms[:2], problem.objective.weights[:2])  # new rows have no labels
        model, m = unlabelled.model(run.state), self.n_features_in_
        M = model.M[: len(model.M) - (0 if self._classes is None else len(self._classes))]
        if isinstance(problem.rows, IncompleteRows) and len(M) > m:  # of new rows, both halves are completed alike
            M = M[:m] + M[m:]
        ties: dict[str, Any] = {"_train_codes": None}
        if model.pulls:
            ties = self._ties_to(problem, run)
            ties["_train_data"] = ties["_train_data"][:, :m]
        return {**super()._for_transform(problem, run), "_curvature": model.S, "_pull": M, **ties}

    def _learned(self, problem: Problem, run: Run) -> dict[str, Any]:
        attributes = super()._learned(problem, run)
        if self._classes is not None:
            attributes["classes_"] = self._classes
            attributes["label_components_"] = label_components(run.state.Vt, self._classes, attributes["_unit"])
        return attributes

    def _beside(self, X: Any) -> tuple[Array, ...]:
        if self._train_codes is None:  # nothing ties rows to each other
            return ()
        _validation.check_ties(self, "similarity", self._at_fit["similarity"], ("gram", "cosine", "knn"))
        return self._pulled(graphs.neighbours_in(X, self._train_data, self._at_fit["n_neighbors"]), X.dtype)

    def _errors(self, values: list[float], problem: Problem, s: State) -> dict[str, float]:
        unit = problem.rows.scale**2 if self._like_gram else 1.0
        if isinstance(problem.rows, IncompleteRows) and self.alpha == 0:  # similarities of rows completed in the end
            structure = GramSimilarity(problem.rows.similarity_norm2(), slice(0, self.n_features_in_))
            values = [values[0], float(structure.value(s))]
        return {**super()._errors(values, problem, s), "structure_err_": float(np.sqrt(max(values[1], 0.0))) * unit}

"""The formulas, in slow loops, straight from the mathematics: what everything else is compared with.

X n x m, U n x k, V k x m. Nothing here is shared with the library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import nnls


def objective(X: np.ndarray, U: np.ndarray, V: np.ndarray, alpha: float = 1.0, lam: float = 1.0) -> float:
    """||X - UV||^2 + alpha ||XX' - lam UU'||^2, entry by entry, n x n and all."""
    n, m = X.shape
    k = U.shape[1]
    total = 0.0
    for i in range(n):
        for j in range(m):
            total += (X[i, j] - sum(U[i, a] * V[a, j] for a in range(k))) ** 2
    for i in range(n):
        for j in range(n):
            similarity = sum(X[i, f] * X[j, f] for f in range(m))
            kept = sum(U[i, a] * U[j, a] for a in range(k))
            total += alpha * (similarity - lam * kept) ** 2
    return total


def objective_dense(X: np.ndarray, U: np.ndarray, V: np.ndarray, alpha: float = 1.0, lam: float = 1.0) -> float:
    """The same from dense residuals, for sizes where loops are too slow."""
    X, U, V = (np.asarray(A, dtype=np.float64) for A in (X, U, V))
    return float(np.sum((X - U @ V) ** 2) + alpha * np.sum((X @ X.T - lam * U @ U.T) ** 2))


def printed_rule(
    X: np.ndarray, U: np.ndarray, V: np.ndarray, lam: float, cubic: float
) -> tuple[np.ndarray, np.ndarray]:
    """Eq. (ourh), then (ourw), entry by entry; `cubic` is 1 as printed and 2 as derived in Appendix A."""
    n, m = X.shape
    k = U.shape[1]
    gram, similarity, similarity_codes = V @ V.T, X @ X.T, U @ U.T
    new_U, new_V = np.empty_like(U), np.empty_like(V)
    for i in range(n):
        for a in range(k):
            pull = sum(X[i, j] * V[a, j] for j in range(m))
            pull += 2 * lam * sum(similarity[i, p] * U[p, a] for p in range(n))
            push = sum(U[i, b] * gram[b, a] for b in range(k))
            push += cubic * lam**2 * sum(similarity_codes[i, p] * U[p, a] for p in range(n))
            new_U[i, a] = U[i, a] * pull / push
    for a in range(k):
        for j in range(m):
            pull = sum(new_U[i, a] * X[i, j] for i in range(n))
            push = sum(new_U[i, a] * new_U[i, b] * V[b, j] for i in range(n) for b in range(k))
            new_V[a, j] = V[a, j] * pull / push
    return new_U, new_V


def guaranteed_rule(X: np.ndarray, U: np.ndarray, V: np.ndarray, alpha: float) -> np.ndarray:
    """New codes of the mm rule, every cubic solved by bisection."""
    a = 2 * alpha * U @ (U.T @ U)
    b = U @ (V @ V.T)
    c = X @ V.T + 2 * alpha * X @ (X.T @ U)
    new = np.empty_like(U)
    for i in range(U.shape[0]):
        for j in range(U.shape[1]):
            low, high = 0.0, 1.0
            while a[i, j] * high**3 + b[i, j] * high < c[i, j]:
                high *= 2
            for _ in range(200):
                middle = (low + high) / 2
                below = a[i, j] * middle**3 + b[i, j] * middle < c[i, j]
                low, high = (middle, high) if below else (low, middle)
            new[i, j] = U[i, j] * (low + high) / 2
    return new


def hals_sweep(Y: np.ndarray, G: np.ndarray, S: np.ndarray) -> np.ndarray:
    """One sweep: every column exactly minimised in turn."""
    Y = Y.copy()
    for a in range(Y.shape[1]):
        for i in range(Y.shape[0]):
            slope = G[i, a] - sum(Y[i, b] * S[b, a] for b in range(Y.shape[1]))
            Y[i, a] = max(0.0, Y[i, a] + slope / S[a, a])
    return Y


def graph_rule(
    X: np.ndarray, U: np.ndarray, V: np.ndarray, beta: float, gain: np.ndarray, loss: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """U <- U (XV' + beta gain U) / (UVV' + beta loss U), then V <- V (U'X) / (U'UV)."""
    new_U = np.empty_like(U)
    top, bottom = X @ V.T + beta * gain @ U, U @ (V @ V.T) + beta * loss @ U
    for i in range(U.shape[0]):
        for a in range(U.shape[1]):
            new_U[i, a] = U[i, a] * top[i, a] / bottom[i, a]
    return new_U, V * (new_U.T @ X) / (new_U.T @ new_U @ V)


def orthogonal_rule(X: np.ndarray, U: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """V <- V (U'X) / (U'U V), then U <- U sqrt((X V') / (U U' X V'))."""
    V = V * (U.T @ X) / (U.T @ U @ V)
    return U * np.sqrt((X @ V.T) / (U @ (U.T @ X @ V.T))), V


def neighbourhood_rule(
    X: np.ndarray, U: np.ndarray, V: np.ndarray, A: np.ndarray, alpha: float, gamma: float
) -> tuple[np.ndarray, np.ndarray]:
    """The multiplicative rule of ||A - UU'||^2 + alpha ||X - UV||^2 + gamma (||U||^2 + ||V||^2)."""
    U = U * (alpha * X @ V.T + 2 * A @ U) / (alpha * U @ (V @ V.T) + 2 * U @ (U.T @ U) + gamma * U)
    return U, V * (alpha * U.T @ X) / (alpha * U.T @ U @ V + gamma * V)


def separated_rule(
    X: np.ndarray,
    U: np.ndarray,
    V: np.ndarray,
    A: np.ndarray,
    far: np.ndarray,
    beta: float,
    repulsion: float,
    overlap: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Multiplicative rule of SPNMF with the smoothness of codes at unit-length components."""
    crowd = 1 + overlap * (1 - np.eye(U.shape[1]))
    lengths, degrees = np.diag(V @ V.T), A.sum(axis=1)[:, None]
    gain = X @ V.T + beta * (A @ U) * lengths
    loss = U @ (crowd * (V @ V.T)) + beta * degrees * U * lengths + repulsion * (far @ U) * lengths
    U = U * gain / loss
    smooth = beta * np.diag(U.T @ (degrees * U - A @ U)) + repulsion * np.diag(U.T @ far @ U)
    return U, V * (U.T @ X) / ((crowd * (U.T @ U) + np.diag(smooth)) @ V)


def feature_rule(
    X: np.ndarray, U: np.ndarray, V: np.ndarray, alpha: float, lam: float
) -> tuple[np.ndarray, np.ndarray]:
    """FR-NMF as its authors' code runs: V, L1 normalisation, then the Kullback-Leibler rule for U."""
    V = V * (U.T @ X + 2 * alpha * lam * V @ X.T @ X) / (U.T @ U @ V + alpha * lam**2 * V @ V.T @ V)
    V = V / V.sum(axis=1, keepdims=True)
    return U * ((X / (U @ V)) @ V.T) / V.sum(axis=1), V


def alternating_least_squares(A: np.ndarray, U: np.ndarray) -> np.ndarray:
    """One iteration of SymNMF's published solver: two non-negative least-squares problems a row, penalty max(A)^2."""
    weight = A.max()
    for _ in range(2):
        stacked = np.vstack([U, weight * np.eye(U.shape[1])])
        U = np.array([nnls(stacked, np.concatenate([A[i], weight * U[i]]))[0] for i in range(len(A))])
    return U


def reconstruction(
    X: np.ndarray,
    U: np.ndarray,
    V: np.ndarray,
    rows: np.ndarray,
    smooth: Sequence[tuple[float, np.ndarray]],
    ridge: float = 0.0,
    overlap: float = 0.0,
    lasso: float = 0.0,
) -> float:
    """||X - UV||^2 over weighted rows, ridge ||V||^2, lasso ||V||_1, overlap, smoothness of codes by length."""
    total, k = 0.0, len(V)
    for i in range(len(X)):
        for j in range(X.shape[1]):
            total += rows[i] * (X[i, j] - sum(U[i, a] * V[a, j] for a in range(k))) ** 2
    for a in range(k):
        total += ridge * sum(v**2 for v in V[a]) + lasso * sum(v for v in V[a])
        for b in range(k):
            if a != b:
                total += overlap * (U[:, a] @ U[:, b]) * (V[a] @ V[b])
        for weight, L in smooth:
            total += weight * (V[a] @ V[a]) * (U[:, a] @ L @ U[:, a])
    return float(total)


def similarity(A: np.ndarray, U: np.ndarray) -> float:
    """||A - UU'||^2, entry by entry."""
    n = len(A)
    return float(sum((A[i, j] - U[i] @ U[j]) ** 2 for i in range(n) for j in range(n)))


def smoothness(L: np.ndarray, U: np.ndarray) -> float:
    """tr(U'LU), column by column."""
    return float(sum(U[:, a] @ L @ U[:, a] for a in range(U.shape[1])))


def gram_norm2(X: np.ndarray) -> float:
    """||XX'||^2, from the n x n matrix."""
    return float(np.sum((X @ X.T) ** 2))


def unit_rows(X: np.ndarray, scale: float) -> np.ndarray:
    """Every row divided by its length, times `scale`; rows of zeros stay."""
    unit = np.zeros_like(X)
    for i, row in enumerate(X):
        if row.any():
            unit[i] = scale * row / np.sqrt(np.sum(row**2))
    return unit


def column_means(X: np.ndarray) -> np.ndarray:
    """Means of the known cells of every column; of all known cells where a column has none."""
    means = np.empty(X.shape[1])
    for j in range(X.shape[1]):
        known = [x for x in X[:, j] if not np.isnan(x)]
        means[j] = sum(known) / len(known) if known else np.nanmean(X)
    return means


def random_codes(key: int, size: float, n: int, k: int, dtype: type) -> np.ndarray:
    """Random codes: of every row and column the four words of Philox4x32-10, in Python's whole numbers."""
    codes = np.empty((n, k))
    for row in range(n):
        for column in range(k):
            words = philox((row & 0xFFFFFFFF, row >> 32, column, 0), (key & 0xFFFFFFFF, key >> 32))
            codes[row, column] = size / (2.0**32 / np.sqrt(3.0)) * abs(sum(words) - (2**33 - 2))
    return codes.astype(dtype)


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Philox4x32-10 (Salmon et al. 2011)."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(10):
        p, q = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (q >> 32) ^ c1 ^ k0, q & 0xFFFFFFFF, (p >> 32) ^ c3 ^ k1, p & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def best_codes(C: np.ndarray, G: np.ndarray) -> np.ndarray:
    """The y >= 0 with the lowest ``1/2 y C y' - g y`` of every row: the best of all sets of positive entries.

    C is n x k x k, G is n x k.
    """
    best, lowest = np.zeros_like(G), np.zeros(len(G))
    for subset in range(1, 2 ** G.shape[1]):
        free = [a for a in range(G.shape[1]) if subset >> a & 1]
        Y = np.zeros_like(G)
        Y[:, free] = np.einsum("ia,iab->ib", G[:, free], np.linalg.pinv(C[:, free][:, :, free]))
        value = np.einsum("ia,iab,ib->i", Y, C, Y) / 2 - np.sum(G * Y, axis=1)
        better = (Y >= 0).all(axis=1) & (value < lowest)
        best[better], lowest[better] = Y[better], value[better]
    return best


def full(K: np.ndarray) -> np.ndarray:
    """One dimension stands for a diagonal matrix."""
    return np.diag(K) if K.ndim == 1 else K


class ReferenceRows:
    """Every method of rows from its formula, in dense float64; operators are n x n arrays, codes n x k.

    A model is anything with S, M, coupling, pulls and curves: ``<g, D> + 1/2 <A[D], D>``, where
    ``g = U S - X M + sum_j L_j U pulls[j]`` and ``A[D] = D S + coupling U (D'U) + sum_j L_j D curves[j]``. Sweeps take
    the diagonals of the operators only, and no coupling. Results are tuples in the order of `Sums` and `Slope`.
    """

    def __init__(self, X: np.ndarray, k: int, scale: float = 1.0, operators: Sequence[np.ndarray] = ()) -> None:
        self.X, self.k, self.scale = np.asarray(X, dtype=np.float64) / scale, k, scale
        self.operators = [np.asarray(L, dtype=np.float64) for L in operators]

    # -- codes

    def begin(self, U: np.ndarray) -> None:
        """Start from these codes."""
        self.U = np.array(U, dtype=np.float64)
        self.D = np.zeros_like(self.U)

    def step(self, t: float) -> float:
        """U += t D, never below zero."""
        self.U = np.maximum(self.U + t * self.D, 0)
        return t

    def between(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, ...]:
        """A'LB for every operator."""
        return tuple(A.T @ L @ B for L in self.operators)

    # -- looks

    def sums(self) -> tuple[object, ...]:
        """X'U, U'U, U'LU."""
        return self.X.T @ self.U, self.U.T @ self.U, self.between(self.U, self.U)

    def gradient(self, model: Any) -> np.ndarray:
        """Half the gradient g."""
        g = self.U @ model.S - self.X @ model.M
        for j, K in model.pulls.items():
            g = g + self.operators[j] @ self.U @ full(K)
        return g

    def curved(self, model: Any, B: np.ndarray) -> np.ndarray:
        """A[B]: the model's whole curvature along B."""
        AB = B @ model.S + model.coupling * self.U @ (B.T @ self.U)
        for j, K in model.curves.items():
            AB = AB + self.operators[j] @ B @ full(K)
        return AB

    def curvatures(self, model: Any) -> np.ndarray:
        """Every row's own k x k curvature, n x k x k: S and the diagonals of the operators."""
        C = np.repeat(model.S[None], len(self.U), axis=0)
        for j, K in model.curves.items():
            C = C + np.diag(self.operators[j])[:, None, None] * full(K)
        return C

    def swept(self, model: Any, sweeps: int) -> tuple[np.ndarray, list[float]]:
        """Codes after some sweeps, and the squared change of each; an entry without curvature is left as it is."""
        g, Y, changes = self.gradient(model), self.U.copy(), [0.0] * sweeps
        C = self.curvatures(model)
        for sweep in range(sweeps):
            for a in range(self.k):
                slope = g[:, a] + np.sum((Y - self.U) * C[:, :, a], axis=1)
                flat = C[:, a, a] <= 0
                new = np.where(flat, Y[:, a], np.maximum(0, Y[:, a] - slope / np.where(flat, 1, C[:, a, a])))
                changes[sweep] += float(np.sum((new - Y[:, a]) ** 2))
                Y[:, a] = new
        return Y, changes

    def along(self) -> tuple[object, ...]:
        """X'D, U'D, D'D, U'LD, D'LD."""
        U, D = self.U, self.D
        return self.X.T @ D, U.T @ D, D.T @ D, self.between(U, D), self.between(D, D)

    def look(self, model: Any, sweeps: int, stretch: float = 1.0) -> tuple[object, ...]:
        """The direction of the sweeps, stretched and cut off; the sums along it and how far sweeps had settled."""
        Y, changes = self.swept(model, sweeps)
        self.D = np.maximum(stretch * (Y - self.U), -self.U)
        return *self.along(), np.sqrt(changes[-1] / changes[0]) if changes[0] > 0 else 0.0

    # -- newton-cg

    def face(self, model: Any, sweeps: int) -> tuple[object, ...]:
        """Along D, along its part A that ends at zero, and D'A."""
        self.g = self.gradient(model)
        Y, _ = self.swept(model, sweeps)
        D, U = Y - self.U, self.U
        A = np.where(Y == 0, D, 0.0)
        self.D = D
        along = np.vdot(self.g, D), U.T @ D, D.T @ D, self.between(D, D)
        return along, (np.vdot(self.g, A), U.T @ A, A.T @ A, ()), D.T @ A

    def common_curvature(self, model: Any) -> np.ndarray:
        """S and the operators' curves times the means of their diagonals."""
        return model.S + sum(np.diag(self.operators[j]).mean() * full(K) for j, K in model.curves.items())

    def cg_start(self, tau: float, sigma: float, model: Any, UD: object, inverse: np.ndarray) -> np.ndarray:
        """D shortened; r = -(g + A[D]) where entries are positive or would become so, U'r."""
        self.D = np.where(self.U + self.D == 0, sigma * self.D, tau * self.D)
        slope = self.g + self.curved(model, self.D)
        self.free = (self.U + self.D > 0) | (slope < 0)
        self.r = np.where(self.free, -slope, 0.0)
        self.z, self.p, self.q = np.zeros_like(self.U), np.zeros_like(self.U), np.zeros_like(self.U)
        return self._residual(inverse)

    def cg_step(self, alpha: float, beta: float, model: Any, Uu: object, inverse: np.ndarray) -> np.ndarray:
        """One step: p = u + beta p, z += alpha p, r -= alpha A[p] on the free entries."""
        self.p = self.u + beta * self.p
        self.q = np.where(self.free, self.curved(model, self.u), 0.0) + beta * self.q
        self.z = self.z + alpha * self.p
        self.r = self.r - alpha * self.q
        return self._residual(inverse)

    def _residual(self, inverse: np.ndarray) -> np.ndarray:
        """U'r, and u = r inverse."""
        self.u = self.r @ inverse
        return self.U.T @ self.r

    def cg_last(self, alpha: float, beta: float) -> None:
        """The last step: z alone."""
        self.z = self.z + alpha * (self.u + beta * self.p)

    def couple(self, C: np.ndarray) -> tuple[object, ...]:
        """Add U C to u on the free entries: <r,u>, U'u, u'u, u'Lu."""
        self.u = u = np.where(self.free, self.u + self.U @ C, 0.0)
        return np.vdot(self.r, u), self.U.T @ u, u.T @ u, self.between(u, u)

    def project(self) -> tuple[object, ...]:
        """Make z = max(0, U + D + z) - (U + D): the model along z, D'z, D'Lz."""
        here = self.U + self.D
        self.z = z = np.maximum(here + self.z, 0) - here
        along = np.vdot(self.g, z), self.U.T @ z, z.T @ z, self.between(z, z)
        return along, self.D.T @ z, self.between(self.D, z)

    def combine(self, tau: float, stretch: float = 1.0) -> tuple[object, ...]:
        """D = stretch (D + tau z), cut off; the sums along it (sweeps settle nothing here)."""
        self.D = np.maximum(stretch * (self.D + tau * self.z), -self.U)
        return *self.along(), 0.0

    # -- everything but descent

    def map(self, rule: Callable[..., np.ndarray], model: Any) -> tuple[object, ...]:
        """U = rule(U, gain, loss), gain = X M and negative entries of L times U K, loss the positive ones."""
        gain, loss = self.X @ model.M, np.zeros_like(self.U)
        for j, K in model.pulls.items():
            L, UK = self.operators[j], self.U @ full(K)
            gain, loss = gain + np.maximum(-L, 0) @ UK, loss + np.maximum(L, 0) @ UK
        self.U = rule(self.U, gain, loss)
        return self.sums()

    def solve(self, model: Any, pull: Any = 0.0, weight: Any = None, lengths: Any = None) -> np.ndarray:
        """Every row at the minimum of its model, ties added to pull and curvature."""
        G = self.X @ model.M + pull
        C = np.repeat(model.S[None], len(G), axis=0)
        return best_codes(C if weight is None else C + weight[:, None, None] * np.diag(lengths), G)

    def residual2(self, Vt: np.ndarray) -> float:
        """||X - UV||^2."""
        return float(np.sum((self.X - self.U @ Vt.T) ** 2))

    def gram_residual2(self) -> float:
        """||XX' - UU'||^2."""
        return float(np.sum((self.X @ self.X.T - self.U @ self.U.T) ** 2))


class ReferenceIncompleteRows(ReferenceRows):
    """Rows of an X with NaN in it: [X, X again where `twice`, further columns]."""

    def __init__(
        self,
        X: np.ndarray,
        k: int,
        scale: float = 1.0,
        operators: Sequence[np.ndarray] = (),
        *,
        twice: bool = False,
        more: np.ndarray | None = None,
    ) -> None:
        self.missing, self.m, self.twice, self.means = np.isnan(X), X.shape[1], twice, column_means(X)
        parts = [X] * (1 + twice) + ([] if more is None else [more])
        super().__init__(np.hstack(parts), k, scale, operators)
        self.restart()

    def write(self, cells: np.ndarray, second: bool) -> None:
        """Write missing cells, in the unit of the rows."""
        for first in (0, self.m)[: 1 + second]:
            block = self.X[:, first : first + self.m]
            block[self.missing] = np.broadcast_to(cells, self.missing.shape)[self.missing]

    def restart(self) -> None:
        """Missing cells at the means of their columns."""
        self.iterations = 0
        self.write(self.means / self.scale, self.twice)

    def refresh(self, Vt: np.ndarray) -> dict[str, tuple[float, float]]:
        """Cells become UV, those of the second X after iterations 1, 2, 4, ...; ||X||^2 and ||XX'||^2 of both."""
        self.iterations += 1
        self.write(self.U @ Vt[: self.m].T, self.twice and self.iterations in (1, 2, 4, 8, 16))
        blocks = {"X": self.X[:, : self.m]}
        if self.twice:
            blocks["similarities"] = self.X[:, self.m : 2 * self.m]
        return {name: (float(np.sum(A**2)), gram_norm2(A)) for name, A in blocks.items()}

    def solve_completed(self, model: Any, Vt: np.ndarray, weight: float, means: np.ndarray, goals: int) -> np.ndarray:
        """Codes and cells that fit each other: where cells are those of UV, they carry no curvature and no pull.

        The rest of the pull, ``M - weight V'``, belongs to X as it was completed with the codes of the goal before.
        """
        self.write(means / self.scale, False)
        for _ in range(goals):
            goal = self.X @ (model.M - weight * Vt)
            lost = np.einsum("ij,ja,jb->iab", self.missing.astype(float), Vt, Vt)
            known = np.where(self.missing, 0.0, self.X)
            self.U = best_codes(model.S - weight * lost, weight * known @ Vt + goal)
            self.write(self.U @ Vt.T, False)
        return self.U


def divergence(X: np.ndarray, Y: np.ndarray, beta: float) -> float:
    """The beta divergence of Y from X, cell by cell."""
    total = 0.0
    for x, y in zip(np.ravel(X).tolist(), np.ravel(Y).tolist(), strict=True):
        if beta == 1:
            total += y - x + (x * np.log(x / y) if x > 0 else 0.0)
        elif beta == 0:
            total += x / y - np.log(x / y) - 1
        else:
            total += (x**beta + (beta - 1) * y**beta - beta * x * y ** (beta - 1)) / (beta * (beta - 1))
    return total


def divergence_sums(X: np.ndarray, U: np.ndarray, V: np.ndarray, beta: float) -> tuple[object, ...]:
    """Divergence, sums that pull and push the components, U'1 and the squares of the codes; NaN has no weight."""
    Y, (n, m), k = U @ V, X.shape, len(V)
    value, pull, push = 0.0, np.zeros((m, k)), np.zeros((m, k))
    for i in range(n):
        for j in range(m):
            if np.isnan(X[i, j]) or X[i, j] == Y[i, j] == 0:
                continue
            value += divergence(X[i, j], Y[i, j], beta)
            if X[i, j] > 0:
                pull[j] += X[i, j] * Y[i, j] ** (beta - 2) * U[i]
            if Y[i, j] > 0:
                push[j] += Y[i, j] ** (beta - 1) * U[i]
    return value, pull, push, U.sum(axis=0), np.square(U).sum(axis=0)


def divergence_slope(X: np.ndarray, U: np.ndarray, V: np.ndarray, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """The derivative of the divergence in the codes is the second of these, less the first."""
    Y = U @ V
    pull = np.where(X > 0, X, 0.0) * np.where(Y > 0, Y, 1e-15) ** (beta - 2)
    push = np.where(np.isnan(X), 0.0, np.where(Y > 0, Y, 1e-15) ** (beta - 1))
    return pull @ V.T, push @ V.T

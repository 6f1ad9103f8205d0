"""The formulas, in slow loops, straight from the mathematics: what everything else is compared with.

X n x m, U n x k, V k x m. Nothing here is shared with the library.
"""

from __future__ import annotations

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

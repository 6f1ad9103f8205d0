"""What must hold of a model that came out of a file.

Its parts are of the types and shapes a fit leaves, finite, and of the right sign. The compiled loops do not check their
indices, so arrays that do not fit each other must never reach them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from dspnmf._typing import ArrayLike
from dspnmf._untrusted_files import ANY_SIGN, ROUNDED_SUMS, Shape, array_faults, generator_faults
from dspnmf._validation import FLAG, check_parameters, number, whole
from dspnmf.backends.row_model import Completion
from dspnmf.estimators.base import Factorization
from dspnmf.estimators.component_factorization import ComponentFactorization
from dspnmf.estimators.dspnmf import DSPNMF
from dspnmf.estimators.losses import BETA_LOSS
from dspnmf.estimators.npe import NPE
from dspnmf.estimators.partial_fit import BatchLearner
from dspnmf.estimators.penalties import CODES_L1, CODES_L2, Penalized
from dspnmf.estimators.transform_state import (
    BatchSums,
    DivergenceBatches,
    DivergenceState,
    TrainingRows,
    TransformState,
)
from dspnmf.persistence._contents import ModelFileError, cache_folder, has_ours, is_ours, own, within
from dspnmf.selection.consensusnmf import ConsensusNMF
from dspnmf.selection.dspnmfcv import DSPNMFCV

_NEEDED: Mapping[type, tuple[str, ...]] = {  # a class -> what its methods need when it is fitted
    Factorization: ("n_features_in_", "n_components_"),
    ComponentFactorization: ("components_", "_transform_state"),
    BatchLearner: ("n_samples_seen_", "n_steps_"),
    NPE: ("n_features_in_", "components_", "mean_"),
    DSPNMFCV: ("n_features_in_", "n_components_", "components_", "best_estimator_"),
    ConsensusNMF: ("n_features_in_", "n_components_", "components_", "estimator_"),
}
_COUNTS = {
    "n_features_in_": 1,
    "n_components_": 1,
    "n_iter_": 0,
    "n_samples_seen_": 0,
    "n_steps_": 0,
}  # and their least
_NUMBERS = ("objective_", "reconstruction_err_", "structure_err_", "alpha_")
_PRIVATE = ("_transform_state", "_sklearn_output_config", "_metadata_request")  # attributes that are not parameters
_SUMS = {"reconstruction", "structure", CODES_L1, CODES_L2}  # terms that `partial_fit` continues
State = TransformState | TrainingRows | BatchSums | Completion | DivergenceState | DivergenceBatches


def check_sound(model: object, path: Path) -> None:
    """What came out of a file is a model whose parts fit each other; an error names the first that does not."""
    if not has_ours(model):
        raise ModelFileError(f"{path} holds no estimator of dspnmf, but a {type(model).__name__}: use skops.io.load.")
    if cache := cache_folder(model):
        raise ModelFileError(
            f"{path} names a folder of pickles (memory={cache!r}), which dspnmf.save never writes: do not trust "
            "the person who made it."
        )
    for part in within(model):
        for fault in _faults(part):
            raise ModelFileError(
                f"{path} is damaged: {fault} in its {type(part).__name__}. Copy the file again, or save the model "
                "again."
            )


def _faults(part: ArrayLike) -> Iterator[str]:
    """What is wrong with anything in a model."""
    if sparse.issparse(part):
        if part.format not in ("csr", "csc"):
            yield f"a sparse matrix of format {part.format!r}"
        part.check_format(full_check=True)
    elif isinstance(part, np.random.RandomState):
        yield from generator_faults("a generator", part.get_state(legacy=False)["state"]["pos"])
    elif isinstance(part, BaseEstimator):
        if not vars(part):
            yield "no attribute at all"
        elif is_ours(part):
            yield from _attribute_faults(part)


def _attribute_faults(model: BaseEstimator) -> Iterator[str]:
    """What is wrong with the attributes of an estimator of this package, or of a class derived from its base."""
    kind, held = type(model), vars(model)
    ours, parameters = kind in own().values(), set(kind._get_param_names())
    for name in held.keys() - parameters - {*_PRIVATE}:
        method = callable(getattr(kind, name, None)) or isinstance(getattr(kind, name, None), property)
        if method or (ours and (name.startswith("_") or not name.endswith("_"))):
            yield f"{name} is an attribute that no fit leaves"
    needed = {name for base, names in _NEEDED.items() if isinstance(model, base) for name in names}
    known = {*needed, *_COUNTS, *_NUMBERS, "label_components_", "feature_names_in_", "stability_", "objective_history_"}
    if not known & held.keys():
        return  # not fitted: a fit checks the parameters
    check_parameters(model)
    if missing := sorted(needed - held.keys()):
        yield f"{', '.join(missing)} is missing"
    for name in _COUNTS.keys() & held.keys():
        if not (allowed := whole(_COUNTS[name])).test(held[name]):
            yield f"{name} is {held[name]!r}, but must be {allowed.words}"
    for name in held.keys() & {*_NUMBERS}:
        if not isinstance(held[name], Real):
            yield f"{name} is {held[name]!r}, but must be a number"
    k, m = held.get("n_components_", held.get("n_components")), held["n_features_in_"]
    yield from _array_attribute_faults(held, k, m, signed=isinstance(model, NPE))
    state, best = held.get("_transform_state"), held.get("best_estimator_")
    if isinstance(model, DSPNMFCV) and not (isinstance(best, DSPNMF) and np.shape(best.components_) == (k, m)):
        yield f"best_estimator_ is not a DSPNMF with {k} components of {m} features"
    inner = held.get("estimator_")
    if isinstance(model, ConsensusNMF) and not (
        isinstance(inner, ComponentFactorization) and np.shape(inner.components_) == (k, m)
    ):
        yield f"estimator_ is not a fitted estimator with {k} components of {m} features"
    if isinstance(model, ConsensusNMF):
        yield from _consensus_faults(held, k)
    if isinstance(model, ComponentFactorization):
        if isinstance(state, TransformState):
            yield from _state_faults(state, k, m, model if ours else None)
        else:
            yield f"_transform_state is a {type(state).__name__}"


def _array_attribute_faults(held: Mapping[str, Any], k: int, m: int, *, signed: bool) -> Iterator[str]:
    """What is wrong with the arrays among the attributes, for k components and m features."""
    classes, names = held.get("classes_"), held.get("feature_names_in_")
    if classes is not None and not (isinstance(classes, np.ndarray) and classes.ndim == 1):
        yield "classes_ is not an array of one dimension"
    shapes: dict[str, tuple[Shape, float]] = {
        "components_": ((k, m), ANY_SIGN if signed else 0.0),
        "mean_": ((m,), ANY_SIGN),
        "eigenvalues_": ((None,), ANY_SIGN),
        "label_components_": ((k, 0 if classes is None else len(classes)), 0.0),
    }
    for name in shapes.keys() & held.keys():
        yield from array_faults(name, held[name], *shapes[name])
    for name, shape in {"stability_": (k,), "objective_history_": (None,)}.items():  # only reported: of any value
        value = held.get(name)
        if value is not None and not (isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim == 1):
            yield f"{name} is not an array of numbers of one dimension"
        elif value is not None and shape[0] not in (None, len(value)):
            yield f"{name} has shape {value.shape}, but must have {shape}"
    if names is not None and not (np.shape(names) == (m,) and all(isinstance(name, str) for name in names)):
        yield f"feature_names_in_ is not an array of {m} names"
    config = held.get("_sklearn_output_config", {})
    if not (isinstance(config, dict) and all(isinstance(value, str | None) for value in config.values())):
        yield f"_sklearn_output_config is {config!r}"


def _consensus_faults(held: Mapping[str, Any], k: int) -> Iterator[str]:
    """What is wrong with what a consensus of k components says of its runs: it is only reported, and of any value."""
    for name, kind in {"density_": "f", "groups_": "i"}.items():
        value = held.get(name)
        if not (isinstance(value, np.ndarray) and value.dtype.kind == kind and value.size and value.shape[1:] == (k,)):
            yield f"{name} is not an array of numbers with a row for each run and {k} columns"
    shares, ranks = held.get("share_of_runs_"), held.get("ranks_results_")
    if not (isinstance(shares, np.ndarray) and shares.dtype.kind == "f" and shares.shape == (k,)):
        yield f"share_of_runs_ is not an array of {k} numbers"
    if not isinstance(held.get("stability_"), np.ndarray):
        yield "stability_ is missing"
    if not isinstance(held.get("silhouette_"), Real):
        yield f"silhouette_ is {held.get('silhouette_')!r}, but must be a number"
    if ranks is not None and not _are_columns(ranks, ("n_components", "stability", "error")):
        yield "ranks_results_ is not a table of numbers"


def _are_columns(table: object, names: tuple[str, ...]) -> bool:
    """Whether these are arrays of numbers of one length and dimension by name, those named among them."""
    if not (isinstance(table, dict) and set(names) <= set(table)):
        return False
    columns = list(table.values())
    plain = all(isinstance(one, np.ndarray) and one.dtype.kind in "fi" and one.ndim == 1 for one in columns)
    return plain and len({len(one) for one in columns}) == 1


def _state_faults(state: TransformState, k: int, m: int, model: ComponentFactorization | None) -> Iterator[str]:
    """What is wrong with a state, for k components and m features; `model`: an estimator of this package.

    Rows have the columns of X for `transform`, twice as many for cosines, one more for L1 penalties. Estimators of the
    user's may add their own, and their terms may push as well as pull.
    """
    yield from _field_faults(state)
    width, pushed = max(m, len(state.pull)) if np.ndim(state.pull) == 2 else m, model is None
    if model is not None:
        if not set(state.parameters) <= set(model._get_param_names()):  # one that is new since has its default
            yield f"the parameters of the fit are {', '.join(map(str, state.parameters))}"
        fitted = type(model)(**state.parameters)
        check_parameters(fitted)
        if fitted.n_components not in (k, "auto", None):
            yield f"n_components was {fitted.n_components!r}, but there are {k} components"
        similarity = getattr(fitted, "similarity", None)
        width = 2 * m if isinstance(similarity, str) and similarity == "cosine" else m
        pushed = isinstance(fitted, Penalized) and fitted.sums_are_penalized(state.parameters)
        width += pushed  # a column of ones
    yield from _number_faults({"scale": state.scale}, above=True)
    yield from array_faults("unit", state.unit, (k,))
    yield from array_faults("curvature", state.curvature, (k, k), ROUNDED_SUMS)
    yield from array_faults("pull", state.pull, (width, k), ANY_SIGN if pushed else ROUNDED_SUMS)
    if (training := state.training) is not None:
        yield from _field_faults(training)
        n = len(training.codes) if np.ndim(training.codes) else None
        yield from array_faults("training codes", training.codes, (n, k))
        yield from array_faults("training data", training.data, (n, m))
        edge_length = 0.0 if training.edge_length is None else training.edge_length
        yield from _number_faults({"weight of the ties": training.weight, "edge length": edge_length})
    if (completion := state.completion) is not None:
        yield from _field_faults(completion)
        yield from array_faults("V'", completion.Vt, (m, k))
        yield from array_faults("column means", completion.column_means, (m,))
        yield from _number_faults({"weight of V'": completion.weight})
    if (divergence := state.divergence) is not None:
        yield from _field_faults(divergence)
        yield from array_faults("V' of the divergence", divergence.Vt, (m, k))
        yield from _number_faults({"l1": divergence.l1, "l2": divergence.l2, "alpha": divergence.alpha})
        if not (isinstance(divergence.beta, float) and BETA_LOSS.test(divergence.beta)):
            yield f"beta is {divergence.beta!r}, but must be {BETA_LOSS.words}"
        if (bound := divergence.batches) is not None:
            yield from _field_faults(bound)
            yield from array_faults("pull of earlier batches", bound.pull, (m, k))
            yield from array_faults("push of earlier batches", bound.push, (m, k))
            yield from _number_faults({"mass": bound.mass})
            yield from _number_faults({"code": bound.code}, above=True)
            if not (isinstance(bound.constant, float) and isfinite(bound.constant)):
                yield f"the constant of earlier batches is {bound.constant!r}, but must be a finite float"
    if state.batches is not None:
        yield from _field_faults(state.batches)
        yield from _sum_faults(state.batches, k, width)


def _sum_faults(sums: BatchSums, k: int, width: int) -> Iterator[str]:
    """What is wrong with the sums of earlier batches, for k components and rows of `width` columns."""
    held = width if sums.rows_only else len(sums.Vt) if np.ndim(sums.Vt) else None
    yield from array_faults("sums V'", sums.Vt, (held, k))
    yield from array_faults("sums P", sums.P, (held, k), ROUNDED_SUMS)
    yield from array_faults("sums Q", sums.Q, (k, k), ROUNDED_SUMS)
    yield from _number_faults({"norm2": sums.norm2, "mass": sums.mass})
    yield from _number_faults({"code": sums.code}, above=True)
    if not FLAG.test(sums.rows_only):
        yield f"rows_only is {sums.rows_only!r}, but must be {FLAG.words}"
    if "reconstruction" not in sums.weights or (sums.rows_only and not set(sums.weights) <= _SUMS):
        yield f"sums are of the terms {', '.join(map(str, sums.weights))}"
    yield from _number_faults({f"weight of the {name}": weight for name, weight in sums.weights.items()})


def _field_faults(part: State) -> Iterator[str]:
    """Fields that a part of a state does not have, or has in addition; and parts that are of another type."""
    names = {field.name for field in fields(part)}
    if differing := sorted(vars(part).keys() ^ names):
        yield f"{type(part).__name__} lacks {', '.join(differing)}, or has it in addition"
    parts = {
        "training": TrainingRows,
        "completion": Completion,
        "batches": DivergenceBatches if isinstance(part, DivergenceState) else BatchSums,
        "divergence": DivergenceState,
        "parameters": dict,
        "weights": dict,
    }
    for name in parts.keys() & names:
        value = getattr(part, name)
        if not isinstance(value, parts[name]) and (value is not None or parts[name] is dict):
            yield f"{name} is a {type(value).__name__}"


def _number_faults(values: Mapping[str, object], *, above: bool = False) -> Iterator[str]:
    """Numbers that are not finite floats >= 0 (or above 0)."""
    allowed = number(0, strict=above)
    for name, value in values.items():
        if not (isinstance(value, float) and allowed.test(value)):
            yield f"{name} is {value!r}, but must be {allowed.words}"

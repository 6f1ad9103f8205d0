"""What goes into a model file, what may come out of one, and what must hold of it.

In: arrays of NumPy and SciPy wherever the fit was, and no callbacks. Out: anything but what models are made of is
refused by its name, before any of it is imported or built. Two walls: `refused` looks at every object the file
describes, and lets only a few kinds of skops's nodes through, each with the packages its types may come from; then
skops does its own audit, with the explicit list in `trusted`. What was built is checked (`check_sound`): the compiled
loops do not check their indices, so arrays that do not fit each other must never reach them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from dspnmf.backends.memory import on_host
from dspnmf.backends.row_model import Completion
from dspnmf.estimators.base import Factorization
from dspnmf.estimators.transform_state import BatchSums, TrainingRows, TransformState

_ELSEWHERE = ("torch", "cupy")
_STATE = "_transform_state"
_NODES: Mapping[str, tuple[str, ...]] = {  # a kind of node -> how the names of its types may begin
    "ObjectNode": ("dspnmf.", "sklearn."),
    "DictNode": ("builtins.dict",),
    "ListNode": ("builtins.list",),
    "TupleNode": ("builtins.tuple",),
    "SetNode": ("builtins.set",),
    "SliceNode": ("builtins.slice",),
    "JsonNode": ("builtins.str",),
    "TypeNode": ("builtins.str", "builtins.int", "builtins.float", "builtins.bool", "numpy.", "sklearn."),
    "FunctionNode": ("numpy.", "scipy.special."),  # skops lets universal functions through, and no others
    "NdArrayNode": ("numpy.",),
    "MaskedArrayNode": ("numpy.ma.",),
    "RandomStateNode": ("numpy.random.",),
    "SparseMatrixNode": ("scipy.sparse.",),
}
_SPARSE = tuple(f"scipy.sparse._{kind}.{kind}_{form}" for kind in ("csr", "csc") for form in ("array", "matrix"))
_STATES = (TransformState, TrainingRows, BatchSums, Completion)  # what fitted models keep
_SPLITTERS = tuple(  # parameters of a search, and nothing but numbers themselves
    f"sklearn.model_selection._split.{name}"
    for name in ("KFold", "StratifiedKFold", "GroupKFold", "ShuffleSplit", "StratifiedShuffleSplit", "LeaveOneOut")
)


class ModelFileError(ValueError):
    """A file that is no model file, is damaged, or is not to be trusted; the message says which, and what to do."""


def skops() -> Any:
    """``skops.io``."""
    try:
        return import_module("skops.io")
    except ImportError as error:
        raise ImportError('Model files need skops, which is not installed: pip install "dspnmf[models]".') from error


def own() -> dict[str, type[BaseEstimator]]:
    """The public estimators of this package by their full names."""
    package = import_module("dspnmf")
    public = (getattr(package, name) for name in package.__all__)
    return {name_of(one): one for one in public if isinstance(one, type) and issubclass(one, BaseEstimator)}


def is_ours(part: object) -> bool:
    """Whether a part of a model is an estimator of this package, or of a class derived from its base."""
    return isinstance(part, (Factorization, *own().values()))


def name_of(kind: type) -> str:
    """The full name of a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


def trusted(classes: Iterable[type] = ()) -> list[str]:
    """Types that are let through in addition to those skops knows to be harmless; `classes` are the caller's own."""
    return [*own(), *map(name_of, (*_STATES, *classes)), *_SPARSE, *_SPLITTERS]


def refused(schema: Any, file: BinaryIO, classes: Iterable[type] = ()) -> list[str]:
    """The names of all types in a file (an open one, whose description is `schema`) that are not let through."""
    extra = {("ObjectNode", name_of(kind)) for kind in classes}
    named = {name for kind, name in _described(schema) if not (_expected(kind, name) or (kind, name) in extra)}
    return sorted(named or set(skops().get_untrusted_types(file=file)) - set(trusted(classes)))


def _expected(kind: str, name: str) -> bool:
    """Whether a node is of a kind, and its type from a package, that models are made of."""
    starts = _NODES.get(kind, ())
    return any(name.startswith(start) if start.endswith(".") else name == start for start in starts)


def _described(part: Any) -> Iterator[tuple[str, str]]:
    """Kind of node and name of type of everything that a part of a schema describes."""
    if isinstance(part, dict):
        if "__loader__" in part:
            yield str(part["__loader__"]), f"{part.get('__module__')}.{part.get('__class__')}"
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from _described(inner)


def portable(part: Any) -> Any:
    """A model with its arrays on the host and without its callbacks; the model itself is left alone."""
    if isinstance(part, BaseEstimator):
        copy: Any = object.__new__(type(part))
        kept = {name: value for name, value in vars(part).items() if not name.startswith("_skl_callbacks")}
        copy.__dict__.update(portable(kept))
        return copy
    if type(part) is dict:
        return {key: portable(value) for key, value in part.items()}
    if type(part) in (list, tuple):
        return type(part)(map(portable, part))
    if type(part).__module__.split(".")[0] in _ELSEWHERE and hasattr(part, "shape"):
        return on_host(part)
    return np.asarray(part) if isinstance(part, np.memmap) else part


def check_model(model: Any) -> None:
    """Only models of this package, alone or within scikit-learn's, are saved."""
    if not isinstance(model, BaseEstimator):
        raise TypeError(
            f"model={model!r} cannot be saved: pass an estimator of dspnmf such as DSPNMF(), or a scikit-learn "
            "Pipeline that holds one."
        )
    if not _has_ours(model):
        raise TypeError(
            f"{type(model).__name__} holds no estimator of dspnmf, so dspnmf.save is not for it: use skops.io.dump."
        )
    if cache := _cache(model):
        raise ValueError(
            f"{type(model).__name__} has memory={cache!r}, a folder of pickles, which a model file must not name: "
            "call set_params(memory=None) before saving."
        )


def check_sound(model: Any, path: Path) -> None:
    """What came out of a file is a model whose parts fit each other; an error names the first that does not."""
    if not _has_ours(model):
        raise ModelFileError(f"{path} holds no estimator of dspnmf, but a {type(model).__name__}: use skops.io.load.")
    if cache := _cache(model):
        raise ModelFileError(
            f"{path} names a folder of pickles (memory={cache!r}), which dspnmf.save never writes: do not trust "
            "whoever made it."
        )
    for part in _within(model):
        if sparse.issparse(part):
            part.check_format(full_check=True)
        if is_ours(part):
            for fault in _faults(part):
                raise ModelFileError(
                    f"{path} is damaged: {fault} in its {type(part).__name__}. Copy the file again, or save the model "
                    "again."
                )


def _faults(model: BaseEstimator) -> Iterator[str]:
    """What is wrong with the arrays of a model: those of other shapes, types or signs than a fit leaves."""
    held = vars(model)
    if not held:
        yield "no attribute at all"
    k, m, state = held.get("n_components_", held.get("n_components")), held.get("n_features_in_"), held.get(_STATE)
    for name, shape in {"components_": (k, m), "mean_": (m,)}.items():
        if name in held and np.shape(held[name]) != shape:
            yield f"{name} has shape {np.shape(held[name])}, but must have {shape}"
    if _STATE in held and not isinstance(state, TransformState):
        yield f"{_STATE} is a {type(state).__name__}"
    if isinstance(state, TransformState):
        yield from state.faults(k, m, _width(model, state, m))


def _width(model: BaseEstimator, state: TransformState, m: int) -> int | None:
    """Columns of new rows: those of X, twice for cosines; None for estimators of the user's, which may add some."""
    if type(model) not in own().values():
        return None
    similarity = state.parameters.get("similarity")
    return 2 * m if isinstance(similarity, str) and similarity == "cosine" else m


def _has_ours(model: Any) -> bool:
    """Whether a model is, or holds, an estimator of this package."""
    return any(map(is_ours, _within(model)))


def own_classes(model: object) -> list[type]:
    """Classes of the caller that a model is made of: derived from the base of this package's estimators."""
    kinds = {type(part) for part in _within(model) if is_ours(part)}
    return sorted(kinds - set(own().values()), key=lambda kind: kind.__qualname__)


def _cache(model: Any) -> Any:
    """The folder in which a model would keep pickles."""
    folders = (getattr(part, "memory", None) for part in _within(model) if isinstance(part, BaseEstimator))
    return next((folder for folder in folders if folder is not None), None)


def _within(part: Any) -> Iterator[Any]:
    """A model and everything it holds."""
    yield part
    if isinstance(part, BaseEstimator) or is_dataclass(part):
        part = vars(part)
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list | tuple | set) else ():
        yield from _within(inner)

"""What a model file may hold. Anything else is refused by its name, before any of it is imported or built.

Two walls: `refused` looks at every object the file describes, and lets only a few kinds of skops's nodes through, each
with the packages its types may come from; then skops does its own audit, with the explicit list in `trusted`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, BinaryIO

from sklearn.base import BaseEstimator

from dspnmf.backends.row_model import Completion
from dspnmf.estimators.base import Factorization
from dspnmf.estimators.transform_state import BatchSums, TrainingRows, TransformState

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
    """The full name of a class.

    >>> from collections import OrderedDict
    >>> name_of(OrderedDict)
    'collections.OrderedDict'
    """
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

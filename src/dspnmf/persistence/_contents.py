"""What goes into a model file, what may come out of one, and what must hold of it.

In: arrays of NumPy and SciPy wherever the fit was, and no callbacks. Out: anything but what models are made of is
refused by its name, before any of it is imported or built. Two walls: `refused` looks at every object the file
describes, and lets only a few kinds of skops's nodes through, each with the packages its types may come from; then
skops does its own audit, with the explicit list in `trusted`. Arrays are looked at before they are read
(`check_arrays`): what they take in memory follows from the size of the file. What was built is checked too
(`dspnmf.persistence._fitted_models`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from hashlib import sha256
from importlib import import_module
from typing import Any, BinaryIO

import numpy as np
from sklearn.base import BaseEstimator

from dspnmf._untrusted_files import StoredArchive
from dspnmf.backends.memory import on_host
from dspnmf.backends.row_model import Completion
from dspnmf.estimators.base import Factorization
from dspnmf.estimators.transform_state import (
    BatchSums,
    DivergenceBatches,
    DivergenceState,
    TrainingRows,
    TransformState,
)
from dspnmf.preprocessing import CommonScaler

_ELSEWHERE = ("torch", "cupy")
_NEVER = ("numpy.void", "numpy.object_")  # the first would be as large as a number in the file says
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
_NATIVE = (  # modules of scikit-learn whose compiled loops trust the arrays of a fitted estimator
    "sklearn.cluster._bisect_k_means.",
    "sklearn.cluster._kmeans.",
    "sklearn.decomposition._lda.",
    "sklearn.ensemble._hist_gradient_boosting.",
    "sklearn.svm._classes.",
)
_STATES = (
    TransformState,
    TrainingRows,
    BatchSums,
    Completion,
    DivergenceState,
    DivergenceBatches,
)  # what fitted models keep
_SPLITTERS = tuple(  # parameters of a search, and nothing but numbers themselves
    f"sklearn.model_selection._split.{name}"
    for name in ("KFold", "StratifiedKFold", "GroupKFold", "ShuffleSplit", "StratifiedShuffleSplit", "LeaveOneOut")
)


class ModelFileError(ValueError):
    """A file that is not a model file, is damaged, or is not to be trusted; the message says which, and what to do."""


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
    return [*own(), *map(name_of, (*_STATES, CommonScaler, *classes)), *_SPARSE, *_SPLITTERS]


def refused(description: Description, file: BinaryIO, classes: Iterable[type] = ()) -> list[str]:
    """The names of all types in a file (an open one, with this description) that are not let through."""
    extra = {("ObjectNode", name_of(kind)) for kind in classes}
    named = {name for kind, name in description.types if not (_expected(kind, name) or (kind, name) in extra)}
    return sorted(named or set(skops().get_untrusted_types(file=file)) - set(trusted(classes)))


def native(description: Description, classes: Iterable[type]) -> list[str]:
    """The names of estimators in a file that could crash when they are used, and are not among the caller's classes."""
    named = {name for kind, name in description.types if kind == "ObjectNode" and name.startswith(_NATIVE)}
    return sorted(named - set(map(name_of, classes)))


def check_arrays(archive: StoredArchive, description: Description) -> None:
    """Whether all arrays of a file are plain numbers or text, and no larger than its size allows."""
    budget = archive.budget()
    for name, kind in description.files.items():
        if kind == "NdArrayNode":
            archive.check_array(name)
        elif kind == "SparseMatrixNode":
            budget -= archive.check_sparse(name, budget)


def _expected(kind: str, name: str) -> bool:
    """Whether a node is of a kind, and its type from a package, that models are made of."""
    starts = _NODES.get(kind, ())
    return name not in _NEVER and any(
        name.startswith(start) if start.endswith(".") else name == start for start in starts
    )


class Description:
    """What a schema of skops's describes: kinds of nodes with names of types, and members with what reads them.

    An object that appears again (nodes with one id) must be described in the same way, and a member must belong to
    one object: then what is built is no larger than what is written, however it refers to itself.
    """

    def __init__(self, schema: object) -> None:
        self.types: set[tuple[str, str]] = set()
        self.files: dict[str, str] = {}
        self._words: dict[object, bytes] = {}
        self._owners: dict[str, object] = {}
        self._read(schema)

    def _read(self, part: object) -> object:
        """Add a part of a schema; what tells parts apart, ids and names of members left out."""
        if isinstance(part, list):
            return sha256(repr([self._read(inner) for inner in part]).encode()).digest()
        if not isinstance(part, dict):
            return part
        inner = [(key, self._read(value)) for key, value in part.items() if key not in ("__id__", "file")]
        words = sha256(repr(inner).encode()).digest()
        kind, number, file = str(part.get("__loader__")), part.get("__id__"), part.get("file")
        if "__loader__" in part:
            self.types.add((kind, f"{part.get('__module__')}.{part.get('__class__')}"))
        if number is not None and self._words.setdefault(number, words) != words:
            raise ValueError(f"it describes two objects of one id, {number}")
        if isinstance(file, str):
            if file in self.files and (number is None or self._owners[file] != number):
                raise ValueError(f"its member {file!r} belongs to two objects")
            self.files[file], self._owners[file] = kind, number
        return words


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
    if not has_ours(model):
        raise TypeError(
            f"{type(model).__name__} holds no estimator of dspnmf, so dspnmf.save is not for it: use skops.io.dump."
        )
    if cache := cache_folder(model):
        raise ValueError(
            f"{type(model).__name__} has memory={cache!r}, a folder of pickles, which a model file must not name: "
            "call set_params(memory=None) before saving."
        )


def has_ours(model: Any) -> bool:
    """Whether a model is, or holds, an estimator of this package."""
    return any(map(is_ours, within(model)))


def own_classes(model: object) -> list[type]:
    """Classes of the caller that a model is made of: derived from the base of this package's estimators."""
    kinds = {type(part) for part in within(model) if is_ours(part)}
    return sorted(kinds - set(own().values()), key=lambda kind: kind.__qualname__)


def cache_folder(model: Any) -> Any:
    """The folder in which a model would keep pickles."""
    folders = (getattr(part, "memory", None) for part in within(model) if isinstance(part, BaseEstimator))
    return next((folder for folder in folders if folder is not None), None)


def within(part: Any) -> Iterator[Any]:
    """A model and everything it holds."""
    yield part
    if isinstance(part, BaseEstimator) or is_dataclass(part):
        part = vars(part)
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list | tuple | set) else ():
        yield from within(inner)

"""What the tests of model files share: small models, the way there and back, and a hand that changes a file."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

import dspnmf


def make(name: str, **parameters: Any) -> Any:
    """A small model of the family; parameters it does not have are left out."""
    kind = getattr(dspnmf, name)
    wanted = {"n_components": 3, "random_state": 0, "max_iter": 4, "tol": 0, "n_runs": 6} | parameters
    return kind(**{key: value for key, value in wanted.items() if key in kind().get_params()})


def there_and_back(model: Any, folder: Path) -> Any:
    """A model saved and loaded."""
    path = folder / "model.skops"
    dspnmf.save(model, path)
    return dspnmf.load(path)


def assert_same(one: Any, other: Any) -> None:
    """Equal to the last bit, with the same types and layouts, through containers."""
    assert type(one) is type(other)
    if sparse.issparse(one):
        assert one.shape == other.shape
        assert_same([one.data, one.indices, one.indptr], [other.data, other.indices, other.indptr])
    elif isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.ndim < 2 or one.flags.f_contiguous == other.flags.f_contiguous
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, np.random.RandomState):
        assert_same(one.get_state(), other.get_state())
    elif isinstance(one, BaseEstimator) or is_dataclass(one):
        assert_same(vars(one), vars(other))
    elif isinstance(one, dict):
        assert list(one) == list(other)
        assert_same(list(one.values()), list(other.values()))
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    else:
        assert one == other


def rewrite(path: Path, change: Callable[[dict[str, Any]], Any], member: str = "schema.json") -> None:
    """Change what a JSON member of a file says, by hand, as an attacker would."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    content = json.loads(members[member])
    members[member] = json.dumps(change(content) or content).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)

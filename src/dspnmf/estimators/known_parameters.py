"""Parameters that a class does not have: an error that says what to use instead."""

from __future__ import annotations

import difflib
import inspect
from dataclasses import fields
from typing import Any, Self

_RENAMED = {  # what other libraries call it -> its name here
    "alpha_h": "alpha_H",
    "alpha_w": "alpha_W",
    "epochs": "max_iter",
    "k": "n_components",
    "lambda_": "lam",
    "loss": "beta_loss",
    "max_iterations": "max_iter",
    "n_iter": "max_iter",
    "n_topics": "n_components",
    "nls_max_iter": "inner_iter",
    "num_components": "n_components",
    "random_seed": "random_state",
    "rank": "n_components",
    "seed": "random_state",
    "tolerance": "tol",
}
_PENALTIES = (
    "NMF, MiniBatchNMF, DSPNMF, GNMF, NSNMF, NPNMF, SPNMF and GDNMF have the penalties alpha_W (codes) and alpha_H "
    "(components), 0 for none, and l1_ratio"
)
_NO_STEP = "steps are exact, so there is no step size to choose"
_ADVICE = {  # what nothing here has the place of -> what to do
    "alpha_h": _PENALTIES,
    "alpha_w": _PENALTIES,
    "l1_ratio": _PENALTIES,
    "alpha": "DSPNMF has alpha, the weight of the structure, and penalties are alpha_W and alpha_H",
    "batch_size": "MiniBatchNMF has it, and partial_fit takes batches of any size",
    "beta": "NMF and DSPNMF have beta_loss",
    "beta_loss": "NMF, MiniBatchNMF and DSPNMF have it",
    "eta": _NO_STEP,
    "gamma": _PENALTIES,
    "l1_reg": _PENALTIES,
    "l2_reg": _PENALTIES,
    "learning_rate": _NO_STEP,
    "n_jobs": "threads follow the machine; threadpoolctl.threadpool_limits bounds them",
    "reg": _PENALTIES,
    "regularization": _PENALTIES,
    "sparseness": _PENALTIES,
}


class _Signature:
    """The signature of the ``__init__`` of a class, for those who ask the class."""

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        own = inspect.signature(owner.__init__)  # type: ignore[misc]
        return own.replace(parameters=list(own.parameters.values())[1:])


class KnownParameters:
    """A class (a dataclass) that explains which of its parameters to use in place of one that it does not have."""

    __signature__ = _Signature()  # without it, that of __new__ would be taken for the class's

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        """Look at names only; ``__init__`` assigns."""
        known = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        unknown = [name for name in parameters if name not in known]
        if unknown:
            raise TypeError(f"{cls.__name__} has no parameter {unknown[0]!r}: {_instead(unknown[0], known)}.")
        return super().__new__(cls)


def _instead(name: str, known: list[str]) -> str:
    """What to use in place of a parameter."""
    if _RENAMED.get(name.lower()) in known:
        return f"use {_RENAMED[name.lower()]}"
    if name.lower() in _ADVICE:
        return _ADVICE[name.lower()]
    close = difflib.get_close_matches(name, known, 1, 0.7)
    return f"use {close[0]}" if close else f"it has {', '.join(known)}"

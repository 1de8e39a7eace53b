"""An untrained estimator from what a configuration says: built, seeded, and on one thread."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from consilium.protocol.own_models.naming import UnusableModel, resolve, told

_SEED, _JOBS = "random_state", "n_jobs"


def estimator_of(name: str, parameters: Mapping[str, Any], seed: int, group: str) -> Any:
    """What the callable `name` returns for `parameters`, see `naming.resolve`.

    Wherever it has a `random_state` or an `n_jobs` that nobody set, also within a Pipeline, they become `seed` and 1:
    the parallelism of a federation is its parties.

    Raises
    ------
    UnusableModel : no such name, it raises, or what it returns has no `fit` and `predict`.
    """
    make, given = resolve(name, group), dict(parameters)
    if _SEED in _arguments(make):
        given.setdefault(_SEED, seed % 2**32)
    try:
        made = make(**given)
    except (Exception, SystemExit) as error:
        raise UnusableModel(f"{name} cannot be built: {told(error)}", "Correct its parameters") from None
    return seeded(checked(made, name), seed)


def checked(made: Any, name: str) -> Any:
    """`made`, if it is an untrained estimator. Raises UnusableModel."""
    lacking = [method for method in ("fit", "predict") if not callable(getattr(made, method, None))]
    if inspect.isclass(made):
        raise UnusableModel(f"{name} gives the class {made.__name__}, no estimator", "Name the class itself")
    if lacking:
        what = f"{name} gives {type(made).__name__}, which has no {' and no '.join(lacking)}"
        raise UnusableModel(what, "A model needs the methods of a classifier of scikit-learn")
    return made


def seeded(estimator: Any, seed: int) -> Any:
    """The estimator with `seed` wherever it has a `random_state` that is None, and 1 where `n_jobs` is None."""
    if not hasattr(estimator, "get_params") or not hasattr(estimator, "set_params"):
        return estimator
    unset = {
        key: value
        for key, found in estimator.get_params(deep=True).items()
        for name, value in ((_SEED, seed % 2**32), (_JOBS, 1))
        if found is None and (key == name or key.endswith(f"__{name}"))
    }
    return estimator.set_params(**unset) if unset else estimator


def _arguments(make: Any) -> set[str]:
    try:
        return set(inspect.signature(make).parameters)
    except (TypeError, ValueError):  # some callables of C have no signature
        return set()

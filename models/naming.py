"""Models that others wrote: from a name to the callable that it names, and from that to an untrained estimator. A name
is `package.module:callable` or `package.module.Class`. An untrained estimator may also stand in a file that cloudpickle
wrote. Reading a pickle runs what is in it, so a file is read only if nobody but its owner can have changed it, and
under a name that its owner wrote down."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import pickle
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import AfterValidator, Field

from consilium.protocol.errors import ConfigError
from consilium.protocol.files import read_private, write_private

_WORD = r"[A-Za-z_][A-Za-z0-9_]*"
_NAME = re.compile(rf"{_WORD}(\.{_WORD})*:{_WORD}(\.{_WORD})*|{_WORD}(\.{_WORD})+")


def _importable(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("names no module and what is in it: write package.module:callable or package.module.Class")
    return name


DottedName = Annotated[str, Field(max_length=200), AfterValidator(_importable)]
"""A name that `resolve` takes; checking it imports nothing."""
_LONGEST = 200
"""Characters of a foreign error's text that are shown."""


class UnusableModel(ConfigError):
    """A user's own model cannot be found, built, trained on made-up rows, or kept."""


def resolve(name: str) -> Callable[..., Any]:
    """The callable that `name`, a `DottedName`, stands for. Imports its module.

    Raises
    ------
    UnusableModel : there is no such callable, its import fails, or it cannot be called.

    >>> resolve("fractions:Fraction.limit_denominator").__name__
    'limit_denominator'
    """
    module, colon, path = name.partition(":")
    if not colon:
        module, _, path = name.rpartition(".")
    try:
        found = reduce(getattr, path.split("."), importlib.import_module(module))
    except ModuleNotFoundError as error:
        action = f"Install it beside consilium, or put its folder on PYTHONPATH: there is no module {error.name}"
        raise UnusableModel(f"{name} cannot be imported", action) from None
    except AttributeError as error:
        raise UnusableModel(f"{name} is not there: {told(error)}", "Look for a slip in the name") from None
    except (Exception, SystemExit) as error:  # a module runs whatever its author wrote
        raise UnusableModel(f"{name} cannot be imported: {told(error)}", "Import it in Python first") from None
    if not callable(found):
        raise UnusableModel(f"{name} is no callable but {type(found).__name__}", "Name a class or a function")
    return cast("Callable[..., Any]", found)


def told(error: BaseException) -> str:
    """Class and first line of an error that no private row can have caused, short enough for a line."""
    text = " ".join(str(error).split())
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    return f"{type(error).__name__}: {short}" if short else type(error).__name__


_SEED, _JOBS = "random_state", "n_jobs"


def estimator_of(name: str, parameters: Mapping[str, Any], seed: int) -> Any:
    """The estimator that the callable `name` (see `resolve`) returns for `parameters`. Wherever it has a `random_state`
    or an `n_jobs` that nobody set, also within a Pipeline, they become `seed` and 1: parties already run in parallel.
    Raises UnusableModel: no such name, it raises, or what it returns has no `fit` or no `predict`."""
    make, given = resolve(name), dict(parameters)
    with suppress(TypeError, ValueError):  # some callables of C have no signature
        if _SEED in inspect.signature(make).parameters:
            given.setdefault(_SEED, seed % 2**32)
    try:
        made = make(**given)
    except (Exception, SystemExit) as error:
        raise UnusableModel(f"{name} cannot be built: {told(error)}", "Correct its parameters") from None
    return seeded(checked(made, name), seed)


def called(found: Any, name: str) -> Any:
    """`found` itself or, of a callable that is no estimator, what it returns. Raises UnusableModel: it raises."""
    if not callable(found) or hasattr(found, "fit"):
        return found
    try:
        return found()
    except (Exception, SystemExit) as error:
        raise UnusableModel(f"{name} cannot be called: {told(error)}", "Let it take no arguments") from None


def checked(made: Any, name: str) -> Any:
    """`made`, if it is an untrained classifier. Raises UnusableModel: it is a class, lacks a method, or says that it is
    of another kind. One that does not say its kind passes."""
    lacking = [method for method in ("fit", "predict") if not callable(getattr(made, method, None))]
    if inspect.isclass(made):
        what = f"{name} is the class {made.__name__}, or gives it, and no estimator"
        raise UnusableModel(what, f"Give an instance, {made.__name__}(...)")
    if lacking:
        what = f"{name} gives {type(made).__name__}, which has no {' and no '.join(lacking)}"
        raise UnusableModel(what, "A model needs the methods of a classifier of scikit-learn")
    try:
        kind = made.__sklearn_tags__().estimator_type
    except Exception:  # it is of no scikit-learn, or of one before 1.6
        kind = getattr(made, "_estimator_type", None)
    if kind not in (None, "classifier"):
        raise UnusableModel(f"{name} gives {type(made).__name__}, a {kind}, and no classifier", "Give a classifier")
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


def write_estimator(path: Path, estimator: Any) -> str:
    """Write an untrained estimator, or a callable that returns one, to a new file with mode 0600; returns its SHA-256.
    Classes and functions of a notebook go into the file; those of installed packages are named and must be installed
    where it is read. Raises UnusableModel: it cannot be pickled. FileExistsError: the file is there."""
    import cloudpickle

    try:
        content = cloudpickle.dumps(estimator)
    except Exception as error:
        action = "Make it of classes that can be pickled; open files, locks and generators cannot"
        raise UnusableModel(f"{type(estimator).__name__} cannot be pickled: {told(error)}", action) from None
    write_private(path, content)
    return hashlib.sha256(content).hexdigest()


def read_estimator(path: Path, sha256: str, seed: int) -> Any:
    """The untrained estimator of a file, a new one each time, with the seed; see `seeded`. Raises PathError: no such
    file. ConfigError: others than its owner may use it. UnusableModel: it is not the file with this SHA-256, where that
    is not empty, or holds no estimator."""
    content = read_private(path)
    if sha256 and hashlib.sha256(content).hexdigest() != sha256:
        raise UnusableModel(f"{path} is not the file whose SHA-256 was written down", "Write the right one down anew")
    try:
        found = called(pickle.loads(content), path.name)
    except UnusableModel:
        raise
    except (Exception, SystemExit) as error:
        action = "Write it with cloudpickle, and install here what it needs"
        raise UnusableModel(f"{path} cannot be read as an estimator: {told(error)}", action) from None
    return seeded(checked(found, path.name), seed)

"""An untrained estimator in a file of one's own, as cloudpickle writes it. Reading a pickle runs what is in it.

So only a file is read that nobody but its owner can have changed, by a name that its owner wrote down.
"""

from __future__ import annotations

import hashlib
import inspect
import pickle
from pathlib import Path
from typing import Any

from consilium.protocol.files import read_private, write_private
from consilium.protocol.own_models.building import checked, seeded
from consilium.protocol.own_models.naming import UnusableModel, told


def write_estimator(path: Path, estimator: Any) -> str:
    """Write an untrained estimator, or a callable that returns one, to a new file with mode 0600; returns its SHA-256.

    Classes and functions of a notebook go into the file; those of installed packages are named and must be installed
    where it is read.

    Raises
    ------
    UnusableModel : it cannot be pickled. FileExistsError : the file is there.
    """
    import cloudpickle

    try:
        content = cloudpickle.dumps(estimator)
    except Exception as error:
        action = "Make it of classes that can be pickled; open files, locks and generators cannot"
        raise UnusableModel(f"{type(estimator).__name__} cannot be pickled: {told(error)}", action) from None
    write_private(path, content)
    return hashlib.sha256(content).hexdigest()


def digest_of(path: Path) -> str:
    """SHA-256 of the file, hex. Raises PathError, ConfigError as `files.read_private`."""
    return hashlib.sha256(read_private(path)).hexdigest()


def read_estimator(path: Path, sha256: str, seed: int) -> Any:
    """The untrained estimator of a file, a new one each time, with the seed; see `building.seeded`.

    Raises
    ------
    PathError : no such file. ConfigError : others than its owner may use it. UnusableModel : it is not the file with
        this SHA-256, where that is not empty, or holds no estimator.
    """
    content = read_private(path)
    if sha256 and hashlib.sha256(content).hexdigest() != sha256:
        raise UnusableModel(f"{path} is not the file whose SHA-256 was written down", "Write the right one down anew")
    try:
        found = pickle.loads(content)
        if inspect.isclass(found) or not hasattr(found, "fit"):
            found = found()
    except (Exception, SystemExit) as error:
        action = "Write it with cloudpickle, and install here what it needs"
        raise UnusableModel(f"{path} cannot be read as an estimator: {told(error)}", action) from None
    return seeded(checked(found, path.name), seed)

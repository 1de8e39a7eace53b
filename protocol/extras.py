"""Libraries that an install has only with an extra, and the one error for those that are missing."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec

from consilium.protocol.errors import MissingExtra

EXTRA_OF = {
    "torch": "images",
    "polars": "tables",
    "sklearn": "tables",
    "altair": "study",
    "joblib": "study",
    "flwr": "deploy",
    "grpc": "deploy",
    "google": "deploy",
    "opendp": "tables",
    "httpx": "deploy",
    "starlette": "deploy",
    "uvicorn": "deploy",
    "prometheus_client": "deploy",
    "cloudpickle": "tables",
    "skops": "tables",
    "ray": "ray",
}
"""Which extra brings a library, by the name that is imported."""
NAMES = {"sklearn": "scikit-learn", "grpc": "grpcio", "google": "protobuf", "prometheus_client": "prometheus-client"}
"""As the package index calls them, where that is another name."""


def require(*modules: str, extra: str = "") -> None:
    """Check that these can be imported, before anything is computed that needs them. extra: that brings all of them.

    Raises
    ------
    MissingExtra : one cannot; with the extra that brings it.
    """
    for module in modules:
        if not _there(module):
            raise missing(module, extra)


def missing(module: str, extra: str = "") -> MissingExtra:
    """The error for a library that is not there.

    >>> str(missing("torch"))
    "torch is not installed, and this needs it. pip install 'consilium-pate[images]'"
    """
    return MissingExtra(
        f"{NAMES.get(module, module)} is not installed, and this needs it",
        f"pip install 'consilium-pate[{extra or EXTRA_OF[module]}]'",
    )


@contextmanager
def typed_imports() -> Generator[None]:
    """Raise MissingExtra in place of the ModuleNotFoundError for a library of an extra, whoever imports it here."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in EXTRA_OF or _there(name):
            raise
        raise missing(name) from None


def _there(module: str) -> bool:
    if sys.modules.get(module) is not None:
        return True
    try:
        return find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # whoever forbids it
        return False

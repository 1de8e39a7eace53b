"""Versions of what computed a run, for manifest and report."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

DISTRIBUTION = "consilium-pate"
"""The name on the package index, where `consilium` is something else; what is imported is `consilium`."""
PACKAGES = (DISTRIBUTION, "flwr", "numpy", "scipy", "scikit-learn", "torch", "safetensors", "opendp", "polars", "ray")


def versions() -> dict[str, str]:
    """Package -> version, of those that are installed, and Python's."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found

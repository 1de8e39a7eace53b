"""Versions of what computed a run, for manifest and report."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version

DISTRIBUTION = "consilium-pate"
"""The name on the package index, where `consilium` is something else; what is imported is `consilium`."""
PACKAGES = (DISTRIBUTION, "flwr", "numpy", "scipy", "scikit-learn", "torch", "safetensors", "opendp", "polars", "ray")


@cache
def program_versions() -> str:
    """What a node says of itself to the others: its own version and Flower's."""
    installed = versions((DISTRIBUTION, "flwr"))
    return ", ".join(f"{name} {number}" for name, number in installed.items() if name != "python")


def versions(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """Package -> version, of those that are installed, and Python's."""
    installed = {"python": platform.python_version()}
    for package in packages:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed

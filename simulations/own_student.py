"""A student that is read back by the program that has just made it: what it is made of is its own."""

from __future__ import annotations

from pathlib import Path

from consilium.models.naming import STUDENTS, resolve
from consilium.models.published.file import read
from consilium.models.published.model import Published, find_model, load_model
from consilium.models.published.own_models import ESTIMATOR, TORCH


def load_own(run_dir: Path) -> Published:
    """The student in a folder that nobody else has written to. Raises BadModel, UnusableModel."""
    path = find_model(run_dir)
    header = read(path).header
    kind, settings = header["kind"], header["settings"]
    trust = settings["classes"] if kind == ESTIMATOR else ()
    return load_model(path, trust, resolve(settings["factory"], STUDENTS) if kind == TORCH else None)

"""Checkpoints of students while they learn: what they are named by, written whole or not at all, and read."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np

from consilium.protocol.errors import DataError
from consilium.protocol.files import replacing
from consilium.student.trainers.settings import TrainerKind


def checkpoint_path(folder: Path | None, spec: TrainerKind, x: np.ndarray, y: np.ndarray, unlabelled: np.ndarray,
                    seed: int) -> Path | None:  # fmt: skip
    """Its name tells what is trained on what, so that rounds and pseudo-labels never take each other's state."""
    if folder is None:
        return None
    digest = hashlib.sha256(f"{spec.model_dump_json()} {seed}".encode())
    for array in (x, y, unlabelled):
        digest.update(np.ascontiguousarray(array).tobytes())
    return folder / f"checkpoint-{digest.hexdigest()[:16]}.pt"


def write_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write `content`, numbers and tensors, whole or not at all."""
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    whole = io.BytesIO()
    torch.save(content, whole)  # to a full disk, torch itself would raise what nobody can tell from a bug
    with replacing(path) as file:
        file.write(whole.getbuffer())


def read_checkpoint(path: Path | None, restore: Callable[[dict[str, Any]], None]) -> None:
    """Give what was written to `restore`, if anything was; without a path nothing was. Runs nothing of the file.

    Raises
    ------
    DataError : it cannot be read, or `restore` cannot use it.
    """
    import torch

    if path is None or not path.exists():
        return
    try:
        restore(torch.load(path, map_location="cpu", weights_only=True))
    except (OSError, EOFError, RuntimeError, UnpicklingError, KeyError, IndexError, TypeError, ValueError):
        raise DataError(f"checkpoint {path} is damaged", "Remove it: training then begins anew") from None

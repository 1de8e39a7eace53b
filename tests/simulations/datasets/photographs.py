"""Small files in the published formats of SVHN."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.io


def coloured(count: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 (count, 32, 32, 3) whose hue tells the label, int64 (count,) from 0."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, count)
    angle = 2 * np.pi * labels[:, None] / classes + np.array([0, 2 * np.pi / 3, 4 * np.pi / 3])
    mean = 128 + 80 * np.cos(angle)[:, None, None, :]
    return np.clip(mean + generator.normal(0, 25, (count, 32, 32, 3)), 0, 255).astype(np.uint8), labels


def write_svhn(folder: Path, train: int, test: int, extra: int = 0) -> list[dict]:
    """The files of these sizes; gives what is in the first two."""
    written = []
    for seed, (name, count) in enumerate({"train": train, "test": test, "extra": extra}.items()):
        if not count:
            continue
        images, labels = coloured(count, 10, seed)
        held = {"X": images.transpose(1, 2, 3, 0), "y": np.where(labels == 0, 10, labels)[:, None].astype(np.uint8)}
        scipy.io.savemat(folder / f"{name}_32x32.mat", held, do_compression=True)
        written.append(held)
    return written

"""The rooms of the code: what the links in consilium/ lead to. The list stands nowhere else."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = tuple(sorted(path.name for path in (ROOT / "consilium").iterdir() if path.is_symlink()))

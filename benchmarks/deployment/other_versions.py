"""Wheels of this program under other version numbers, and of an older commit, for upgrades and rollbacks."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def this_version() -> str:
    """Of the checkout."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def build(out: Path, revision: str, version: str = "", edits: Mapping[str, tuple[str, str]] | None = None) -> Path:
    """A wheel of a revision in `out`. version: another number for it; edits: by path, old and new text.

    Raises
    ------
    OSError : there is no such revision, a text is not there, or pip failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        archive = subprocess.run(["git", "-C", str(ROOT), "archive", revision], capture_output=True, check=False)
        if archive.returncode:
            raise OSError(archive.stderr.decode().strip())
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as file:
            file.extractall(source, filter="tar")
        number = {"pyproject.toml": (f'version = "{this_version()}"', f'version = "{version}"')} if version else {}
        for name, (old, new) in {**number, **(edits or {})}.items():
            path = source / name
            text = path.read_text(encoding="utf-8")
            if old not in text:
                raise OSError(f"{old!r} is not in {name}")
            path.write_text(text.replace(old, new), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, folder],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise OSError(done.stderr[-1500:])
        (wheel,) = source.glob("*.whl")
        return Path(shutil.move(wheel, out))

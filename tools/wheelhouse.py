"""A wheelhouse: all that a node without internet installs from, with a hash of each file, torch for the CPU only.

    python3 tools/wheelhouse.py --out wheelhouse [--python 3.12 --platform manylinux_2_28_x86_64]

It needs nothing but pip and, this once, the package index. On the node, with the folder on a disk:

    pip install --no-index --find-links wheelhouse --require-hashes -r wheelhouse/requirements.txt
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
WHEEL = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)(-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl")
FOR_GPUS = re.compile(r"(nvidia|triton|pytorch_triton|cuda)[_-]", re.IGNORECASE)
REQUIREMENTS = "requirements.txt"
Run = Callable[[Sequence[str]], int]


class WheelhouseError(Exception):
    """What is wrong, and what to do."""


def fill(out: Path, run: Run, python: str = "", platform: str = "", torch_index: str = TORCH_INDEX) -> Path:
    """Fetch everything into the new folder `out`: all of it, or nothing. Returns its requirements.txt.

    Parameters
    ----------
    run : runs a command, and returns its exit code.
    python, platform : of the nodes, where they are not this machine's: "3.12", "manylinux_2_28_x86_64".

    Raises
    ------
    WheelhouseError : `out` is there, pip failed, or what came is not what a node can install.
    """
    if out.exists():
        raise WheelhouseError(f"{out} is already there. Choose a new folder")
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        for command in commands(part, python, platform, torch_index):
            if run(command):
                raise WheelhouseError(f"pip failed: {' '.join(command[3:])}. What it said stands above")
        (part / REQUIREMENTS).write_text(requirements(part), encoding="utf-8")
        part.rename(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return out / REQUIREMENTS


def commands(out: Path, python: str, platform: str, torch_index: str) -> list[list[str]]:
    """The commands of pip, in order."""
    pip = [sys.executable, "-m", "pip"]
    pinned = ["-c", str(ROOT / "constraints.txt"), "-d", str(out), "--find-links", str(out), "--only-binary", ":all:"]
    target = [*(["--python-version", python] if python else []), *(["--platform", platform] if platform else [])]
    index = ["--extra-index-url", torch_index] if torch_index else []
    return [
        [*pip, "wheel", "--no-deps", "-w", str(out), str(ROOT)],
        # torch first and alone: the build for the CPU satisfies the pin, and nothing bigger is fetched for the others,
        # none of which comes from torch's index, whatever else that has
        [*pip, "download", *pinned, *target, "--no-deps", *index, "torch"],
        [*pip, "download", *pinned, *target, "consilium-pate"],
    ]


def requirements(folder: Path) -> str:
    """The text of requirements.txt: each wheel's name, version and SHA-256. Raises WheelhouseError."""
    lines = []
    for path in sorted(folder.iterdir()):
        found = WHEEL.fullmatch(path.name)
        if found is None:
            raise WheelhouseError(f"{path.name} is no wheel: a node would have to build it. Pin a version that has one")
        if FOR_GPUS.match(path.name):
            raise WheelhouseError(
                f"{path.name} is for GPUs: torch is not the build for the CPU. Name its index with --torch-index"
            )
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        lines.append(f"{found['name'].replace('_', '-')}=={found['version']} --hash=sha256:{digest}")
    if not any(line.startswith("consilium-pate==") for line in lines):
        raise WheelhouseError("there is no wheel of consilium-pate. Run this from its checkout")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description="A folder that nodes without internet install Consilium from.")
    parser.add_argument("--out", type=Path, default=Path("wheelhouse"), help="new folder (default: wheelhouse)")
    parser.add_argument("--python", default="", help="of the nodes, such as 3.12 (default: this one)")
    parser.add_argument("--platform", default="", help="of the nodes, as pip names it (default: this one)")
    parser.add_argument(
        "--torch-index", default=TORCH_INDEX, help="index with torch's builds for the CPU; '' where pip's own has them"
    )
    given = parser.parse_args(arguments)
    try:
        made = fill(given.out, subprocess.call, given.python, given.platform, given.torch_index)
    except WheelhouseError as error:
        sys.exit(f"wheelhouse: {error}")
    size = sum(path.stat().st_size for path in given.out.iterdir())
    print(f"{given.out}: {size / 1e6:.0f} MB. On the node, in a fresh environment:")
    print(f"  pip install --no-index --find-links {given.out} --require-hashes -r {made}")


if __name__ == "__main__":
    main()

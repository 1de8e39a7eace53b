"""What an install with each extra takes: packages, megabytes and seconds, in a fresh environment from the index.

    RECORD_FIGURES=1 python -m benchmarks.installs

Megabytes are those of all files that pip lists, without pip and setuptools; torch is the build for the CPU where pip's
index has it. Of an install without extras the default scenario is run, and the seconds are those of the command.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from docs.figures import figure

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("", "tables", "study", "deploy", "images", "all")
SIZES = """
import os
from importlib.metadata import distributions

found = [each for each in distributions() if each.name not in ("pip", "setuptools")]
files = [each.locate_file(file) for each in found for file in each.files or ()]
print(len(found), sum(os.path.getsize(file) for file in files if os.path.exists(file)))
"""


def installed(folder: Path, extra: str) -> tuple[int, float, float]:
    """Packages, megabytes and seconds of an install into a new environment."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python, started = folder / "bin" / "python", time.monotonic()
    pip = [str(python), "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, f"{ROOT}[{extra}]" if extra else str(ROOT)], check=True)
    seconds = time.monotonic() - started
    told = subprocess.run([str(python), "-c", SIZES], check=True, capture_output=True, text=True).stdout.split()
    return int(told[0]), int(told[1]) / 1e6, seconds


def run_default(folder: Path) -> float:
    """Seconds of the default run, in an install without extras and without this checkout."""
    started = time.monotonic()
    program, environment = folder / "bin" / "consilium", {**os.environ, "PYTHONPATH": ""}
    subprocess.run([str(program), "run", "--quiet", "--out", "run"], cwd=folder, env=environment, check=True)
    return time.monotonic() - started


def main() -> None:
    """Measure and print."""
    columns = ["extra", "packages", "MB", "seconds to install", "seconds of `consilium run`"]
    with (
        figure(
            "install/extras",
            "python -m benchmarks.installs",
            columns,
            split="nothing is drawn",
            note="pip with `constraints.txt`, torch for the CPU; without pip and setuptools",
            quick=False,
            timings=columns[3:],
        ) as table,
        tempfile.TemporaryDirectory() as made,
    ):
        for extra in EXTRAS:
            folder = Path(made) / (extra or "none")
            packages, size, seconds = installed(folder, extra)
            ran = "" if extra else f"{run_default(folder):.0f}"
            table.add(f"`[{extra}]`" if extra else "none", packages, f"{size:.0f}", f"{seconds:.0f}", ran)


if __name__ == "__main__":
    main()

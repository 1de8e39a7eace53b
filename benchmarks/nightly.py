"""What `make test` leaves out, run: `make nightly`, or `python -m benchmarks.nightly [PART ...] [--only PATH ...]`.

- `whole`: all tests of `make test`, with every case of brute force and every random example.
- `proofs`: tests of minutes each; those in network namespaces need root, and are skipped without.
- `mutants`: each rule broken in turn (`benchmarks.mutants`); passed are those that a test noticed.
- `drill`, `kills`, `soak`: federations of machines (`benchmarks.deployment`), with root in network namespaces; passed
  are steps, kills and federations that went as they should. Tables: docs/laboratory/deployment-results.md.

The last result of each part is kept in docs/figures/tests/nightly.json, from where `make figures` renders it
into docs/laboratory/tests.md.
`--only` runs the tests under these paths, and keeps a row of its own. Exit code 1: something failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from benchmarks.mutants import MUTANTS, ROOT, outcomes
from docs.figures import figure, read
from docs.marked import DOCS

NAME = "tests/nightly"
TESTS = {"whole": "not proofs", "proofs": "proofs"}
"""Parts that are tests, and the marker expression of each."""
DEPLOYED = {"drill": ["drill"], "kills": ["kills"], "soak": ["soak", "--second"]}
"""Parts that are modules of `benchmarks.deployment`, with their options; each ends with `N done, M not ...`."""
PARTS = (*TESTS, "mutants", *DEPLOYED)
COLUMNS = ("part", "last run", "seconds", "passed", "failed", "skipped")


class Result(NamedTuple):
    """Of one part: whole seconds on the clock, and how many tests or mutants."""

    seconds: int
    passed: int
    failed: int
    skipped: int


def counts(report: Path) -> tuple[int, int, int]:
    """Passed, failed (or ended by an error) and skipped, from what `pytest --junitxml` wrote."""
    suites = xml.parse(report).getroot().iter("testsuite")
    numbers = [[int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")] for suite in suites]
    tests, failures, errors, skipped = map(sum, zip(*numbers, strict=True))
    return tests - failures - errors - skipped, failures + errors, skipped


def run_tests(markers: str, paths: Sequence[str]) -> tuple[int, int, int]:
    """Counts of the tests with these markers, whole."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", markers]
        command += [f"--junitxml={report}", *paths]
        subprocess.run(command, cwd=ROOT, env=os.environ | threads | {"TESTS": "whole"}, check=False)
        return counts(report)


def run_deployed(command: Sequence[str]) -> tuple[int, int, int]:
    """Counts of what it says at its end; where it says nothing, it failed. Skipped without root: nodes on loopback."""
    module, *options = command
    options += [] if module == "soak" or os.geteuid() == 0 else ["--loopback"]
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.deployment.{module}", *options],
        cwd=ROOT, env={"RECORD_FIGURES": "1"} | os.environ, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    print(done.stdout, flush=True)
    return ended(done.stdout)


def ended(output: str) -> tuple[int, int, int]:
    """Passed and failed.

    >>> ended("| a | b |\n200 steps, 3 not as they should be, 90 s\n")
    (197, 3, 0)
    """
    found = re.findall(r"^(\d+) [a-z]+, (\d+) not as they should be", output, re.MULTILINE)
    total, failed = map(int, found[-1]) if found else (1, 1)
    return total - failed, failed, 0


def run_part(part: str, paths: Sequence[str]) -> Result:
    """Run it, and say what came out."""
    start = time.monotonic()
    if part in TESTS:
        passed, failed, skipped = run_tests(TESTS[part], paths)
    elif part in DEPLOYED:
        passed, failed, skipped = run_deployed(DEPLOYED[part])
    else:
        killed = list(outcomes(MUTANTS))
        passed, failed, skipped = sum(killed), len(killed) - sum(killed), 0
    return Result(round(time.monotonic() - start), passed, failed, skipped)


def earlier_rows() -> dict[str, tuple[str, ...]]:
    """What stands in the data file, by part."""
    path = DOCS / "figures" / f"{NAME}.json"
    return {row[0]: row for row in read(path).rows} if path.exists() else {}


def record(results: dict[str, Result]) -> None:
    """Write them into the table beside the rows of what was not run now."""
    rows: dict[str, Sequence[str | int]] = dict(earlier_rows())
    for part, result in results.items():
        rows[part] = (part, date.today().isoformat(), *result)
    os.environ.setdefault("RECORD_FIGURES", "1")
    split = "no data: the tests of this repository"
    with figure(NAME, "make nightly", COLUMNS, split=split, timings=COLUMNS[1:3], quick=False) as table:
        for part in sorted(rows):
            table.add(*rows[part])
        table.seconds = float(sum(int(row[2].replace(",", "")) for row in table.rows))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nightly", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; none for all")
    parser.add_argument("--only", nargs="+", default=[], metavar="PATH", help="tests under these paths")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}: {', '.join(PARTS)}")
    failed = 0
    for part in options.parts or PARTS:
        result = run_part(part, options.only)
        record({f"{part} of {' '.join(options.only)}" if options.only else part: result})
        failed += result.failed
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

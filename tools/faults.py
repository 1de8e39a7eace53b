"""Injects a fault for each rule that must never be lost, and shows that a test goes red.

    python tools/faults.py [RULE-OR-FILE ...]     # all, or those whose rule or file has this text

Each fault of tools/faults.toml replaces one text of one file in a copy of the checkout, and runs the tests that are
named beside it. A test that fails there must pass in the copy without the fault. With no argument the table in
CONTRIBUTING.md is written anew. Exit code 1: a fault that no test sees.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
TABLE = re.compile(r"(?<=<!-- faults -->\n).*?(?=<!-- end -->)", re.DOTALL)
RED = re.compile(r"^FAILED (\S+?\.py::.+?)(?: - .*)?$", re.MULTILINE)
WORKERS = 2


@dataclass(frozen=True)
class Fault:
    """In `file` the one place of `old` becomes `new`, which breaks `rule`. tests: what pytest is given."""

    rule: str
    fault: str
    file: str
    old: str
    new: str
    tests: list[str]

    @property
    def faulty(self) -> str:
        """The file's text with the fault. Raises ValueError where the place is not there, or not once."""
        text = (ROOT / self.file).read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {self.old!r} {text.count(self.old)} times, not once: mend faults.toml")
        return text.replace(self.old, self.new)


def faults() -> list[Fault]:
    """All, in the order of the file."""
    listed = tomllib.loads((ROOT / "tools" / "faults.toml").read_text(encoding="utf-8"))
    return [Fault(rule["rule"], **fault) for rule in listed["rule"] for fault in rule["faults"]]


def copied(target: Path) -> Path:
    """What git tracks, and new files, links as links; a repository of its own, as some tests ask git what there is."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name, follow_symlinks=False)
    return target


def tested(tree: Path, tests: list[str]) -> tuple[int, list[str]]:
    """pytest's exit code, and which tests failed, at most one."""
    variables = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-rf", "--no-header", "--tb=no", *tests]
    done = subprocess.run(command, cwd=tree, env=variables, capture_output=True, text=True, check=False)
    return done.returncode, RED.findall(done.stdout)


def seen(fault: Fault, trees: SimpleQueue[Path]) -> str:
    """The test that goes red and is green without the fault; empty where there is none."""
    tree = trees.get()
    file, red = tree / fault.file, list[str]()
    sound = file.read_text(encoding="utf-8")
    try:
        file.write_text(fault.faulty, encoding="utf-8")
        _, red = tested(tree, fault.tests)
        file.write_text(sound, encoding="utf-8")
        code = tested(tree, red)[0] if red else 1
    finally:
        file.write_text(sound, encoding="utf-8")
        trees.put(tree)
    found = red[0] if red and code == 0 else ""
    print(f"{'red' if found else 'NOT SEEN':9} {fault.rule}: {fault.fault}: {found}", flush=True)
    return found


def main(arguments: list[str]) -> int:
    """See above."""
    chosen = [each for each in faults() if not arguments or any(a in f"{each.rule} {each.file}" for a in arguments)]
    trees = SimpleQueue[Path]()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as pool:
        for number in range(WORKERS):
            trees.put(copied(Path(folder) / str(number)))
        found = list(pool.map(lambda fault: seen(fault, trees), chosen))
    if not arguments:
        page = ROOT / "CONTRIBUTING.md"
        lines = ["\n| rule | fault that was injected | test that went red |\n|---|---|---|\n"]
        for fault, test in zip(chosen, found, strict=True):
            name = test.partition("[")[0]
            lines.append(f"| {fault.rule} | {fault.fault} | {f'`{name}`' if name else 'NONE'} |\n")
        text = "".join([*lines, "\n"])
        page.write_text(TABLE.sub(lambda _: text, page.read_text(encoding="utf-8")), encoding="utf-8")
    return int(not all(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

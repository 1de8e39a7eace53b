"""How the code is built: `python -m benchmarks.house [--at REVISION]... [--static]`.

Without revisions: the code before the work on the house (0.9.0 and what followed), and the working tree. Counted
is the package, without tests and generated modules; every revision is counted by this file, so that the columns can be
compared. Of each tree, unless `--static`, a small federation runs in one process, and one query is followed from the
student's question to its answer: which files it enters, and how often it goes from one to another.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from docs.figures import figure

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "consilium"
ROOMS = (
    *("accounting", "protocol", "report", "data", "models", "sums", "node"),
    *("party", "aggregator", "coordinator", "student", "simulations"),
)
BEFORE = "e92497e4"
WINDOW = 6
"""Lines in a row that count as written twice, without blank ones, comments, docstrings, imports, and signatures: those
of one interface are equal on purpose."""
SPLIT = "no data: the code itself; of 0.9.0, the last commit before the work on its size"
COLLECTIONS = ("clear", "secure", "verified")
FOLLOWED = Path(__file__).with_name("house_followed.py")
"""Runs in the tree that it follows, whatever its version."""


@dataclass(frozen=True)
class Module:
    """One file. name: dotted, without the package's own name, so that both layouts have the same names. folder: where
    it lies, "" at the top."""

    name: str
    folder: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Parsed."""
        return ast.parse(self.text)

    @property
    def room(self) -> str:
        """The first part of its folder, or of its name at the top."""
        return self.folder.partition("/")[0] or self.name

    @property
    def lines(self) -> int:
        """All of them."""
        return self.text.count("\n")


def modules(root: Path) -> dict[str, Module]:
    """Modules of a tree by their names; a folder's `__init__` has the folder's name."""
    counted: dict[str, Module] = {}
    files = [path for room in ROOMS for path in sorted((root / room).rglob("*.py"))]
    files += [path for path in (root / "cli.py", *sorted((root / PACKAGE).glob("*.py"))) if path.exists()]
    for path in files:
        if "_pb2" in path.name:
            continue
        relative = path.relative_to(root)
        parts = [part for part in relative.with_suffix("").parts if part != PACKAGE]
        folder = "" if relative.parent.as_posix() in (".", PACKAGE) else relative.parent.as_posix()
        name = ".".join(part for part in parts if part != "__init__")
        counted[name] = Module(name, folder, path.read_text(encoding="utf-8"))
    return counted


def arrows(found: dict[str, Module]) -> set[tuple[str, str]]:
    """Which module imports which, wherever the import stands: in functions and for type checkers too."""
    made: set[tuple[str, str]] = set()
    for module in found.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                targets = [name if _bare(name) in found else node.module for name in inner]
            else:
                continue
            made |= {(module.name, _bare(target)) for target in targets if _bare(target) in found}
    return {(importer, imported) for importer, imported in made if importer != imported}


def _bare(name: str) -> str:
    return name.removeprefix(PACKAGE).lstrip(".")


def circles(edges: set[tuple[str, str]]) -> list[list[str]]:
    """Names that reach each other, one list for each knot."""
    names = sorted({name for edge in edges for name in edge})
    index = {name: number for number, name in enumerate(names)}
    pairs = np.array([(index[one], index[other]) for one, other in edges]).reshape(-1, 2)
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(names),) * 2)
    _, labels = connected_components(graph, connection="strong")
    knots: defaultdict[int, list[str]] = defaultdict(list)
    for name, label in zip(names, labels, strict=True):
        knots[label].append(name)
    return [knot for knot in knots.values() if len(knot) > 1]


def _is_text(node: ast.Expr) -> bool:
    return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _said(module: Module) -> Iterator[tuple[int, str]]:
    """Numbered lines of code, stripped."""
    left_out: set[int] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) or (isinstance(node, ast.Expr) and _is_text(node)):
            left_out |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.FunctionDef):
            left_out |= set(range(node.lineno, node.body[0].lineno))
    for number, line in enumerate(module.text.splitlines(), start=1):
        bare = line.strip()
        if bare and not bare.startswith("#") and number not in left_out:
            yield number, bare


def duplicated(found: dict[str, Module]) -> int:
    """Lines that lie in a window which stands somewhere else too."""
    windows: defaultdict[tuple[str, ...], list[tuple[str, tuple[int, ...]]]] = defaultdict(list)
    for module in found.values():
        lines = list(_said(module))
        for start in range(len(lines) - WINDOW + 1):
            part = lines[start : start + WINDOW]
            windows[tuple(text for _, text in part)].append((module.name, tuple(number for number, _ in part)))
    twice = {
        (name, number) for places in windows.values() if len(places) > 1 for name, part in places for number in part
    }
    return len(twice)


SAYS_NOTHING = frozenset(
    ("told", "found", "given", "kept", "said", "asked", "own", "each", "what", "at", "here", "made", "got")
)


def says_nothing(modules: Iterable[Module]) -> int:
    """Names of variables, parameters and functions that do not say what is in them: see tests/test_words.py."""
    count = 0
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                count += node.id in SAYS_NOTHING
            elif isinstance(node, ast.arg):
                count += node.arg in SAYS_NOTHING
            elif isinstance(node, ast.FunctionDef):
                count += node.name in SAYS_NOTHING
    return count


def imports(modules: Iterable[Module]) -> int:
    """Lines of imports."""
    return sum(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    )


def measures(root: Path) -> dict[str, str]:
    """What is counted without running anything."""
    counted = modules(root)
    every, edges = counted.values(), arrows(counted)
    lines = sum(module.lines for module in every)
    folders = {(counted[one].folder, counted[other].folder) for one, other in edges}
    knots, largest = circles(edges), max(every, key=lambda module: module.lines)
    tests = [path.read_text(encoding="utf-8").count("\n") for path in (root / "tests").rglob("*.py")]
    return {
        "lines": f"{lines:,}",
        "files": f"{len(counted)}",
        "folders": f"{len({module.folder for module in every if module.folder})}",
        "largest file": f"{largest.lines} ({largest.name})",
        "imports, share of lines": f"{imports(every) / lines:.1%}",
        "folder to folder": f"{sum(one != other for one, other in folders)}",
        "module to module": f"{len(edges)}",
        "import circles": f"{len(knots)}" + "".join(f" ({' <-> '.join(knot)})" for knot in knots),
        f"lines in {WINDOW} that stand twice": f"{duplicated(counted)}",
        "names that say nothing": f"{says_nothing(every):,}",
        "test lines, files": f"{sum(tests):,}, {len(tests)}",
    }


def followed(root: Path) -> dict[str, str]:
    """What is seen when one query goes through the tree's own program, in each way of collection; its commands."""
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    seen: dict[str, str] = {}
    for what in ("commands", "csv", *COLLECTIONS):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, str(FOLLOWED), what, folder],
                cwd=root,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
        try:
            seen |= json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            seen[what] = "cannot be followed"
            print(done.stderr[-2000:], file=sys.stderr)
    return seen


def column(root: Path, static: bool) -> dict[str, str]:
    """Of one tree."""
    return measures(root) | ({} if static else followed(root))


def unpack(revision: str, folder: Path) -> None:
    """The tree of a commit. Raises SystemExit where there is none."""
    packed = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        raise SystemExit(f"{revision}: {packed.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as content:
        content.extractall(folder, filter="data")


def at(revision: str, static: bool = True) -> dict[str, str]:
    """The column of a commit."""
    with tempfile.TemporaryDirectory() as folder:
        unpack(revision, Path(folder))
        return column(Path(folder), static)


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.house", description="How the code is built.")
    parser.add_argument("--at", metavar="REVISION", action="append", help="a commit to count, once or more")
    parser.add_argument("--static", action="store_true", help="run nothing")
    options = parser.parse_args(arguments)
    revisions = options.at or [BEFORE]
    trees = [*revisions, *([] if options.at else ["now"])]
    heads = ["", *("0.9.0" if name == BEFORE else name for name in trees)]
    with figure("architecture/house", "python -m benchmarks.house", heads, split=SPLIT, quick=False) as table:
        columns = [at(name, options.static) for name in revisions]
        columns += [] if options.at else [column(ROOT, options.static)]
        for row in dict.fromkeys(row for column in columns for row in column):
            cells = [column.get(row, "") for column in columns]
            table.add(row, *(cell.partition(" (")[0] if row == "import circles" else cell for cell in cells))


if __name__ == "__main__":
    main(sys.argv[1:])

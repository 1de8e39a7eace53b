"""How the code is built, before and after: `python -m benchmarks.house [--at REVISION]...`.

Without revisions: v0.2.0, whose rooms were packages of their own, and the working tree. What is counted is the package,
without tests and generated modules; every revision is counted by this file, so the columns can be compared.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "consilium"
ROOMS = (
    "accounting",
    "protocol",
    "report",
    "data",
    "models",
    "sums",
    "node",
    "party",
    "aggregator",
    "coordinator",
    "student",
    "simulations",
)
V020 = "85c8fff"
WINDOW = 6
"""Lines in a row that count as written twice, without blank ones, comments, docstrings, imports, and signatures: those
of one interface are equal on purpose."""
LONG = 400


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
    found: dict[str, Module] = {}
    files = [path for room in ROOMS for path in sorted((root / room).rglob("*.py"))]
    files += [path for path in (root / "cli.py", *sorted((root / PACKAGE).glob("*.py"))) if path.exists()]
    for path in files:
        if "_pb2" in path.name:
            continue
        relative = path.relative_to(root)
        parts = [part for part in relative.with_suffix("").parts if part != PACKAGE]
        folder = "" if relative.parent.as_posix() in (".", PACKAGE) else relative.parent.as_posix()
        name = ".".join(part for part in parts if part != "__init__")
        found[name] = Module(name, folder, path.read_text(encoding="utf-8"))
    return found


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


def kinds(found: dict[str, Module]) -> set[str]:
    """Names of the classes of events and mechanisms, and of unions of them."""
    named: set[str] = set()
    for module in found.values():
        if module.name.startswith(("accounting.events", "coordinator.mechanisms")):
            for node in module.tree.body:
                if isinstance(node, ast.ClassDef):
                    named.add(node.name)
                elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
                    named |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return named


def ladders(found: dict[str, Module]) -> int:
    """How often code asks whether something is of a certain class of event or mechanism."""
    named, count = kinds(found), 0
    for module in found.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                names = {inner.id for inner in ast.walk(node.args[1]) if isinstance(inner, ast.Name)}
                names |= {inner.attr for inner in ast.walk(node.args[1]) if isinstance(inner, ast.Attribute)}
                count += bool(names & named)
            elif isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name):
                count += node.cls.id in named
    return count


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


def measures(root: Path) -> dict[str, str]:
    """The column of one tree."""
    found = modules(root)
    folders = Counter(module.folder for module in found.values() if module.folder)
    edges = arrows(found)
    rooms = {(found[one].room, found[other].room) for one, other in edges}
    knots, long = circles(edges), [module for module in found.values() if module.lines > LONG]
    fullest, most = folders.most_common(1)[0]
    return {
        "modules": f"{len(found)}",
        "lines": f"{sum(module.lines for module in found.values()):,}",
        "folders with modules": f"{len(folders)}",
        "files per folder, median": f"{median(folders.values()):g}",
        "files in the fullest folder": f"{most} ({fullest})",
        "folders of more than 12 files": f"{sum(count > 12 for count in folders.values())}",
        f"modules of more than {LONG} lines": f"{len(long)}",
        "arrows between modules": f"{len(edges)}",
        "arrows between rooms": f"{sum(one != other for one, other in rooms)}",
        "import circles": f"{len(knots)}" + "".join(f" ({' <-> '.join(knot)})" for knot in knots),
        "isinstance on events and mechanisms": f"{ladders(found)}",
        f"lines in {WINDOW} that stand twice": f"{duplicated(found)}",
    }


def at(revision: str) -> dict[str, str]:
    """The column of a commit."""
    packed = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        raise SystemExit(f"{revision}: {packed.stderr.decode().strip()}")
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(packed.stdout)) as content:
        content.extractall(folder, filter="data")
        return measures(Path(folder))


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.house", description="How the code is built.")
    parser.add_argument("--at", metavar="REVISION", action="append", help="a commit to count, once or more")
    given = parser.parse_args(arguments).at
    columns = {name: at(name) for name in given or [V020]}
    if not given:
        columns["working tree"] = measures(ROOT)
    print("| |" + "".join(f" {name} |" for name in columns))
    print("|---|" + "---|" * len(columns))
    for row in next(iter(columns.values())):
        print(f"| {row} |" + "".join(f" {column[row]} |" for column in columns.values()))


if __name__ == "__main__":
    main(sys.argv[1:])

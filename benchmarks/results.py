"""Results of benchmarks: one file, docs/results.json, and the places of pages that show them.

    with table("naturals", "consilium study naturals", ["division", "PATE"], split="...", seeds=range(5)) as rows:
        rows.add("schools", ".849 ± .013")       # prints it; its key is "schools / PATE"

With `RECORD=1` in the environment the table replaces what docs/results.json has under its id, with its split, seeds,
command, seconds and the version that was measured. `python -m benchmarks.results --measure [ID ...]` runs the commands
of all results so, or of those that are named: hours. Without it pages are written anew from the file: a value between
`<!-- result ID KEY -->` and `<!-- end -->`, a table between `<!-- results ID -->` and `<!-- end -->`, of the columns
that its first line names there, a study's sentences between `<!-- study ID -->` and `<!-- end -->`. `--check` only says
which pages differ from the file.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs" / "results.json"
VALUE = re.compile(r"(<!-- result (\S+) ([^\n]+?) -->)(.*?)(<!-- end -->)")
TABLE = re.compile(r"(<!-- results (\S+) -->\n\| ([^\n]*?) \|\n)(.*?)(<!-- end -->)", re.DOTALL)
SENTENCES = re.compile(r"(<!-- study (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
BETWEEN = " / "
"""In the key of a cell: row and column."""
Results = dict[str, dict[str, Any]]
START = time.monotonic()
"""Of this process: a benchmark may measure first, and make its tables at the end."""


@dataclass
class Rows:
    """A table as it is measured. values: of each cell its text, by row and column."""

    columns: Sequence[str]
    values: dict[str, str] = field(default_factory=dict)

    def add(self, row: str, *cells: str | int | None) -> None:
        """One more row, which is printed. Raises TypeError for a float: its digits are to be chosen."""
        if floats := [cell for cell in cells if isinstance(cell, float)]:
            raise TypeError(f"a cell is {floats[0]!r}: write it with the digits that the page shows")
        texts = ["–" if cell is None else f"{cell:,}" if isinstance(cell, int) else cell for cell in cells]
        self.values |= {f"{row}{BETWEEN}{name}": text for name, text in zip(self.columns[1:], texts, strict=True)}
        print("| " + " | ".join([row, *texts]) + " |", flush=True)


@contextmanager
def table(name: str, command: str, columns: Sequence[str], *, split: str, seeds: Iterable[int] = ()) -> Iterator[Rows]:
    """A table to fill. split: which rows judge, and on which ones values were chosen. See the top of this module."""
    rows = Rows(columns)
    print("\n| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|", flush=True)
    yield rows
    if os.environ.get("RECORD"):
        result = {"values": rows.values, "split": split, "seeds": list(seeds), "command": command}
        record(name, result, time.monotonic() - START)


def record(name: str, result: dict[str, Any], seconds: float, file: Path = FILE) -> None:
    """Put one result into the file. seconds: that it took, on the machine at hand."""
    results = read(file) | {name: {**result, "seconds": round(seconds), "version": version("consilium-pate")}}
    text = json.dumps(dict(sorted(results.items())), ensure_ascii=False, indent=1)
    file.write_text(text + "\n", encoding="utf-8")


def read(file: Path = FILE) -> Results:
    """All results by their ids."""
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def filled(text: str, results: Results) -> str:
    """A page with the results in it. Raises KeyError for a mark that has none."""

    def shown(mark: re.Match[str]) -> str:
        columns = mark[3].split(" | ")
        rows = dict.fromkeys(key.partition(BETWEEN)[0] for key in results[mark[2]]["values"])
        lines = [[row, *(results[mark[2]]["values"][row + BETWEEN + name] for name in columns[1:])] for row in rows]
        texts = ["|---" * len(columns) + "|", *(f"| {' | '.join(line)} |" for line in lines)]
        return mark[1] + "\n".join(texts) + "\n" + mark[5]

    def said(mark: re.Match[str]) -> str:
        made, *sentences = results[mark[2]]["values"].values()
        lines = [made, "", *(f"{number}. {sentence}" for number, sentence in enumerate(sentences, 1)), ""]
        return mark[1] + "\n".join(lines) + mark[4]

    text = VALUE.sub(lambda mark: mark[1] + results[mark[2]]["values"][mark[3]] + mark[5], text)
    return SENTENCES.sub(said, TABLE.sub(shown, text))


def pages() -> list[Path]:
    """Those that may show results."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def ids(text: str) -> set[str]:
    """Of the results that a page shows."""
    return {mark[2] for pattern in (VALUE, TABLE, SENTENCES) for mark in pattern.finditer(text)}


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Mean ± sample standard deviation; the mean alone of one value or of equal ones.

    >>> spread([0.75, 0.77]), spread([300, 300], 0)
    ('0.760 ± 0.014', '300')
    """
    mean = f"{np.mean(values):,.{digits}f}"
    alone = len(values) < 2 or float(np.ptp(values)) == 0
    return mean if alone else f"{mean} ± {np.std(values, ddof=1):,.{digits}f}"


def student_interval(values: Sequence[float]) -> tuple[float, float]:
    """Both ends of the 95 % interval of a mean by Student's t, each value one observation; two at least.

    >>> [round(end, 3) for end in student_interval([0.98, 0.99, 0.985])]
    [0.973, 0.997]
    """
    half = float(t.ppf(0.975, len(values) - 1)) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return float(np.mean(values)) - half, float(np.mean(values)) + half


def command_of(module: str, arguments: Sequence[str] = ()) -> str:
    """The command that was run, without where measurements are kept (`--out`).

    >>> command_of("benchmarks.papers", ["--seeds", "0", "--out", "kept.jsonl"])
    'python -m benchmarks.papers --seeds 0'
    """
    words = [word for before, word in zip(("", *arguments), arguments, strict=False) if "--out" not in (before, word)]
    return " ".join(["python -m", module, *map(shlex.quote, words)])


class Kept:
    """Measurements in a file of JSON lines, printed as they come: a benchmark that was stopped goes on from there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.found = [json.loads(line) for line in lines]

    def has(self, **keys: object) -> bool:
        """Whether something was measured with these keys."""
        return any(all(item.get(key) == value for key, value in keys.items()) for item in self.found)

    def add(self, **values: object) -> None:
        """Keep one measurement."""
        self.found.append(values)
        line = json.dumps(values)
        print(line, flush=True)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(line + "\n")


def measure(names: Sequence[str]) -> None:
    """Run the command of each of these results, or of all, once. The others stay as they were where one fails."""
    commands = dict.fromkeys(result["command"] for name, result in read().items() if not names or name in names)
    for command in commands:
        _, *words = shlex.split(command)
        print(command, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            steps = [words]
            if command.startswith("consilium "):  # a study, or a paper's rows: recorded once they are there
                made = f"{folder}/made"
                steps = [["-m", "consilium", *words, "--out", made], ["-m", "benchmarks.studies", made]]
            for each in steps:
                subprocess.run([sys.executable, *each], cwd=ROOT, env={**os.environ, "RECORD": "1"}, check=True)


def main(arguments: Sequence[str] = ()) -> None:
    """Measure, if that is asked; then write the pages anew, or say which differ: exit code 1."""
    if "--measure" in arguments:
        measure([name for name in arguments if name != "--measure"])
    results, stale = read(), []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (new := filled(text, results)) != text:
            stale.append(page.relative_to(ROOT).as_posix())
            if "--check" not in arguments:
                page.write_text(new, encoding="utf-8")
    print("\n".join(stale))
    if stale and "--check" in arguments:
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Measured tables of the pages: made by a command, kept as data files, and rendered; no digit is typed.

A benchmark writes its table through `figure`, which prints the rows as they come (so nothing else need print them)::

    with figure("results/default-scenario", "python -m benchmarks.default_scenario", ["setting", "student"],
                seeds=range(10), split="judged on held-out hospitals; nothing was chosen on them") as table:
        for setting in SETTINGS:                       # compute inside the block, so that it is timed
            table.add(setting.name, f"**{auc:.3f}**")  # text is Markdown; 1000 becomes 1,000, None a dash; no floats

- Nothing is written unless asked: `RECORD_FIGURES=1 python -m benchmarks.default_scenario` writes
  `docs/figures/results/default-scenario.json`; so does `python -m docs.figures --make results/default-scenario` (or
  `--make "python -m benchmarks.default_scenario"` for the first time), which also says which cells moved, and renders.
- The page has `<!-- figure results/default-scenario -->` and `<!-- end figure -->`, each on a line of its own, and
  `make figures` (`python -m docs.figures`) writes table and origin between them. In prose, one cell without its bold
  is `<!-- value results/default-scenario :: ROW :: COLUMN -->.770<!-- end value -->`; the beginning of ROW is enough.
- A part of a table, or columns of several, is `<!-- excerpt FIGURE :: COLUMN | COLUMN = SHOWN AS + FIGURE :: COLUMN @
  ROW | ROW -->` (on one line) and `<!-- end excerpt -->`. Rows are those of the first figure, all without `@`.
- `command` is what makes this table alone. If it takes under ten processor seconds, a test runs it again, and compares
  every cell, but for those of the columns in `timings`: `make test` those of a second or so, `make nightly` all.
  `quick=False` exempts it (say why).
- Rows that were measured earlier and read from a file: set `table.seconds` to what they took. `note`: a sentence more.
- `--check` says which page is stale, which file was edited by hand, lies about its name or stands nowhere, which mark
  has no file, and which table of the pages in `MADE` has no mark. `--rerun` is what CI does with the quick ones.
- A figure of origin "transcribed" was taken over from that version's page and not made again since. Its line says so,
  until its command records over the file.
- docs/laboratory/papers.md has, besides, its items (docs/papers.py), whose texts name cells of figures.

Not covered: figures in prose without a value mark; whether the command of a slow or transcribed table still gives it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import runpy
import shlex
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Literal
from unittest.mock import patch

from pydantic import BaseModel, ConfigDict, model_validator

import consilium
from docs.marked import DOCS, names, pages, pattern, stale_pages, typed_tables, with_parts
from docs.papers import Item, read_items, with_items

TABLES = pattern("figure")
VALUES = pattern("value", line_end="")
EXCERPTS = pattern("excerpt")
RECORD = "RECORD_FIGURES"
"""Set: figures are written. A folder, or anything else for docs/figures."""
QUICK_SECONDS = 10
MADE = ("papers", "results", "scale", "planning", "audit")
"""Pages without a typed table of figures."""
WORDS = {
    "| mark | document |": "papers.md: which documents the marks stand for",
    "| verdict | terminal |": "audit.md: what a verdict means, as the command says it",
    "| line | what is checked |": "audit.md: what a party checks of the ledger, line by line",
    "| votes | a party | coordinator |": "scale.md: what grows with what, by the theory of each way",
}
"""How those of their tables begin that hold words and no figures -> what they say."""


class FigureError(ValueError):
    """A data file, a mark or a command that does not fit; the text names it, and what to do."""


class Figure(BaseModel):
    """A measured table.

    name: PAGE/TABLE. command: makes it and nothing else; empty if transcribed and unknown. version: of Consilium. date:
    ISO. seeds: all that were run. split: which rows judge, and which ones parameters were chosen on. seconds: processor
    seconds, with children. load: of the machine over 1, 5, 15 minutes, at the end. quick: a test runs it again. origin:
    "transcribed" if taken over from that version's page. timings: columns that differ from run to run. rows: Markdown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    command: str
    version: str
    date: str
    seeds: tuple[int, ...] = ()
    split: str = ""
    note: str = ""
    seconds: float | None = None
    load: tuple[float, ...] = ()
    quick: bool = False
    origin: Literal["measured", "transcribed"]
    timings: tuple[str, ...] = ()
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @model_validator(mode="after")
    def _fits(self) -> Figure:
        if not re.fullmatch(r"[a-z0-9-]+/[a-z0-9-]+", self.name):
            raise ValueError(f"the name {self.name!r} is not PAGE/TABLE in small letters, digits and dashes")
        if not self.rows or any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"{self.name}: every row needs {len(self.columns)} cells, and there has to be one")
        if self.origin == "measured" and not (self.command and self.split):
            raise ValueError(f"{self.name}: a measured table needs its command and its split")
        if missing := set(self.timings) - set(self.columns):
            raise ValueError(f"{self.name}: no column {', '.join(sorted(missing))} to hold timings")
        if self.quick and not self.command.startswith("python -m "):
            raise ValueError(f"{self.name}: only `python -m MODULE ...` can be run again, not {self.command!r}")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 of what makes the figures: all but date, seconds and load."""
        content = self.model_dump(mode="json", exclude={"date", "seconds", "load", "quick"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> str:
        """One line for each key and for each row."""
        content = self.model_dump(mode="json", exclude={"rows"}) | {"digest": self.digest}
        head = "".join(f' "{key}": {json.dumps(value, ensure_ascii=False)},\n' for key, value in content.items())
        rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in self.rows)
        return f'{{\n{head} "rows": [\n{rows}\n ]\n}}\n'

    def markdown(self) -> str:
        """The table, and a small line on where it is from."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        table = "".join("|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|\n" for line in lines)
        return f"{table.replace(' --- ', '---')}\n<small>{self.source()}</small>\n"

    def source(self) -> str:
        """`python -m ...`, version 1.0.0, seeds 0 to 4. Split. Note."""
        if self.origin == "transcribed":
            made = f"Of version {self.version}; not made again since"
            made += f" (`{self.command}`)" if self.command else ""
        else:
            made = f"`{self.command}`, version {self.version}"
            made += f", at a load of {self.load[1]:g}" if self.timings and self.load else ""
        parts = (made + (f", {_seeds(self.seeds)}" if self.seeds else ""), self.split, self.note)
        return " ".join(f"{part[0].upper()}{part[1:].rstrip('.')}." for part in parts if part)

    def cell(self, row: str, column: str) -> str:
        """One cell without its bold, of the row whose first cell is `row`, or whose cells begin so (`1,000 | 1e-5`).

        Raises FigureError unless there is one such row and one such column.
        """
        rows = [line for line in self.rows if _plain(line[0]) == row]
        rows = rows or [line for line in self.rows if _plain(" | ".join(line)).startswith(row)]
        at = [index for index, name in enumerate(self.columns) if _plain(name) == column]
        if len(rows) != 1 or len(at) != 1:
            raise FigureError(f"{self.name}: {len(rows)} rows begin with {row!r}, {len(at)} columns are {column!r}")
        return _plain(rows[0][at[0]])


@dataclass
class Table:
    """Rows of a table as they are measured; printed at once. seconds: what they took, if not within the block."""

    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    seconds: float | None = None

    def add(self, *cells: str | int | None) -> None:
        """One more row. Raises TypeError for a float: its digits are to be chosen."""
        if floats := [cell for cell in cells if isinstance(cell, float)]:
            raise TypeError(f"a cell is {floats[0]!r}: write it with the digits that the page shows")
        texts = ["–" if cell is None else f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells]
        self.rows.append(tuple(texts))
        print("| " + " | ".join(texts) + " |", flush=True)


@contextmanager
def figure(
    name: str,
    command: str,
    columns: Sequence[str],
    *,
    split: str,
    seeds: Sequence[int] = (),
    timings: Sequence[str] = (),
    note: str = "",
    quick: bool | None = None,
) -> Iterator[Table]:
    """A table to fill; on leaving, it is written if `RECORD_FIGURES` is set. See the top of this module."""
    table, start = Table(tuple(columns)), _processor_seconds()
    print("\n| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|", flush=True)
    yield table
    if not (folder := os.environ.get(RECORD)):
        return
    seconds = _processor_seconds() - start if table.seconds is None else table.seconds
    fast = seconds < QUICK_SECONDS and command.startswith("python -m ")
    made = Figure(
        name=name, command=command, version=_version(), date=date.today().isoformat(), seeds=tuple(seeds), split=split,
        note=note, seconds=round(seconds, 1), load=tuple(round(value, 2) for value in os.getloadavg()),
        quick=fast if quick is None else quick, origin="measured", timings=tuple(timings),
        columns=table.columns, rows=tuple(table.rows),
    )  # fmt: skip
    write(made, Path(folder) if Path(folder).is_dir() else DOCS / "figures")


def write(made: Figure, folder: Path) -> None:
    """Its file, in the folder of its page."""
    path = folder / f"{made.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(made.to_json(), encoding="utf-8")


def _opened(path: Path) -> tuple[Figure, str]:
    """A figure from its file, and the digest that stands there."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        digest = content.pop("digest")
        return Figure(**content), digest
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FigureError(f"{path}: no figure, {error}") from error


def read(path: Path) -> Figure:
    """A figure from its file. Raises FigureError if the file was edited by hand or is of another place."""
    made, digest = _opened(path)
    if made.name != f"{path.parent.name}/{path.stem}":
        raise FigureError(f"{path}: holds {made.name}; move it")
    if made.digest != digest:
        raise FigureError(f"{path}: edited by hand; run `python -m docs.figures --make {made.name}`")
    return made


def read_all(docs: Path = DOCS) -> dict[str, Figure]:
    """Name -> figure."""
    return {made.name: made for made in map(read, sorted(docs.glob("figures/*/*.json")))}


def with_figures(text: str, figures: Mapping[str, Figure], items: Sequence[Item] = ()) -> str:
    """A page with its figures and items as the data files have them. Raises ValueError for a mark without a file."""

    def of(name: str) -> Figure:
        if name not in figures:
            raise FigureError(f"no file docs/figures/{name}.json, but a mark for it")
        return figures[name]

    def value(address: str) -> str:
        parts = address.split(" :: ")
        if len(parts) != 3:
            raise FigureError(f"a value mark reads PAGE/TABLE :: ROW :: COLUMN, not {address}")
        return of(parts[0]).cell(*parts[1:])

    text = with_parts(text, TABLES, lambda name: of(name).markdown())
    text = with_parts(text, EXCERPTS, lambda address: excerpt(address, of))
    return with_items(with_parts(text, VALUES, value), items, value)


def excerpt(address: str, of: Callable[[str], Figure]) -> str:
    """Some columns and rows of figures, side by side. Raises FigureError for one that is not there."""
    tables, _, chosen = address.partition(" @ ")
    parts = [part.split(" :: ") for part in tables.split(" + ")]
    if any(len(part) != 2 for part in parts):
        raise FigureError(f"an excerpt reads FIGURE :: COLUMN | COLUMN + FIGURE :: COLUMN @ ROW | ROW, not {address}")
    columns = [(of(name), *column.partition(" = ")[::2]) for name, names in parts for column in names.split(" | ")]
    first = columns[0][0]
    rows = chosen.split(" | ") if chosen else [row[0] for row in first.rows]
    lines = [[first.columns[0], *(shown or column for _, column, shown in columns)], ["---"] * (1 + len(columns))]
    lines += [[_plain(row), *(made.cell(_plain(row), column) for made, column, _ in columns)] for row in rows]
    table = "".join("|" + "|".join(f" {cell} " if cell else " " for cell in line) + "|\n" for line in lines)
    sources = dict.fromkeys(made.source() for made, _, _ in columns)
    return f"{table.replace(' --- ', '---')}\n<small>{' '.join(sources)}</small>\n"


def render(docs: Path = DOCS) -> list[Path]:
    """Write the pages that are stale, and name them; one that does not fit is left as it is, for `problems` to name."""
    figures, items = read_all(docs), read_items(docs)

    def page(text: str) -> str:
        try:
            return with_figures(text, figures, items)
        except ValueError:
            return text

    return stale_pages(page, write=True, docs=docs)


def problems(docs: Path = DOCS) -> list[str]:
    """What does not fit, one sentence each; empty if every page is what its data files say."""
    figures, wrong = {}, []
    for path in sorted(docs.glob("figures/*/*.json")):
        try:
            made = read(path)
            figures[made.name] = made
        except FigureError as error:
            wrong.append(str(error))
    marked: list[str] = []
    items = read_items(docs)
    for page in pages(docs):
        text = page.read_text(encoding="utf-8")
        at = names(text, TABLES)
        marked += at
        wrong += [f"{page.name}: {name} belongs on another page" for name in at if not name.startswith(f"{page.stem}/")]
        if page.stem in MADE:
            wrong += [
                f"{page.name}: a typed table, {head}"
                for head in typed_tables(text)
                if not head.startswith(tuple(WORDS))
            ]
        try:
            if with_figures(text, figures, items) != text:
                wrong.append(f"{page.name}: stale; run `make figures`")
        except ValueError as error:
            wrong.append(f"{page.name}: {error}")
    wrong += [f"docs/figures/{name}.json: on no page" for name in sorted(set(figures) - set(marked))]
    return wrong + [f"{name}: on its page twice" for name in sorted(set(marked)) if marked.count(name) > 1]


def differences(old: Figure, new: Figure) -> list[str]:
    """Cells that moved, but for timings; or that the tables have another form."""
    if old.columns != new.columns:
        return [f"{old.name}: other columns, {' | '.join(new.columns)}"]
    if len(old.rows) != len(new.rows):
        return [f"{old.name}: {len(new.rows)} rows instead of {len(old.rows)}"]
    return [
        f"{old.name}, {before[0]}, {column}: {was} -> {now}"
        for before, after in zip(old.rows, new.rows, strict=True)
        for column, was, now in zip(old.columns, before, after, strict=True)
        if was != now and column not in old.timings
    ]


def run(command: str, folder: Path) -> None:
    """Run `python -m MODULE ...` in this process; the figures that it makes are written into a folder.

    Raises FigureError if it is another kind of command, or fails.
    """
    words = shlex.split(command)
    if words[:2] != ["python", "-m"]:
        raise FigureError(f"only `python -m MODULE ...` can be run, not {command}")
    with patch.dict(os.environ, {RECORD: str(folder)}), patch.object(sys, "argv", words[2:]), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that the module may have been imported before
        try:
            runpy.run_module(words[2], run_name="__main__", alter_sys=True)
        except SystemExit as end:
            if end.code:
                raise FigureError(f"{command} failed: {end.code}") from end


def rerun(figures: Sequence[Figure]) -> list[str]:
    """Cells that are others when the commands of these figures are run again; nothing is written."""
    wrong = []
    for command in dict.fromkeys(made.command for made in figures):
        with tempfile.TemporaryDirectory() as folder:
            run(command, Path(folder))
            again = {made.name: made for made in map(read, Path(folder).glob("*/*.json"))}
        for made in figures:
            if made.command == command:
                wrong += differences(made, again[made.name]) if made.name in again else [f"{made.name}: not made"]
    return wrong


def _seeds(seeds: Sequence[int]) -> str:
    if len(seeds) > 1 and all(after == before + 1 for before, after in pairwise(seeds)):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _plain(cell: str) -> str:
    return cell.replace("**", "")


def _processor_seconds() -> float:
    """Of this process and its children that ended."""
    return sum(os.times()[:4])


def _version() -> str:
    """That of the package; of a checkout with changes that no version has yet, with a word on it."""
    changelog = (DOCS.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    return consilium.__version__ + ("+unreleased" if "\n## Unreleased" in changelog else "")


def make(wanted: Sequence[str]) -> None:
    """Run the commands of these figures, or these commands; print which cells moved."""
    before = {made.name: made for made, _ in map(_opened, DOCS.glob("figures/*/*.json"))}
    commands = [item if " " in item else before[item].command for item in wanted]
    for command in dict.fromkeys(commands):
        run(command, DOCS / "figures")
    for name, after in read_all().items():
        moved = differences(before[name], after) if name in before else [f"{name}: new"]
        print("".join(f"{line}\n" for line in moved), end="")


def main(arguments: list[str] | None = None) -> int:
    """Render the pages; or check, run again, or make."""
    parser = argparse.ArgumentParser(prog="python -m docs.figures", description="The measured tables of the pages.")
    parser.add_argument("--check", action="store_true", help="only say what does not fit")
    parser.add_argument("--rerun", nargs="*", metavar="NAME", help="run these, or all quick ones, again and compare")
    parser.add_argument("--make", nargs="+", metavar="NAME", default=[], help="run the commands of these, or a command")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.rerun is not None:
            figures = read_all()
            wrong = rerun([figures[name] for name in chosen.rerun or figures if chosen.rerun or figures[name].quick])
        elif chosen.check:
            wrong = problems()
        else:
            make(chosen.make)
            for path in render(DOCS):
                print(f"written: {path.name}")
            wrong = problems()
    except ValueError as error:
        wrong = [str(error)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

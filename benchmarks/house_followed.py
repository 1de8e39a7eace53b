"""Follows one query, or one row of a table, through the program of the tree in which this is run.

`python benchmarks/house_followed.py commands|csv|clear|secure|verified FOLDER`, started by `benchmarks.house` with the
tree as its working directory. Prints one line of JSON. What it takes hold of has these names since 0.9.0, or
either of two.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = os.getcwd()
SCENARIO = """
description = "One query, four hospitals"
[data]
set = "heart"
public_share = 0.3
least_rows = 5
[federation]
name = "Heart"
votes = "clear"
minimum_parties = 3
teachers_per_party = 1
[federation.teacher]
model = "logistic_regression"
[federation.mechanism]
name = "gnmax"
sigma = 2.0
[federation.privacy]
unit = "party"
delta = 1e-5
[federation.caps]
queries = 1
answers = 1
[student.trainer]
name = "logistic_regression"
[simulation]
noise = "seeded"
"""


class Follower:
    """Calls of the package's own functions, thread by thread, while it is `on`."""

    def __init__(self) -> None:
        self.on = False
        self.calls: dict[int, list[str]] = {}
        threading.setprofile(self._call)
        sys.setprofile(self._call)

    def _call(self, frame: Any, event: str, _: object) -> None:
        if not self.on or event != "call":
            return
        code = frame.f_code
        file = code.co_filename  # a virtual environment may lie within the tree
        ours = file.startswith(ROOT) and "site-packages" not in file and "benchmarks" not in file
        if ours and code.co_name != "<module>":
            self.calls.setdefault(threading.get_ident(), []).append(os.path.realpath(code.co_filename))

    @contextmanager
    def following(self) -> Iterator[None]:
        """Whatever is called inside, in any thread."""
        self.on = True
        try:
            yield
        finally:
            self.on = False

    def seen(self) -> tuple[int, int]:
        """Different files, and how often a call was in another file than the one before it."""
        changes = sum(one != next_ for calls in self.calls.values() for one, next_ in itertools.pairwise(calls))
        return len({path for calls in self.calls.values() for path in calls}), changes


def one_of(*names: str) -> Any:
    """The first module that is there with a `Worker`: it has moved."""
    for name in names:
        with suppress(ImportError):
            if hasattr(module := importlib.import_module(name), "Worker"):
                return module
    raise SystemExit(f"none of {names} has a Worker")


def commands() -> int:
    """Those that are shown."""
    import typer

    def leaves(group: Any) -> int:
        inner = getattr(group, "commands", None)
        if inner is None:
            return not group.hidden
        return 0 if group.hidden else sum(leaves(command) for command in inner.values())

    return leaves(typer.main.get_command(importlib.import_module("consilium.cli").app))


def vote(collection: str, folder: Path) -> tuple[int, int]:
    """One query of the student, with parties in this process."""
    follower = Follower()
    grid: Any = one_of("consilium.simulations.engines.local", "consilium.simulations.engines.local_grid")
    worker = importlib.import_module("consilium.simulations.engines.worker")
    inside = importlib.import_module("consilium.simulations.in_process")

    class InThisProcess:
        def __init__(self, *_: object, **__: object) -> None: ...

        def handle(self, message: Any, context: Any, _: float) -> Any:
            return worker.handle(message, context)

        def kill(self) -> None: ...

        stop = kill

        def prepare(self, *_: object) -> None: ...

        def begin(self, _: object) -> bool:
            return False

    @contextmanager
    def here(*_: object, **__: object) -> Iterator[list[Any]]:
        yield [InThisProcess()]

    grid.Worker = InThisProcess
    options = []
    with suppress(ImportError):  # each party with its home, as there was no other way before there were blocks
        process: Any = importlib.import_module("consilium.simulations.engines.process")
        process.running_workers = here
        options = ["--engine", "homes"]
    ask = inside._Recorded.ask

    def followed(*arguments: Any, **named: Any) -> Any:
        with follower.following():
            return ask(*arguments, **named)

    inside._Recorded.ask = followed
    (folder / "one.toml").write_text(SCENARIO, encoding="utf-8")
    main = importlib.import_module("consilium.cli").main
    with suppress(SystemExit), open(os.devnull, "w") as nowhere:
        sys.stdout = nowhere
        main(
            [
                "run",
                str(folder / "one.toml"),
                "--out",
                str(folder / "out"),
                "--quiet",
                "--set",
                f"federation.votes={collection}",
                *options,
            ]
        )
    sys.stdout = sys.__stdout__
    return follower.seen()


PARTY = """
name = "ward"
data = "rows.csv"
[policy]
allowed_classes = ["no", "yes"]
least_rows_per_teacher = 1
[columns]
age = {column = "Age"}
pressure = {column = "Pressure"}
[label]
column = "Outcome"
"""
FEDERATION = {
    "name": "Two columns",
    "rows": {"features": ["age", "pressure"], "classes": ["no", "yes"], "center": [50, 120], "scale": [10, 15]},
    "caps": {"queries": 1},
    "votes": "distributed",
    "teacher": {"model": "logistic_regression"},
}


def row(folder: Path) -> tuple[int, int] | None:
    """A table of a party, from its file until the teacher that learned from it is there; None where this tree has no
    such functions."""
    import numpy as np

    (folder / "party.toml").write_text(PARTY, encoding="utf-8")
    (folder / "federation.json").write_text(json.dumps(FEDERATION), encoding="utf-8")
    rows = [f"{30 + place},{100 + 2 * place},{'yes' if place % 3 else 'no'}" for place in range(40)]
    (folder / "rows.csv").write_text("\n".join(["Age,Pressure,Outcome", *rows]) + "\n", encoding="utf-8")
    try:
        home: Any = importlib.import_module("consilium.party.home")
        reading: Any = importlib.import_module("consilium.data.private_rows")
        teach: Any = importlib.import_module("consilium.party.teach")
        federation: Any = importlib.import_module("consilium.party.dry_run")
        asked = federation.load_federation(folder / "federation.json")
    except ImportError:
        return None
    follower, party = Follower(), home.open_home(folder)
    with follower.following():
        table = reading.load_rows(party.data_file, asked.rows, party.rules)
        teach.train_all(table, asked.teacher, [np.arange(len(rows))], [0], 2)
    return follower.seen()


if __name__ == "__main__":
    what, folder = sys.argv[1], Path(sys.argv[2])
    if what == "commands":
        print(json.dumps({"commands": str(commands())}))
    elif what == "csv":
        counted = row(folder)
        names = ("a row of a CSV, file to teacher: files entered", "a row of a CSV, file to teacher: changes of file")
        print(json.dumps({} if counted is None else dict(zip(names, map(str, counted), strict=True))))
    else:
        files, changes = vote(what, folder)
        print(
            json.dumps(
                {
                    f"a query, votes {what}: files entered": str(files),
                    f"a query, votes {what}: changes of file": f"{changes:,}",
                }
            )
        )

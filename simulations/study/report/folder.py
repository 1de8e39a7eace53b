"""The folder of a study as the report reads it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from consilium.protocol.errors import DataError, PathError
from consilium.simulations.artifact import Arrays, from_bytes
from consilium.simulations.study.results import FACTS_FILE, MATRICES, RESULTS, read_results
from consilium.simulations.study.row_scores import RowScores

AGAIN = "Run: consilium study"


@dataclass(frozen=True)
class StudyFolder:
    """results: one row for each figure. notes: what study.json says. matrices: files by the id of their case.

    row_scores: None where a version before 0.10 wrote the study.
    """

    results: pl.DataFrame = field(repr=False)
    notes: Mapping[str, Any] = field(repr=False)
    matrices: Mapping[str, Path] = field(repr=False)
    row_scores: RowScores | None = field(repr=False, default=None)

    def arrays(self, case: str) -> Arrays:
        """Matrices of one case; none where the study kept none.

        Raises
        ------
        DataError : the file is damaged.
        """
        path = self.matrices.get(case)
        return from_bytes(path.read_bytes()) if path is not None else {}


def open_folder(folder: Path) -> StudyFolder:
    """
    Raises
    ------
    PathError : a file is missing. DataError : a file is none of a study.
    """
    for name in (RESULTS, FACTS_FILE):
        if not (folder / name).is_file():
            raise PathError(f"{folder} has no {name}, so it is not the folder of a study", AGAIN)
    try:
        notes = json.loads((folder / FACTS_FILE).read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{folder / FACTS_FILE} is no JSON ({type(error).__name__})", AGAIN) from None
    if not isinstance(notes, dict):
        raise DataError(f"{folder / FACTS_FILE} is no object", AGAIN)
    try:
        results = read_results(folder / RESULTS)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{folder / RESULTS} cannot be read ({type(error).__name__})", AGAIN) from None
    matrices = {path.stem: path for path in sorted((folder / MATRICES).glob("*.npz"))}
    return StudyFolder(results, notes, matrices, RowScores.read(folder))


@dataclass(frozen=True)
class StudyNotes:
    """order: of axes their points, as the study's file has them; logarithmic: axes that are.

    cases: id -> (point by axis, seed). failed: what could not be computed, and why. absent: methods that there are none
    of, why, and in how many cells. warnings: in words. sentences: findings in the author's words. made: rows of the
    table that says how it was made. data: attribution of each data set. command: that makes it anew.
    """

    title: str
    description: str
    order: Mapping[str, Sequence[str]]
    logarithmic: frozenset[str]
    cases: Mapping[str, tuple[Mapping[str, str], int]] = field(repr=False)
    failed: Sequence[tuple[str, str]]
    absent: Sequence[tuple[str, str, int]]
    warnings: Sequence[str]
    sentences: Sequence[str]
    made: Sequence[tuple[str, str]]
    data: Sequence[str]
    command: str


def read_notes(notes: Mapping[str, Any], name: str) -> StudyNotes:
    """From study.json; `name`: of the folder, where there is no title."""
    axes = _tables(notes.get("axes"))
    absent = Counter(
        (str(entry.get("method", "")), str(entry.get("why", ""))) for entry in _tables(notes.get("absent"))
    )
    return StudyNotes(
        str(notes.get("title") or notes.get("name") or name),
        str(notes.get("description") or ""),
        {str(axis.get("name")): [str(value) for value in _list(axis.get("values"))] for axis in axes},
        frozenset(str(axis.get("name")) for axis in axes if axis.get("scale") == "log"),
        {case: _case(_mapping(entry)) for case, entry in _mapping(notes.get("cases")).items()},
        [(_place(entry), _why(entry)) for entry in _tables(notes.get("failed"))],
        [(method, why, count) for (method, why), count in absent.items()],
        [str(entry["text"]) for entry in _tables(notes.get("warnings")) if entry.get("text")],
        [str(entry) for entry in _list(notes.get("findings"))],
        list(_made(notes)),
        [str(entry["attribution"]) for entry in _tables(notes.get("data")) if entry.get("attribution")],
        str(notes.get("command") or ""),
    )


def _made(notes: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and text of what there is of it."""
    steps, seconds = _mapping(notes.get("steps")), _mapping(notes.get("seconds"))
    rows = {
        "study": notes.get("spec_digest"),
        "results of": notes.get("created"),
        "cells": notes.get("cells"),
        "steps computed": steps.get("computed"),
        "steps from the cache": steps.get("from_cache"),
        "wall time, seconds": seconds.get("wall"),
        "computing, seconds of one core": seconds.get("computing"),
        "processes": notes.get("workers"),
        "held out at home": notes.get("home_share"),
        "measures": ", ".join(map(str, _list(notes.get("measures")))),
    }
    rows |= {f"rows of {entry.get('set')} (SHA-256)": entry.get("sha256") for entry in _tables(notes.get("data"))}
    rows |= _mapping(notes.get("versions"))
    return [(str(key), f"{value:,}" if isinstance(value, int) else str(value)) for key, value in rows.items() if value]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _tables(value: object) -> list[Mapping[str, Any]]:
    return [entry for entry in _list(value) if isinstance(entry, Mapping)]


def _case(entry: Mapping[str, Any]) -> tuple[Mapping[str, str], int]:
    seed = entry.get("seed")
    axes = {str(axis): str(value) for axis, value in _mapping(entry.get("axes")).items()}
    return axes, seed if isinstance(seed, int) else 0


def _place(entry: Mapping[str, Any]) -> str:
    parts = [f"{axis} = {value}" for axis, value in _mapping(entry.get("axes")).items()]
    return ", ".join([*parts, f"seed {entry.get('seed')}", *([str(entry["method"])] if entry.get("method") else [])])


def _why(entry: Mapping[str, Any]) -> str:
    return ". ".join(str(entry[key]) for key in ("what", "action") if entry.get(key))

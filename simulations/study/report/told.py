"""What study.json says, as the report uses it; what it does not say is left out of the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Told:
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


def read_told(told: Mapping[str, Any], name: str) -> Told:
    """From study.json; `name`: of the folder, where there is no title."""
    axes = _tables(told.get("axes"))
    absent = Counter((str(each.get("method", "")), str(each.get("why", ""))) for each in _tables(told.get("absent")))
    return Told(
        str(told.get("title") or told.get("name") or name),
        str(told.get("description") or ""),
        {str(axis.get("name")): [str(value) for value in _list(axis.get("values"))] for axis in axes},
        frozenset(str(axis.get("name")) for axis in axes if axis.get("scale") == "log"),
        {case: _case(_table(each)) for case, each in _table(told.get("cases")).items()},
        [(_place(each), _why(each)) for each in _tables(told.get("failed"))],
        [(method, why, count) for (method, why), count in absent.items()],
        [str(each["text"]) for each in _tables(told.get("warnings")) if each.get("text")],
        [str(each) for each in _list(told.get("findings"))],
        list(_made(told)),
        [str(each["attribution"]) for each in _tables(told.get("data")) if each.get("attribution")],
        str(told.get("command") or ""),
    )


def _made(told: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and text of what there is of it."""
    steps, seconds = _table(told.get("steps")), _table(told.get("seconds"))
    rows = {
        "study": told.get("spec_digest"),
        "results of": told.get("created"),
        "cells": told.get("cells"),
        "steps computed": steps.get("computed"),
        "steps from the cache": steps.get("from_cache"),
        "wall time, seconds": seconds.get("wall"),
        "computing, seconds of one core": seconds.get("computing"),
        "processes": told.get("workers"),
        "held out at home": told.get("home_share"),
        "measures": ", ".join(map(str, _list(told.get("measures")))),
    }
    rows |= {f"rows of {each.get('set')} (SHA-256)": each.get("sha256") for each in _tables(told.get("data"))}
    rows |= _table(told.get("versions"))
    return [(str(key), f"{value:,}" if isinstance(value, int) else str(value)) for key, value in rows.items() if value]


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _tables(value: object) -> list[Mapping[str, Any]]:
    return [each for each in _list(value) if isinstance(each, Mapping)]


def _case(each: Mapping[str, Any]) -> tuple[Mapping[str, str], int]:
    seed = each.get("seed")
    axes = {str(axis): str(value) for axis, value in _table(each.get("axes")).items()}
    return axes, seed if isinstance(seed, int) else 0


def _place(each: Mapping[str, Any]) -> str:
    parts = [f"{axis} = {value}" for axis, value in _table(each.get("axes")).items()]
    return ", ".join([*parts, f"seed {each.get('seed')}", *([str(each["method"])] if each.get("method") else [])])


def _why(each: Mapping[str, Any]) -> str:
    return ". ".join(str(each[key]) for key in ("what", "action") if each.get(key))

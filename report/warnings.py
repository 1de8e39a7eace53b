"""What a run may warn of, by its code, and which of it may be shown.

`docs/report.md` explains each. Before anything is spent (`before_run`), of the rows of a simulation (`row_warnings`)
and after it (`student_warnings`), functions say from plain numbers what is to be warned of, or nothing; a table of each
of these modules gives it its code, the most important first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar


class WarningCode(StrEnum):
    """What a warning is about, for programs and for the documentation."""

    TEACHERS_FAILED = "teachers-failed"
    LARGE_EPSILON = "large-epsilon"
    LITTLE_INFORMATION = "little-information"
    HALVES_NOT_CLASSES = "halves-not-classes"
    NOTHING_LEARNT = "nothing-learnt"
    NOT_ABOVE_MAJORITY = "not-above-majority"
    ORDER_BY_CHANCE = "order-by-chance"
    MOSTLY_NOISE = "mostly-noise"
    CLASS_NOT_FOUND = "class-not-found"
    NOT_ABOVE_HAND_LABELS = "not-above-hand-labels"
    BELOW_PRIVATE_RIVAL = "below-private-rival"
    BELOW_ONE_PARTY = "below-one-party"
    PARTIES_LEFT_OUT = "parties-left-out"
    PARTIES_TOO_SMALL = "parties-too-small"
    LABEL_AMONG_FEATURES = "label-among-features"
    CLASS_NOT_PUBLIC = "class-not-public"
    FEW_PUBLIC_ROWS = "few-public-rows"
    ROWS_TWICE = "rows-twice"
    ROWS_LEFT_OUT = "rows-left-out"
    SPELLED_TWICE = "spelled-twice"
    BUDGET_ABOVE_ROWS = "budget-above-rows"
    IMAGES_DARK = "images-dark"
    NOT_ANALYSED = "not-analysed"


SECRET = frozenset(
    {
        WarningCode.TEACHERS_FAILED,
        WarningCode.BELOW_PRIVATE_RIVAL,
        WarningCode.BELOW_ONE_PARTY,
        WarningCode.PARTIES_LEFT_OUT,
        WarningCode.NOT_ANALYSED,
        WarningCode.PARTIES_TOO_SMALL,
        WarningCode.ROWS_TWICE,
        WarningCode.ROWS_LEFT_OUT,
        WarningCode.SPELLED_TWICE,
        WarningCode.LITTLE_INFORMATION,
    }
)
"""Computed from private rows, or from how many parties voted, which may follow from these: no guarantee covers them."""


@dataclass(frozen=True)
class RunWarning:
    """text: what, value, limit, what to do; no votes, keys or private rows in it."""

    code: WarningCode
    text: str

    @property
    def public(self) -> bool:
        """Whether it may be shown to anybody."""
        return self.code not in SECRET

    def to_json(self) -> dict[str, str]:
        """As summaries and cards hold it."""
        return {"code": self.code.value, "text": self.text}


def listed(warnings: Iterable[RunWarning]) -> list[dict[str, str]]:
    """All of them as `RunWarning.to_json`."""
    return [warning.to_json() for warning in warnings]


def well_formed(value: object) -> list[dict[str, str]]:
    """Of what somebody's file says, the entries that are warnings as `listed` gives them."""
    entries = value if isinstance(value, list) else []
    return [
        {"code": entry["code"], "text": entry["text"]}
        for entry in entries
        if isinstance(entry, dict) and entry.get("code") in list(WarningCode) and isinstance(entry.get("text"), str)
    ]


def publishable(warnings: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """Those of `listed` that may be shown to anybody."""
    return [warning for warning in warnings if warning["code"] not in SECRET]


Facts = TypeVar("Facts")


def all_of(kinds: Mapping[WarningCode, Callable[[Facts], str | None]], facts: Facts) -> list[RunWarning]:
    """What a table has to say of these facts, in its order."""
    return [RunWarning(code, text) for code, kind in kinds.items() if (text := kind(facts))]

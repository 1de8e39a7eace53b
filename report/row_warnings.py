"""What a simulation warns of in the rows that it is made of, from counts and public statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from consilium.report.warnings import RunWarning, WarningCode, all_of

LEAST_PUBLIC = 50
"""Rows: of 50, an accuracy of 0.8 is known to 0.11 (95 %, normal approximation)."""
TWICE = 0.01
"""Of the private rows that another party, or the public, has too. A few equal rows are chance where columns are few."""
DARK = 0.25
"""Of white. Public images without a brighter pixel hold 14 bits at most where they are files of 16."""
_SHOWN = 5


@dataclass(frozen=True)
class RowFacts:
    """What is seen of the rows of a simulation.

    public: public rows by class, asked and held out together. askable, test: how many these are. queries: most that the
    query budget allows. different: rows that can be asked, equal ones once. leaks: columns that say the label of each
    of them. twice: share of the private rows that stands at two parties, or is public too. parties: that the division
    made; too_small: of them, those with fewer than `least_rows` rows, which take no part.
    left_out: rows by why they are in no party. anew: what to do where owners number patients anew, or nothing.
    spelled: names of owners and classes -> others that they nearly equal. brightest: of images of one's own, the
    largest number of all public ones, of 0 for black to 1 for white.
    """

    public: Mapping[str, int]
    askable: int
    test: int
    queries: int
    different: int
    leaks: tuple[str, ...] = ()
    twice: float = 0.0
    parties: int = 0
    too_small: int = 0
    least_rows: int = 1
    left_out: Mapping[str, int] = field(default_factory=dict)
    anew: str = ""
    spelled: Mapping[str, str] = field(default_factory=dict)
    brightest: float = 1.0


def _left_out(rows: RowFacts) -> str | None:
    if counts := {why: count for why, count in rows.left_out.items() if count}:
        each = ", ".join(f"{count} {why}" for why, count in counts.items())
        anew = f". {rows.anew}" if rows.anew else ""
        return f"{sum(counts.values())} rows are left out: {each}. All results are about the others{anew}"


def _spelled(rows: RowFacts) -> str | None:
    if rows.spelled:
        pairs = ", ".join(f"{name!r} and {first!r}" for name, first in list(rows.spelled.items())[:_SHOWN])
        return (
            f"{pairs} differ in case, blanks, invisible signs or zeros alone, and are taken for two: an owner then"
            " votes twice. If they are one, write them in one way, or say so under values of data.cells"
        )


def _leaks(rows: RowFacts) -> str | None:
    if rows.leaks:
        return (
            f"{_columns(rows.leaks)} says the label of every public row: what is measured is reading, not predicting."
            " Leave it out (data.drop), unless it is known before the outcome"
        )


def _classes(rows: RowFacts) -> str | None:
    if absent := [name for name, count in rows.public.items() if not count]:
        return (
            f"no public row is {', '.join(map(repr, absent[:_SHOWN]))}, of {rows.askable + rows.test}: the student is"
            " neither taught nor tested on it. Make more rows public, or leave the class out"
        )


def _few(rows: RowFacts) -> str | None:
    if min(rows.askable, rows.test) < LEAST_PUBLIC:
        return (
            f"{rows.askable} public rows can be asked and {rows.test} are the test set, below {LEAST_PUBLIC}: means"
            " and every figure of quality are uncertain. Make more rows public (data.public)"
        )


def budget_above_rows(queries: int, different: int) -> str | None:
    """What to say where the query budget allows more queries than there are different rows to ask: noise is for the
    query budget."""
    if queries > different:
        return (
            f"the query budget allows {queries} queries, and {different} different public rows can be asked: the"
            f" noise is for {queries}, and a part of the promised epsilon stays unused. Set query_budget.queries to"
            f" {different}"
            " or fewer (and the noise anew), or make more rows public"
        )


def _twice(rows: RowFacts) -> str | None:
    if rows.twice > TWICE:
        return (
            f"{rows.twice:.1%} of the private rows stand at a second party, or among public rows, above {TWICE:.0%}:"
            " of such a patient the guarantee covers one copy. Remove copies, or name the patients (data.patient)"
        )


def parties_too_small(parties: int, too_small: int, least_rows: int) -> str | None:
    """Of a division that made so many parties, some of which have fewer than `least_rows` rows and take no part.

    >>> str(parties_too_small(41, 21, 20)).split(":")[0]
    'the division made 41 parties, and 20 of them take part'
    """
    if not too_small:
        return None
    are, part = "1 has" if too_small == 1 else f"{too_small:,} have", f"{parties - too_small:,}"
    return (
        f"the division made {parties:,} parties, and {part} of them take part: {are} fewer than"
        f" data.least_rows = {least_rows}. All results are about those that take part. Lower data.least_rows (1 lets"
        f" every party in), or say beside every result that {part} of {parties:,} parties took part"
    )


def _dark(rows: RowFacts) -> str | None:
    """Of public images alone: no private one may say by what all are scaled, and no owner may scale by its own."""
    if 0 < rows.brightest < DARK:
        return (
            f"no pixel of the {rows.askable + rows.test} public images is above {rows.brightest:.3f} of white, below"
            f" {DARK:g}. Files of 16 bits are taken to use all of them: where they hold 12, up to 4,095, export them"
            " anew with each pixel times 16, of all owners alike"
        )


def _columns(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"column {', '.join(map(repr, names[:_SHOWN]))}{more}"


_ROWS: Mapping[WarningCode, Callable[[RowFacts], str | None]] = {
    WarningCode.ROWS_LEFT_OUT: _left_out,
    WarningCode.SPELLED_TWICE: _spelled,
    WarningCode.LABEL_AMONG_FEATURES: _leaks,
    WarningCode.CLASS_NOT_PUBLIC: _classes,
    WarningCode.FEW_PUBLIC_ROWS: _few,
    WarningCode.BUDGET_ABOVE_ROWS: lambda rows: budget_above_rows(rows.queries, rows.different),
    WarningCode.IMAGES_DARK: _dark,
    WarningCode.ROWS_TWICE: _twice,
    WarningCode.PARTIES_TOO_SMALL: lambda rows: parties_too_small(rows.parties, rows.too_small, rows.least_rows),
}


def of_rows(rows: RowFacts) -> list[RunWarning]:
    """All that there is to warn of in the rows of a simulation, the most important first."""
    return all_of(_ROWS, rows)

"""Warnings of the rows that a study is made of, from counts and public statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from consilium.protocol.warnings.kinds import RunWarning, WarningCode

LEAST_PUBLIC = 50
"""Rows: of 50, an accuracy of 0.8 is known to 0.11 (95 %, normal approximation)."""

MOST_SPREAD = 10.0
SPREADS = 100.0
"""Features as they are: the widest has a deviation above the first, and above the smallest times the second. Pixels and
shares from 0 to 1 never have."""

LARGEST_SHARE = 0.5
"""Of all private rows at one party: its vote is one of many, and most of what there is to learn is behind it."""

TWICE = 0.01
"""Of the private rows that another party, or the public, has too. A few equal rows are chance where columns are few."""

_SHOWN = 5


@dataclass(frozen=True)
class Looked:
    """What is seen of the rows of a simulation.

    public: public rows by class, asked and held out together. asked, test: how many these are. queries: most that the
    caps allow. different: rows that can be asked, equal ones once. spreads: deviation of
    each feature over the public rows, where models see them unscaled; else empty. constant: columns with one value in
    all public rows. identifiers: whose whole numbers differ in all of them. leaks: that say the label of each of them.
    largest: share of the private rows that one party has. twice: share that stands at two parties, or is public too.
    made: parties that the division made; too_small: of them, those with fewer than `least_rows` rows, which take no
    part.
    """

    public: Mapping[str, int]
    asked: int
    test: int
    queries: int
    different: int
    spreads: Mapping[str, float] = field(default_factory=dict)
    constant: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()
    largest: float = 0.0
    twice: float = 0.0
    made: int = 0
    too_small: int = 0
    least_rows: int = 1


def of_rows(looked: Looked) -> list[RunWarning]:
    """All that there is to warn of, the most important first."""
    kinds = (_leaks, _spreads, _classes, _few, _caps, _identifiers, _constant, _twice, _largest, _too_small)
    return [warning for kind in kinds for warning in kind(looked)]


def _leaks(looked: Looked) -> Iterator[RunWarning]:
    if looked.leaks:
        yield RunWarning(
            WarningCode.LABEL_AMONG_FEATURES,
            f"{_columns(looked.leaks)} says the label of every public row: what is measured is reading, not predicting."
            " Leave it out (data.drop), unless it is known before the outcome",
        )


def _spreads(looked: Looked) -> Iterator[RunWarning]:
    varying = {name: spread for name, spread in looked.spreads.items() if spread > 0}
    if not varying:
        return
    widest, narrowest = max(varying, key=varying.__getitem__), min(varying, key=varying.__getitem__)
    if varying[widest] > max(MOST_SPREAD, SPREADS * varying[narrowest]):
        yield RunWarning(
            WarningCode.FEATURES_UNSCALED,
            f"features are not standardised, and deviate by {varying[widest]:.3g} ({widest}) and by"
            f" {varying[narrowest]:.3g} ({narrowest}), above {SPREADS:g} times as much: most models then learn from the"
            " widest alone. Set data.standardise = true",
        )


def _classes(looked: Looked) -> Iterator[RunWarning]:
    if absent := [name for name, rows in looked.public.items() if not rows]:
        yield RunWarning(
            WarningCode.CLASS_NOT_PUBLIC,
            f"no public row is {', '.join(map(repr, absent[:_SHOWN]))}, of {looked.asked + looked.test}: the student is"
            " neither taught nor tested on it. Make more rows public, or leave the class out",
        )


def _few(looked: Looked) -> Iterator[RunWarning]:
    if min(looked.asked, looked.test) < LEAST_PUBLIC:
        yield RunWarning(
            WarningCode.FEW_PUBLIC_ROWS,
            f"{looked.asked} public rows can be asked and {looked.test} are the test set, below {LEAST_PUBLIC}: means"
            " and every figure of quality are uncertain. Make more rows public (data.public)",
        )


def caps_above_rows(queries: int, different: int) -> Iterator[RunWarning]:
    """Where the caps allow more queries than there are different rows to ask: noise is for the caps."""
    if queries > different:
        yield RunWarning(
            WarningCode.CAPS_ABOVE_ROWS,
            f"the caps allow {queries} queries, and {different} different public rows can be asked: the noise is for"
            f" {queries}, and a part of the promised epsilon stays unused. Set caps.queries to {different} or fewer"
            " (and the noise anew), or make more rows public",
        )


def _caps(looked: Looked) -> Iterator[RunWarning]:
    return caps_above_rows(looked.queries, looked.different)


def _identifiers(looked: Looked) -> Iterator[RunWarning]:
    if looked.identifiers:
        yield RunWarning(
            WarningCode.IDENTIFIER_AS_FEATURE,
            f"{_columns(looked.identifiers)} has another whole number in every public row, as an identifier has: models"
            " learn noise from it. Leave it out (data.drop), or name it as data.patient",
        )


def _constant(looked: Looked) -> Iterator[RunWarning]:
    if looked.constant:
        yield RunWarning(
            WarningCode.CONSTANT_COLUMN,
            f"{_columns(looked.constant)} has one value in all public rows: a student learns nothing from it. Leave it"
            " out (data.drop), or make other rows public",
        )


def _twice(looked: Looked) -> Iterator[RunWarning]:
    if looked.twice > TWICE:
        yield RunWarning(
            WarningCode.ROWS_TWICE,
            f"{looked.twice:.1%} of the private rows stand at a second party, or among public rows, above {TWICE:.0%}:"
            " of such a patient the guarantee covers one copy. Remove copies, or name the patients (data.patient)",
        )


def _largest(looked: Looked) -> Iterator[RunWarning]:
    if looked.largest > LARGEST_SHARE:
        yield RunWarning(
            WarningCode.ONE_LARGE_PARTY,
            f"one party has {looked.largest:.0%} of the private rows, above {LARGEST_SHARE:.0%}, and one vote as the"
            " others have. Give it more teachers (federation.teachers_per_party), or divide it by its own sites",
        )


def _too_small(looked: Looked) -> Iterator[RunWarning]:
    if looked.too_small:
        yield parties_too_small(looked.made, looked.too_small, looked.least_rows)


def parties_too_small(made: int, too_small: int, least_rows: int) -> RunWarning:
    """Of a division that made so many parties, some of which have fewer than `least_rows` rows and take no part.

    >>> parties_too_small(41, 21, 20).text.split(":")[0]
    'the division made 41 parties, and 20 of them take part'
    """
    are = "1 has" if too_small == 1 else f"{too_small:,} have"
    return RunWarning(
        WarningCode.PARTIES_TOO_SMALL,
        f"the division made {made:,} parties, and {made - too_small:,} of them take part: {are} fewer than"
        f" data.least_rows = {least_rows}. Whatever is said holds for the others. Lower data.least_rows (1 lets every"
        " party in), or name both numbers",
    )


def _columns(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"column {', '.join(map(repr, names[:_SHOWN]))}{more}"

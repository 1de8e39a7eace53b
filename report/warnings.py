"""What a run warns of: before anything is spent, of its rows, and after it, from plain numbers. One table of each kind.

`docs/warnings.md` explains each. A function says what is to be warned of, or nothing; the tables give it its code, the
most important first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeVar

import numpy as np

from consilium.report.disclosure import epsilon_text, times_as_likely


class WarningCode(StrEnum):
    """What a warning is about, for programs and for the documentation."""

    LARGE_EPSILON = "large-epsilon"
    NOISE_ABOVE_UNANIMITY = "noise-above-unanimity"
    NOISE_ABOVE_TYPICAL_VOTE = "noise-above-typical-vote"
    LITTLE_INFORMATION = "little-information"
    FEW_ANSWERS = "few-answers"
    HALVES_NOT_CLASSES = "halves-not-classes"
    NOTHING_LEARNT = "nothing-learnt"
    NOT_ABOVE_MAJORITY = "not-above-majority"
    ORDER_BY_CHANCE = "order-by-chance"
    MOSTLY_NOISE = "mostly-noise"
    CLASS_NOT_FOUND = "class-not-found"
    NOT_ABOVE_HAND_LABELS = "not-above-hand-labels"
    BELOW_PRIVATE_RIVAL = "below-private-rival"
    BELOW_MEAN_TEACHER = "below-mean-teacher"
    PARTIES_LEFT_OUT = "parties-left-out"
    PARTIES_TOO_SMALL = "parties-too-small"
    MANY_PAIRED = "many-paired"
    LABEL_AMONG_FEATURES = "label-among-features"
    FEATURES_UNSCALED = "features-unscaled"
    CLASS_NOT_PUBLIC = "class-not-public"
    FEW_PUBLIC_ROWS = "few-public-rows"
    IDENTIFIER_AS_FEATURE = "identifier-as-feature"
    CONSTANT_COLUMN = "constant-column"
    ROWS_TWICE = "rows-twice"
    ONE_LARGE_PARTY = "one-large-party"
    BUDGET_ABOVE_ROWS = "budget-above-rows"
    TUNED_ON_OWN_VOTES = "tuned-on-own-votes"
    NOT_ANALYSED = "not-analysed"


SECRET = frozenset(
    {
        WarningCode.BELOW_PRIVATE_RIVAL,
        WarningCode.BELOW_MEAN_TEACHER,
        WarningCode.PARTIES_LEFT_OUT,
        WarningCode.NOT_ANALYSED,
        WarningCode.PARTIES_TOO_SMALL,
        WarningCode.ROWS_TWICE,
        WarningCode.ONE_LARGE_PARTY,
        WarningCode.NOISE_ABOVE_UNANIMITY,
        WarningCode.NOISE_ABOVE_TYPICAL_VOTE,
        WarningCode.LITTLE_INFORMATION,
        WarningCode.MANY_PAIRED,
    }
)
"""Computed from private rows, or from how many parties voted, which may follow from these: no guarantee covers them."""


SINCE_0_9 = frozenset(
    {
        WarningCode.BELOW_PRIVATE_RIVAL,
        WarningCode.BUDGET_ABOVE_ROWS,
        WarningCode.PARTIES_TOO_SMALL,
        WarningCode.TUNED_ON_OWN_VOTES,
        WarningCode.NOT_ANALYSED,
    }
)
"""Kinds that runs of version 0.9 and earlier do not have."""


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


# Before anything is spent, from numbers that are fixed and public by then.

MOST_EPSILON = 5.0
"""Above it, an outcome may be e^5 = 148 times as likely with somebody's data as without: a promise of little."""

TYPICAL_GAP = 0.4
"""Difference of the first two classes' shares of the votes in a query of middling difficulty: 70 % against 30 %. The
median of the default scenario's queries is 0.46."""

EFFECTIVE_PARAMETERS = 10
"""Directions that a regularised student still learns under noise: a lower bound, so that the warning is no false alarm
for any but the simplest tasks."""

LEAST_ANSWERS = 10
"""For each class, in the mean: with fewer, a class may well get no label at all."""

MANY_PAIRED = 300
"""Parties of a secure sum: each masks its votes with every other, so that all work grows with the square of them."""


@dataclass(frozen=True)
class Expected:
    """What is known of a federation before it runs, all of it public.

    epsilon, delta, unit: promised, with the whole query budget used up. classes: to vote for. answers: most that are
    released. votes: for each query, of all parties together. noise: standard deviation on one count that a label or a
    histogram is read from, in votes; None where it is not known, or the winner is released exactly or not at all.
    asks_typical: whether the student asks about few rows that stand for many (`selection = "typical"`); None where each
    student chooses for itself, and whoever warns does not know. It has no default: a default would advise what is
    already done. histogram: whether noisy counts are released, not labels alone. undeclared: whether teachers vote
    relative to their own scores, and nobody says how frequent the classes are. paired: parties whose votes are masked
    in pairs; 0 where none are. uncharged: keys whose values were chosen by other runs on these parties' votes.
    epsilon_nodes: promised towards whoever adds votes up, where these see noisy sums; 0 elsewhere.
    """

    epsilon: float
    delta: float
    unit: str
    classes: int
    answers: int
    votes: int
    asks_typical: bool | None
    noise: float | None = None
    histogram: bool = False
    undeclared: bool = False
    paired: int = 0
    uncharged: tuple[str, ...] = ()
    epsilon_nodes: float = 0.0


def _epsilon(expected: Expected) -> str | None:
    epsilon = max(expected.epsilon, expected.epsilon_nodes)
    if epsilon > MOST_EPSILON:
        bounded = math.isfinite(epsilon)
        value = epsilon_text(epsilon) if bounded else "without bound"
        whom = " towards the nodes that add votes up" if epsilon > expected.epsilon else ""
        likelier = f"an outcome may be {times_as_likely(epsilon)} as likely with it as without"
        why = f"{likelier}, which protects little" if bounded else "this is not private"
        return (
            f"epsilon{whom} is {value} at delta {expected.delta:g} for each {expected.unit}, above {MOST_EPSILON:g}:"
            f" {why}. Ask fewer queries, add noise, or find more parties"
        )


def _choice(expected: Expected) -> str | None:
    if expected.uncharged:
        return (
            f"{', '.join(expected.uncharged)}: chosen in view of runs on these parties' own votes, and epsilon charges"
            " one run. State how many there were in federation.privacy.candidates"
        )


def _noise_above(expected: Expected, unanimous: bool) -> str | None:
    """Of labels, above all votes or else above a typical gap; of histograms a student averages the noise over queries,
    so that what counts is `_information`."""
    if expected.noise is None or expected.histogram or not expected.votes:
        return None
    between = math.sqrt(2) * expected.noise
    typical = TYPICAL_GAP * expected.votes
    if between <= typical or unanimous != (between > expected.votes):
        return None
    gap = expected.votes if unanimous else typical
    vote = f"all {expected.votes} votes" if unanimous else f"a typical gap of {typical:.3g} of {expected.votes} votes"
    right = label_right(gap / expected.noise, expected.classes)
    return (
        f"noise of {between:.3g} between two counts is above {vote}: such a label is the winner's with probability"
        f" {right:.2f} (by chance {1 / expected.classes:.2f}). Find more parties, ask fewer queries, or release"
        " histograms (mechanism histogram)"
    )


def _information(expected: Expected) -> str | None:
    """Only where the noise of one answer is above all votes: below, an easy task on which all agree can be learnt from
    few answers, each of which is right by itself."""
    if expected.noise is None or not expected.votes or not expected.answers:
        return None
    if math.sqrt(2) * expected.noise <= expected.votes:
        return None
    error = share_error(expected)
    if error > TYPICAL_GAP:
        releases = "histograms" if expected.histogram else "labels"
        typical = f"above the typical gap of {TYPICAL_GAP:g}: expect little"
        beyond = "larger than any vote: expect nothing" if error > 1 else typical
        return (
            f"from {expected.answers} noisy {releases} of {expected.votes} votes a student of {EFFECTIVE_PARAMETERS}"
            f" effective parameters knows a difference of two vote shares to {error:.2f} at best, {beyond}."
            " Find more parties (or, for records and patients, more teachers in each), or take a larger epsilon"
        )


def _answers(expected: Expected) -> str | None:
    for_each = expected.answers / expected.classes
    if for_each < LEAST_ANSWERS and not expected.asks_typical:
        who = "have it" if expected.asks_typical is False else "have each student"
        return (
            f"at most {expected.answers} answers for {expected.classes} classes are {for_each:.3g} for each, below"
            f" {LEAST_ANSWERS}: a student learns little from so few that are drawn at random. Raise"
            " query_budget.answers, or"
            f' {who} ask about typical rows (selection = "typical")'
        )


def _halves(expected: Expected) -> str | None:
    if expected.undeclared:
        return (
            "teachers vote relative to their own scores, and no class shares are declared: a vote says which cases are"
            " likelier than others, so the student's order means something and its classes do not. Declare"
            " federation.voting_rule.shares, or look at the AUC alone"
        )


def _pairs(expected: Expected) -> str | None:
    if expected.paired > MANY_PAIRED:
        pairs, times = expected.paired * (expected.paired - 1) // 2, (expected.paired / MANY_PAIRED) ** 2
        return (
            f"{expected.paired} parties mask their votes in {pairs} pairs, above {MANY_PAIRED} parties: the"
            f" coordinator's work is {times:.2g} times that of {MANY_PAIRED}, and grows with the square of the parties."
            ' Use collection = "verified", whose work grows with the parties alone'
        )


def share_error(expected: Expected) -> float:
    """Standard deviation of a predicted difference of two vote shares, at best.

    Least squares on n noisy histograms: sqrt(2 d sigma^2 / n) / votes for d effective parameters. Labels alone hold
    less, see `label_information`.
    """
    noise = 0.0 if expected.noise is None else expected.noise
    information = 1.0 if expected.histogram else label_information(expected.classes)
    return math.sqrt(2 * EFFECTIVE_PARAMETERS * noise**2 / (information * expected.answers)) / expected.votes


def label_right(gap: float, classes: int) -> float:
    """Probability that the winner by `gap`, in standard deviations of one count's noise, stays the winner among
    `classes`, the others being equal.

    >>> round(label_right(0.0, 4), 3), round(label_right(2.0, 2), 3)
    (0.25, 0.921)
    """
    points, density = _grid()
    return float(np.sum(density * _cumulative(points + gap) ** (classes - 1)))


def label_information(classes: int) -> float:
    """Share of a noisy histogram's Fisher information that its argmax keeps, where noise is far above the gaps.

    m^2 K / (K - 1)^2, m the mean of the largest of K standard normal numbers; 2 / pi for two classes.

    >>> round(label_information(2), 4), round(label_information(10), 3)
    (0.6366, 0.292)
    """
    points, density = _grid()
    largest = float(np.sum(classes * points * density * _cumulative(points) ** (classes - 1)))
    return largest**2 * classes / (classes - 1) ** 2


def _grid() -> tuple[np.ndarray, np.ndarray]:
    """Points, and the standard normal probability around each."""
    points = np.linspace(-9.0, 9.0, 3601)
    density = np.exp(-(points**2) / 2)
    return points, density / density.sum()


def _cumulative(points: np.ndarray) -> np.ndarray:
    return np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in points.tolist()])


# Of the rows that a study is made of, from counts and public statistics.

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
class RowFacts:
    """What is seen of the rows of a simulation.

    public: public rows by class, asked and held out together. askable, test: how many these are. queries: most that the
    query budget allows. different: rows that can be asked, equal ones once. spreads: deviation of
    each feature over the public rows, where models see them unscaled; else empty. constant: columns with one value in
    all public rows. identifiers: whose whole numbers differ in all of them. leaks: that say the label of each of them.
    largest: share of the private rows that one party has. twice: share that stands at two parties, or is public too.
    parties: that the division made; too_small: of them, those with fewer than `least_rows` rows, which take no
    part.
    """

    public: Mapping[str, int]
    askable: int
    test: int
    queries: int
    different: int
    spreads: Mapping[str, float] = field(default_factory=dict)
    constant: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()
    largest: float = 0.0
    twice: float = 0.0
    parties: int = 0
    too_small: int = 0
    least_rows: int = 1


def _leaks(rows: RowFacts) -> str | None:
    if rows.leaks:
        return (
            f"{_columns(rows.leaks)} says the label of every public row: what is measured is reading, not predicting."
            " Leave it out (data.drop), unless it is known before the outcome"
        )


def _spreads(rows: RowFacts) -> str | None:
    varying = {name: spread for name, spread in rows.spreads.items() if spread > 0}
    if not varying:
        return None
    widest, narrowest = max(varying, key=varying.__getitem__), min(varying, key=varying.__getitem__)
    if varying[widest] > max(MOST_SPREAD, SPREADS * varying[narrowest]):
        return (
            f"features are not standardised, and deviate by {varying[widest]:.3g} ({widest}) and by"
            f" {varying[narrowest]:.3g} ({narrowest}), above {SPREADS:g} times as much: most models then learn from the"
            " widest alone. Set data.standardise = true"
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


def _identifiers(rows: RowFacts) -> str | None:
    if rows.identifiers:
        return (
            f"{_columns(rows.identifiers)} has another whole number in every public row, as an identifier has: models"
            " learn noise from it. Leave it out (data.drop), or name it as data.patient"
        )


def _constant(rows: RowFacts) -> str | None:
    if rows.constant:
        return (
            f"{_columns(rows.constant)} has one value in all public rows: a student learns nothing from it. Leave it"
            " out (data.drop), or make other rows public"
        )


def _twice(rows: RowFacts) -> str | None:
    if rows.twice > TWICE:
        return (
            f"{rows.twice:.1%} of the private rows stand at a second party, or among public rows, above {TWICE:.0%}:"
            " of such a patient the guarantee covers one copy. Remove copies, or name the patients (data.patient)"
        )


def _largest(rows: RowFacts) -> str | None:
    if rows.largest > LARGEST_SHARE:
        return (
            f"one party has {rows.largest:.0%} of the private rows, above {LARGEST_SHARE:.0%}, and one vote as the"
            " others have. Give it more teachers (federation.teachers_per_party), or divide it by its own sites"
        )


def parties_too_small(parties: int, too_small: int, least_rows: int) -> str | None:
    """Of a division that made so many parties, some of which have fewer than `least_rows` rows and take no part.

    >>> str(parties_too_small(41, 21, 20)).split(":")[0]
    'the division made 41 parties, and 20 of them take part'
    """
    if not too_small:
        return None
    are = "1 has" if too_small == 1 else f"{too_small:,} have"
    return (
        f"the division made {parties:,} parties, and {parties - too_small:,} of them take part: {are} fewer than"
        f" data.least_rows = {least_rows}. Whatever is said holds for the others. Lower data.least_rows (1 lets every"
        " party in), or name both numbers"
    )


def _columns(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"column {', '.join(map(repr, names[:_SHOWN]))}{more}"


# After a run, from how its student did on labelled public rows, and what it could have been instead.

LEAST_RECALL = 0.05
"""Below it a class is practically never found."""

LEAST_RANK_CORRELATION = 0.5
"""Of two students of the same votes with other noise: below it, the order is noise to a half and more."""

MOST_NAMED = 5
"""Classes that are named, those that are found least: of 150 there may be dozens."""

LEAST_ROWS = 20
"""Test rows of a class from which on so low a recall is hardly chance: one of 0.2 finds none of 20 in 1 % of cases."""

Metric = Literal["auc", "accuracy"]


@dataclass(frozen=True)
class HandLabelled:
    """What the same number of public rows reach that are labelled by hand. labels: how many; reached: their metric.
    label_cost: what one label takes, as the scenario states it; empty where nobody does."""

    labels: int
    metric: Metric
    reached: float
    label_cost: str = ""


@dataclass(frozen=True)
class PrivateRival:
    """The best of the private rivals of a simulation, at the guarantee of the student. above: by how much it is better
    than the student; low, high: the interval of that."""

    name: str
    metric: Metric
    reached: float
    above: float
    low: float
    high: float


@dataclass(frozen=True)
class InPlace:
    """What a federation and its student have already, and need not be advised; None: whoever warns does not know.

    histogram: noisy counts are released. relative: teachers vote relative to their own scores. prevalence: the
    student knows the classes' shares, and has an operating point.
    """

    histogram: bool | None
    relative: bool | None
    prevalence: bool | None


OPERATING_POINT = "choose an operating point ([student] prevalence)"
RELATIVE = "have teachers vote relative to their own scores"
MORE = "find more parties"
WITHOUT = "do without"


def _sentence(*ways: tuple[str, bool | None]) -> str:
    """What to do, without a full stop: those ways that are not in place, one of which never is.

    >>> _sentence(("ask more", False), (RELATIVE, True), (WITHOUT, False))
    'Ask more, or do without'
    >>> _sentence((RELATIVE, None), (WITHOUT, False))
    'Have teachers vote relative to their own scores, if they do not yet, or do without'
    """
    left = [way if known is False else f"{way}, if they do not yet" for way, known in ways if known is not True]
    *others, last = left
    sentence = ", ".join([*others, f"or {last}"]) if others else last
    return sentence[0].upper() + sentence[1:]


@dataclass(frozen=True)
class StudentFacts:
    """A finished student.

    in_place: what need not be advised. answered: labels that it got. constant: whether it says the same of every row.
    metrics: `accuracy`, `auc` and `recall_per_class` on test rows, None where there are none. rows: test rows of each
    class.
    mean_teacher: the same metrics of a party by itself, where a simulation knows them. hand_labels, rival: see there.
    left_out: parties that took no part because of what their data hold. absent: parties that were left out of a stage
    for another reason, and why. not_analysed: parts of a simulation's analysis
    that there was no time for. noise_spread: see `student.learn.spread_over_noise`; empty of students before 0.10.
    """

    in_place: InPlace
    answered: int
    constant: bool
    metrics: Mapping[str, Any] | None
    rows: Mapping[str, int] = field(default_factory=dict)
    mean_teacher: Mapping[str, Any] = field(default_factory=dict)
    hand_labels: HandLabelled | None = None
    rival: PrivateRival | None = None
    left_out: int = 0
    absent: Mapping[str, str] = field(default_factory=dict)
    not_analysed: tuple[str, ...] = ()
    noise_spread: Mapping[str, Any] = field(default_factory=dict)


def _learnt(student: StudentFacts) -> str | None:
    if student.constant:
        return (
            f"the student says the same of every row: its {student.answered} answers have fewer than two classes. "
            + _sentence(
                ("ask more queries", False),
                ("lower the mechanism's threshold, if it has one", student.in_place.histogram),
                (RELATIVE, student.in_place.relative),
            )
        )


def _majority(student: StudentFacts) -> str | None:
    accuracy, total = _value(student.metrics, "accuracy"), sum(student.rows.values())
    if accuracy is None or not total:
        return None
    name = max(student.rows, key=lambda label: student.rows[label])
    share = student.rows[name] / total
    ordered = _value(student.metrics, "auc") is not None
    if accuracy <= share:
        return (
            f"the student's accuracy {accuracy:.3f} is not above {share:.3f}, that of always saying {name!r}. "
            + ("Its order may still be of use: look at the AUC. " if ordered else "")
            + _sentence((OPERATING_POINT, student.in_place.prevalence), (MORE, False))
        )


def _order(student: StudentFacts) -> str | None:
    auc = _value(student.metrics, "auc")
    if auc is None or len(student.rows) != 2 or not all(student.rows.values()):
        return None
    deviation = chance_deviation(*student.rows.values())
    if auc <= 0.5 + deviation:
        return (
            f"the student's AUC {auc:.3f} is not above 0.5 by more than one standard deviation of chance,"
            f" {deviation:.3f}: it orders cases by lot. Do not use it; find more parties or a larger epsilon"
        )


def _noise(student: StudentFacts) -> str | None:
    """Of a student that says the same of every row, `_learnt` says enough."""
    spread = student.noise_spread
    if student.constant or "rank_correlation" not in spread:
        return None
    auc, reached, alike = spread["metrics"].get("auc"), _value(student.metrics, "auc"), spread["rank_correlation"]
    if auc is not None and reached is not None and reached > 0.5 >= auc["interval"][0]:
        low, high = auc["interval"]
        text = (
            f"other noise of the same scale would move the student's AUC {reached:.3f} by a standard deviation of"
            f" {auc['sd']:.3f}: the 95 % interval over the noise, {low:.3f} to {high:.3f}, holds 0.5, which is chance"
        )
    elif alike < LEAST_RANK_CORRELATION:
        text = (
            "two students of the same votes with other noise would order the public rows with a rank correlation of"
            f" {alike:.2f}, below {LEAST_RANK_CORRELATION:g}: the order is mostly noise"
        )
    else:
        return None
    return f"{text}. {_sentence((MORE, False), ('take a larger epsilon', False), (WITHOUT, False))}"


def _hand_labels(student: StudentFacts) -> str | None:
    other = student.hand_labels
    reached = None if other is None else _value(student.metrics, other.metric)
    if other is not None and reached is not None and reached <= other.reached:
        return (
            f"the student's {_WORDS[other.metric]} {reached:.3f} is not above {other.reached:.3f}, which {other.labels}"
            f" public rows labelled by hand give: as many as were released. {_instead(other)}"
        )


def _instead(other: HandLabelled) -> str:
    if not other.label_cost:
        return "If labels can be had by hand, label public rows instead"
    return f"One such label takes {other.label_cost}: where that can be had, label public rows instead"


def _rival(student: StudentFacts) -> str | None:
    rival = student.rival
    reached = None if rival is None else _value(student.metrics, rival.metric)
    if rival is not None and reached is not None and rival.low > 0:
        return (
            f"the student's {_WORDS[rival.metric]} {reached:.3f} is below {rival.reached:.3f}, which {rival.name}"
            f" reaches at the same guarantee (by {rival.above:.3f}, {rival.low:.3f} to {rival.high:.3f}). "
            + _sentence(
                ("use that where a linear model will do (a study compares it; no command publishes one)", False),
                ("release histograms", student.in_place.histogram),
                (RELATIVE, student.in_place.relative),
            )
        )


def _teacher(student: StudentFacts) -> str | None:
    metric: Metric = "auc" if len(student.rows) == 2 and _value(student.metrics, "auc") is not None else "accuracy"
    reached, alone = _value(student.metrics, metric), _value(student.mean_teacher, metric)
    if reached is not None and alone is not None and reached < alone:
        return (
            f"the student's {_WORDS[metric]} {reached:.3f} is below {alone:.3f}, what a party reaches by itself in the"
            " mean: a party gains nothing by taking part. "
            + _sentence(
                ("release histograms", student.in_place.histogram), ("ask more queries", False), (WITHOUT, False)
            )
        )


def _recall(student: StudentFacts) -> str | None:
    missed = {
        name: recall
        for name, recall in (student.metrics or {}).get("recall_per_class", {}).items()
        if recall is not None and recall < LEAST_RECALL and student.rows.get(name, 0) >= LEAST_ROWS
    }
    if missed:
        named = set(sorted(missed, key=lambda name: missed[name])[:MOST_NAMED])
        classes = ", ".join(
            f"{name!r} {recall:.3f} of {student.rows[name]} rows" for name, recall in missed.items() if name in named
        )
        classes += f", and {len(missed) - MOST_NAMED} more classes" if len(missed) > MOST_NAMED else ""
        return f"recall below {LEAST_RECALL:g}: {classes}. The student practically never says so. " + _sentence(
            (OPERATING_POINT, student.in_place.prevalence), (RELATIVE, student.in_place.relative), (MORE, False)
        )


def _left_out(student: StudentFacts) -> str | None:
    return ". ".join(filter(None, (_left_out_for_data(student), _absent(student)))) or None


def _absent(student: StudentFacts) -> str | None:
    if student.absent:
        names = list(student.absent)
        some = ", ".join(f"{name} ({student.absent[name]})" for name in names[:MOST_NAMED])
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        count = f"{len(names)} {'party was' if len(names) == 1 else 'parties were'}"
        return (
            f"{count} left out of a stage: {some}{more}. What is said holds for the others. Find the cause in the"
            " report, under who was left out, and run it again"
        )


def _left_out_for_data(student: StudentFacts) -> str | None:
    if student.left_out:
        count = f"{student.left_out} {'party' if student.left_out == 1 else 'parties'}"
        return (
            f"{count} took no part because of what the data hold (limit 0): who takes part then tells about private"
            " data, and the study lacks them. Let tiny and single-class parties in; data.least_rows may be 1"
        )


def _not_analysed(student: StudentFacts) -> str | None:
    if student.not_analysed:
        return (
            f"{', '.join(student.not_analysed)}: left out, since simulation.analysis_seconds had passed. Raise it, or"
            " leave it out, and run the scenario again"
        )


_WORDS: dict[Metric, str] = {"auc": "AUC", "accuracy": "accuracy"}


def _value(metrics: Mapping[str, Any] | None, name: str) -> float | None:
    return None if metrics is None else metrics.get(name)


def chance_deviation(positive: int, negative: int) -> float:
    """Standard deviation of the AUC of a model that orders so many rows by chance (Mann, Whitney 1947).

    >>> round(chance_deviation(100, 100), 4)
    0.0409
    """
    return math.sqrt((positive + negative + 1) / (12 * positive * negative))


_BEFORE: Mapping[WarningCode, Callable[[Expected], str | None]] = {
    WarningCode.LARGE_EPSILON: _epsilon,
    WarningCode.TUNED_ON_OWN_VOTES: _choice,
    WarningCode.NOISE_ABOVE_UNANIMITY: lambda expected: _noise_above(expected, unanimous=True),
    WarningCode.NOISE_ABOVE_TYPICAL_VOTE: lambda expected: _noise_above(expected, unanimous=False),
    WarningCode.LITTLE_INFORMATION: _information,
    WarningCode.FEW_ANSWERS: _answers,
    WarningCode.HALVES_NOT_CLASSES: _halves,
    WarningCode.MANY_PAIRED: _pairs,
}
_ROWS: Mapping[WarningCode, Callable[[RowFacts], str | None]] = {
    WarningCode.LABEL_AMONG_FEATURES: _leaks,
    WarningCode.FEATURES_UNSCALED: _spreads,
    WarningCode.CLASS_NOT_PUBLIC: _classes,
    WarningCode.FEW_PUBLIC_ROWS: _few,
    WarningCode.BUDGET_ABOVE_ROWS: lambda rows: budget_above_rows(rows.queries, rows.different),
    WarningCode.IDENTIFIER_AS_FEATURE: _identifiers,
    WarningCode.CONSTANT_COLUMN: _constant,
    WarningCode.ROWS_TWICE: _twice,
    WarningCode.ONE_LARGE_PARTY: _largest,
    WarningCode.PARTIES_TOO_SMALL: lambda rows: parties_too_small(rows.parties, rows.too_small, rows.least_rows),
}
_AFTER: Mapping[WarningCode, Callable[[StudentFacts], str | None]] = {
    WarningCode.NOTHING_LEARNT: _learnt,
    WarningCode.NOT_ABOVE_MAJORITY: _majority,
    WarningCode.ORDER_BY_CHANCE: _order,
    WarningCode.MOSTLY_NOISE: _noise,
    WarningCode.NOT_ABOVE_HAND_LABELS: _hand_labels,
    WarningCode.BELOW_PRIVATE_RIVAL: _rival,
    WarningCode.BELOW_MEAN_TEACHER: _teacher,
    WarningCode.CLASS_NOT_FOUND: _recall,
    WarningCode.PARTIES_LEFT_OUT: _left_out,
    WarningCode.NOT_ANALYSED: _not_analysed,
}

F = TypeVar("F", Expected, RowFacts, StudentFacts)


def _warnings(kinds: Mapping[WarningCode, Callable[[F], str | None]], facts: F) -> list[RunWarning]:
    return [RunWarning(code, text) for code, kind in kinds.items() if (text := kind(facts))]


def before_run(expected: Expected) -> list[RunWarning]:
    """All that there is to warn of before anything is spent, the most important first."""
    return _warnings(_BEFORE, expected)


def of_rows(rows: RowFacts) -> list[RunWarning]:
    """All that there is to warn of in the rows of a simulation, the most important first."""
    return _warnings(_ROWS, rows)


def after_run(student: StudentFacts) -> list[RunWarning]:
    """All that there is to warn of once a student is trained, the most important first."""
    return _warnings(_AFTER, student)

"""What a run warns of: what changes a reader's decision, each with a code, its value, its limit and what to do. The
facts are four: of a federation before it runs, of the rows of a simulation, of a finished student, and of labels that
public rows have. `warnings_of` says all that there is to warn of in any of them. `docs/report.md` lists the codes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from consilium.report.disclosure import epsilon_text, times_as_likely
from consilium.report.words import METRICS, many, upper_first

SECRET = frozenset(("little-information", "teachers-failed", "parties-left-out", "rows-left-out"))
"""Codes of what is computed from private rows, or from how many parties voted, which may follow from these: no
guarantee covers it."""
CODES = SECRET.union(
    ("large-epsilon", "halves-not-classes", "nothing-learnt", "not-above-majority", "class-not-found"),
    ("public-rows", "public-labels"),
)
MOST_EPSILON = 5.0  # above it, an outcome may be e^5 = 148 times as likely with somebody's data as without
LEAST_SIGNAL = 3.0  # of `Expected.signal`: on partitions that decided nothing a student was useless at 2.1, fair at 4.4
LEAST_PUBLIC = 50  # rows: of 50, an accuracy of 0.8 is known to 0.11 (95 %, normal approximation)
MOST_TWICE = 0.01  # of the private rows. A few equal rows are chance where columns are few
LEAST_RECALL, LEAST_ROWS = 0.05, 20  # a recall of 0.2 finds none of 20 test rows in 1 % of cases
_MOST_NAMED = 5
_RELATIVE = "have teachers vote relative to their own scores (federation.voting_rule)"
Texts = defaultdict[str, list[str]]
"""By code. A text says what, value, limit and what to do, without a full stop at its end; nothing private is in it."""


def warnings_of(*facts: Expected | RowFacts | StudentFacts | LabelFacts) -> list[dict[str, str]]:
    """All that there is to warn of, as {"code": ..., "text": ...}, each code once, in the order of the facts."""
    found = Texts(list)
    for fact in facts:
        fact.warn(found)
    return [
        {"code": code, "text": ". ".join([first, *map(upper_first, more)])} for code, (first, *more) in found.items()
    ]


def well_formed(value: object) -> list[dict[str, str]]:
    """Of what somebody's file says, the entries that are warnings as `warnings_of` gives them."""
    return [
        {"code": entry["code"], "text": entry["text"]}
        for entry in (value if isinstance(value, list) else [])
        if isinstance(entry, dict) and entry.get("code") in [*CODES] and isinstance(entry.get("text"), str)
    ]


def publishable(warnings: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """Those that may be shown to anybody."""
    return [warning for warning in warnings if warning["code"] not in SECRET]


@dataclass(frozen=True)
class Expected:
    """What is known of a federation before it runs, all of it public. votes: for each query, of all parties together.
    undeclared: whether teachers vote relative to their own scores, and nobody says how frequent the classes are.
    epsilon_nodes: towards whoever adds votes up, where these see noisy sums. signal: how far the votes stand out of the
    noise (`accounting.drowned`); infinite where nobody knows how many there are."""

    epsilon: float
    delta: float
    unit: str
    votes: int
    undeclared: bool = False
    epsilon_nodes: float = 0.0
    signal: float = math.inf

    def warn(self, found: Texts) -> None:
        epsilon = max(self.epsilon, self.epsilon_nodes)
        if epsilon > MOST_EPSILON:
            whom = " towards the nodes that add votes up" if epsilon > self.epsilon else ""
            found["large-epsilon"].append(
                f"epsilon{whom} is {epsilon_text(epsilon)} at delta {self.delta:g} for each {self.unit}, above"
                f" {MOST_EPSILON:g}: an outcome may be {times_as_likely(epsilon)} as likely with it as without, which"
                f" protects {'little' if math.isfinite(epsilon) else 'nobody'}. Ask fewer queries, add noise, or find"
                " more parties"
            )
        if self.signal < LEAST_SIGNAL:
            found["little-information"].append(
                f"noise of epsilon {epsilon_text(self.epsilon)} for each {self.unit} drowns"
                f" {many(self.votes, 'vote')}: all answers together stand {self.signal:.2g} standard deviations out"
                f" of it, below {LEAST_SIGNAL:g}: expect nothing. Find more parties (for records and patients: more"
                " teachers), or take a larger epsilon"
            )
        if self.undeclared:
            found["halves-not-classes"].append(
                "teachers vote relative to their own scores, and no class shares are declared: only the student's order"
                " means something. Declare federation.voting_rule.shares, or look at the AUC alone"
            )


@dataclass(frozen=True)
class RowFacts:
    """What is seen of the rows of a simulation. public: public rows by class; askable, test: those to ask, and those
    held out. queries: the query budget. different: rows that can be asked, equal ones once. leaks: columns that say the
    label of each of them. twice: share of the private rows that is at two parties, or public too. left_out: rows by why
    they are in no party. anew: what to do where owners number patients anew. parties: that the partition made;
    too_small: of them, with fewer than `least_rows` rows."""

    public: Mapping[str, int]
    askable: int
    test: int
    queries: int
    different: int
    leaks: tuple[str, ...] = ()
    twice: float = 0.0
    left_out: Mapping[str, int] = field(default_factory=dict)
    anew: str = ""
    parties: int = 0
    too_small: int = 0
    least_rows: int = 1

    def warn(self, found: Texts) -> None:
        if counts := {why: count for why, count in self.left_out.items() if count}:
            each = ", ".join(f"{count} {why}" for why, count in counts.items())
            anew = f". {self.anew}" if self.anew else ""
            found["rows-left-out"].append(
                f"{sum(counts.values())} rows are left out: {each}. All results are about the others{anew}"
            )
        if self.twice > MOST_TWICE:
            found["rows-left-out"].append(
                f"{self.twice:.1%} of the private rows stand at a second party, or among public rows, above"
                f" {MOST_TWICE:.0%}: the guarantee covers one copy. Remove copies, or name patients (data.patient)"
            )
        if self.too_small:
            found["parties-left-out"].append(parties_too_small(self.parties, self.too_small, self.least_rows))
        count = self.askable + self.test
        if self.leaks:
            found["public-rows"].append(
                f"column {_named([repr(name) for name in self.leaks])} says the label of every public row: what is"
                " measured is reading, not predicting. Leave it out (data.drop), unless it is known before the outcome"
            )
        if absent := [repr(name) for name, rows in self.public.items() if not rows]:
            found["public-rows"].append(
                f"no public row is {_named(absent)}, of {count}: the student is neither taught nor tested on it. Make"
                " more rows public, or leave the class out"
            )
        if min(self.askable, self.test) < LEAST_PUBLIC:
            found["public-rows"].append(
                f"{self.askable} public rows can be asked and {self.test} are the test set, below {LEAST_PUBLIC}: means"
                " and every figure of quality are uncertain. Make more rows public (data.public)"
            )
        if self.queries > self.different:
            found["public-rows"].append(
                f"the query budget allows {self.queries} queries, and {self.different} different public rows can be"
                f" asked: the noise is for {self.queries}, and a part of the promised epsilon stays unused. Set"
                f" query_budget.queries to {self.different} or fewer (and the noise anew), or make more rows public"
            )


def parties_too_small(made: int, too_small: int, least_rows: int) -> str:
    """Of a partition that made so many parties, some of which have fewer than `least_rows` rows and take no part."""
    part, have = f"{made - too_small:,}", "has" if too_small == 1 else "have"
    return (
        f"the partition made {made:,} parties, and {part} of them take part: {too_small:,} {have} fewer than"
        f" data.least_rows = {least_rows}. All results are about those that take part. Lower data.least_rows (1 lets"
        f" every party in), or say beside every result that {part} of {made:,} parties took part"
    )


@dataclass(frozen=True)
class StudentFacts:
    """A finished student. What it is compared with is no warning: the finding that a page begins with says it.
    constant: whether it says the same of every row. metrics: `accuracy`, `auc` and `recall_per_class` on test rows;
    empty where there are none. rows: test rows of each class. teachers: how many; failures: of those that say the same
    of every row, or had no answer for some, how many by why. left_out: parties that took no part because of what their
    data hold; absent: others that were left out of a stage, and why."""

    constant: bool
    metrics: Mapping[str, Any]
    rows: Mapping[str, int] = field(default_factory=dict)
    teachers: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    left_out: int = 0
    absent: Mapping[str, str] = field(default_factory=dict)

    def warn(self, found: Texts) -> None:
        if self.failures:
            reasons = _named([f"{count}: {reason}" for reason, count in self.failures.items()], "; ")
            found["teachers-failed"].append(
                f"{sum(self.failures.values())} of {self.teachers} teachers do not tell rows apart, or had no answer"
                f" ({reasons}). They vote for the class most frequent at home. Give them more rows, or another teacher"
            )
        auc, counts = self.metrics.get("auc"), list(self.rows.values())
        if self.constant:
            found["nothing-learnt"].append(
                "the student says the same of every row: what it learnt from has fewer than two classes. Ask more"
                f" queries, lower the mechanism's threshold, or {_RELATIVE}"
            )
        elif auc is not None and len(counts) == 2 and all(counts):
            chance = chance_deviation(*counts)
            if auc <= 0.5 + chance:
                found["nothing-learnt"].append(
                    f"the student's AUC {auc:.3f} is not above 0.5 by more than one standard deviation of chance,"
                    f" {chance:.3f}: it orders cases at random. Find more parties, take a larger epsilon, or do without"
                )
        if not self.constant and not self.metrics:
            found["public-rows"].append(
                "no labelled row judged the student: if it learnt noise, nothing shows it. Judge it on labelled public"
                " rows (of `consilium student run`: --test)"
            )
        self._by_class(found)
        if self.left_out:
            found["parties-left-out"].append(
                f"{many(self.left_out, 'party')} took no part because of what the data hold: who takes part then tells"
                " about private data (limit 0). Let tiny and single-class parties in; data.least_rows may be 1"
            )
        if self.absent:
            why = _named([f"{party} ({reason})" for party, reason in self.absent.items()])
            found["parties-left-out"].append(
                f"{many(len(self.absent), 'party')} left out of a stage: {why}. What is said holds for the others."
                " Find the cause in the report, under who was left out, and run it again"
            )

    def _by_class(self, found: Texts) -> None:
        accuracy, total = self.metrics.get("accuracy"), sum(self.rows.values())
        largest = max(self.rows, key=lambda name: self.rows[name], default="")
        if accuracy is not None and total and not self.constant and accuracy <= self.rows[largest] / total:
            order = "" if self.metrics.get("auc") is None else "Its order may still be of use: look at the AUC. "
            found["not-above-majority"].append(
                f"the student's accuracy {accuracy:.3f} is not above {self.rows[largest] / total:.3f}, that of always"
                f" saying {largest!r}. {order}Choose an operating point (student.prevalence), or find more parties"
            )
        recalls = self.metrics.get("recall_per_class", {}).items()
        enough = [(recall, name) for name, recall in recalls if self.rows.get(name, 0) >= LEAST_ROWS]
        if missed := sorted((recall, name) for recall, name in enough if recall < LEAST_RECALL):
            classes = _named([f"{name!r} {recall:.3f} of {self.rows[name]} rows" for recall, name in missed])
            found["class-not-found"].append(
                f"recall below {LEAST_RECALL:g}: {classes}. The student practically never says so. Choose an operating"
                f" point (student.prevalence), {_RELATIVE}, or find more parties"
            )


@dataclass(frozen=True)
class LabelFacts:
    """Labels of public rows, and what they give without a vote. beside: of `student.public_labels.beside_labels`, with
    or without a student; nothing where nobody has labels. brought: whether the student was brought to them. cost: what
    one label takes, in a simulation."""

    beside: Mapping[str, Any]
    brought: bool = False
    cost: str = ""

    def warn(self, found: Texts) -> None:
        above, validated = self.beside.get("student_above"), self.beside.get("cross_validated")
        if above and above["interval"][0] > 0:
            return
        rows = many(self.beside.get("rows", 0), "public row")
        if above:
            (low, high), alone = above["interval"], self.beside[above["metric"]]
            way = "train on these labels and spend no epsilon"
            way = way if self.brought else f'use both (student.public_labels = "all"), or {way}'
            cost = f". The labels are assumed to be had, and one takes {self.cost}" if self.cost else ""
            found["public-labels"].append(
                f"the student's {METRICS[above['metric']]} {alone + above['difference']:.3f} is not above {alone:.3f}"
                f" by more than chance, what the labels of {rows} reach without a vote (difference {low:+.3f} to"
                f" {high:+.3f}, 95 %, limit 0): nothing shows that votes add to them. {upper_first(way)}{cost}"
            )
        if validated and validated["interval"][0] <= validated["chance"]:
            low, high = validated["interval"]
            found["public-labels"].append(
                f"the labels of {rows} do not tell each other by more than chance: cross-validated"
                f" {METRICS[validated['metric']]} {low:.3f} to {high:.3f} (95 %, chance {validated['chance']:.3f})."
                " Expect little of such columns, whoever votes, or find more labels"
            )


def chance_deviation(positive: int, negative: int) -> float:
    """Standard deviation of the AUC of a model that orders so many rows by chance (Mann, Whitney 1947).

    >>> round(chance_deviation(100, 100), 4)
    0.0409
    """
    return math.sqrt((positive + negative + 1) / (12 * positive * negative))


def _named(items: Sequence[str], sign: str = ", ") -> str:
    more = f" and {len(items) - _MOST_NAMED} more" if len(items) > _MOST_NAMED else ""
    return sign.join(items[:_MOST_NAMED]) + more

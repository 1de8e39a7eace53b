"""The box of the first screen: what the run promises, to whom, and what came of it, for readers without statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.ledger.privacy import NODES
from consilium.protocol.releases import ReleaseKind
from consilium.report.disclosure import ALWAYS, Bound, People, out_of, people, rounded_up, surest_guess
from consilium.simulations.metrics import wilson
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.guarantees import PROMISED, GuaranteeRow, disclosure_of
from consilium.simulations.report.meaning import EXCEPTIONS, Level, in_hundred, surest_belief, verdict
from consilium.simulations.report.models import METRIC_NAMES, lead
from consilium.simulations.report.tables import MOST
from consilium.simulations.report.wording import many, plural, share_text, signed

TOWARDS_STUDENT = "student"
_HEADLINES: dict[Level, str] = {
    "strong": "Strong protection",
    "moderate": "Moderate protection",
    "weak": "Weak protection",
    "none": "No protection",
}
_PRIORS = (0.01, 0.1, 0.9)


@dataclass(frozen=True)
class AudienceRow:
    """Somebody, what they see, and what that lets them find out about one unit; epsilon_text: "none" without bound."""

    who: str
    sees: str
    epsilon_text: str
    guess: str


@dataclass(frozen=True)
class PlainBox:
    """Everything in the box. beliefs: before and after, as text; exceptions: the chance that they are surpassed."""

    level: Level
    headline: str
    reasons: tuple[str, ...]
    otherwise: str
    meaning: tuple[str, ...]
    beliefs: tuple[tuple[str, str], ...]
    exceptions: str
    audiences: tuple[AudienceRow, ...]
    people: tuple[People, ...]


def plain_box(data: ReportData, guarantees: Mapping[str, GuaranteeRow]) -> PlainBox:
    """From the promises alone, which are public: the box is the same in both versions of the report."""
    promised = guarantees[PROMISED]
    real = verdict(promised.epsilon, promised.delta, data.parties, False, data.party_label)
    found = verdict(promised.epsilon, promised.delta, data.parties, data.seeded_noise, data.party_label)
    reasons = [*found.reasons, *_whole_party(data, guarantees)]
    otherwise = (
        f"With real noise the same run would be: {_HEADLINES[real.level].lower()}. {' '.join(real.reasons)} The numbers"
        " below are those of such a run."
        if data.seeded_noise and real.level != "none"
        else ""
    )
    return PlainBox(
        found.level,
        _HEADLINES[found.level],
        tuple(reasons),
        otherwise,
        _meaning(data, promised),
        _beliefs(promised),
        _exceptions(promised),
        _audiences(data, guarantees),
        _people(data, promised),
    )


def _unit(data: ReportData, row: GuaranteeRow) -> str:
    """One of what is protected, in words."""
    word = data.party_label
    return {
        Unit.PARTY: f"one {word}, with all its records",
        Unit.RECORD: f"one record (a single case) of one {word}",
        Unit.PATIENT: f"one patient, with all records at one {word}",
    }[Unit(row.unit)]


def _meaning(data: ReportData, row: GuaranteeRow) -> tuple[str, ...]:
    one = _unit(data, row)
    release = plural(data.release.noun)
    aims = (
        "whether it took part at all"
        if row.neighbouring == Neighbouring.ADD_OR_REMOVE
        else "which of two versions of its data was used"
    )
    protected = f"Protected is {one}."
    if math.isinf(row.epsilon):
        return (protected, "There is no limit to what the release may tell about it.")
    guess = surest_guess(row.epsilon, row.delta)
    odds = guess / (1 - guess) if guess < 1 else math.inf
    bound = f"is right in at most {out_of(guess)}" if out_of(guess) != ALWAYS else "may be right always"
    return (
        f"{protected} Suppose that somebody knows everything else and wonders {aims}. A coin is right in 50 of 100"
        f" such cases. Whoever has all {release} that were released, and anything made from them, {bound}, whatever"
        f" they compute: odds of 1 to 1 become at most {rounded_up(odds)} to 1.",
        f"What all {plural(data.party_label)} together teach is not hidden: that is what the student is for, and it"
        " would be learnt without any one of them as well.",
    )


def _beliefs(row: GuaranteeRow) -> tuple[tuple[str, str], ...]:
    if math.isinf(row.epsilon) or EXCEPTIONS * row.delta >= 1:
        return ()
    grown = {before: surest_belief(before, row.epsilon, row.delta) for before in _PRIORS}
    return tuple((f"{100 * before:.0f} in 100", in_hundred(after)) for before, after in grown.items())


def _exceptions(row: GuaranteeRow) -> str:
    chance = EXCEPTIONS * row.delta
    return "without exception" if chance == 0 else f"save with a chance of at most {_chance(chance)}"


def _chance(chance: float) -> str:
    """
    >>> _chance(0.001), _chance(0.3)
    ('1 in 1,000', '1 in 3')
    """
    return f"1 in {math.floor(1 / chance + 1e-6):,}"


def _audiences(data: ReportData, guarantees: Mapping[str, GuaranteeRow]) -> tuple[AudienceRow, ...]:
    promised = guarantees[PROMISED]
    student, nodes = guarantees.get(TOWARDS_STUDENT, promised), guarantees.get(NODES, promised)
    larger = max(student, nodes, key=lambda row: row.epsilon)
    rows = {Bound.STUDENT: student, Bound.NODES: nodes, Bound.LARGER: larger}
    return tuple(
        AudienceRow(
            view.who,
            view.sees,
            *(_number(rows[view.bound], data.seeded_noise) if view.bound in rows else (view.bound, _WHY[view.bound])),
        )
        for view in disclosure_of(data).audiences(data.party_label, plural(data.party_label))
    )


_WHY = {
    Bound.TRUSTED: "no limit: it must be trusted with this",
    Bound.OWN_NOISE: "some of the noise in the sums is its own",
}


def _people(data: ReportData, promised: GuaranteeRow) -> tuple[People, ...]:
    unprotected = ""
    if math.isinf(promised.epsilon):
        unprotected = "the mechanism has no bound"
    elif data.seeded_noise:
        unprotected = "the noise follows a seed, and can be taken away"
    return people(data.party_label, plural(data.party_label), _unit(data, promised), unprotected)


def _number(row: GuaranteeRow, seeded: bool) -> tuple[str, str]:
    if math.isinf(row.epsilon):
        return row.epsilon_text, "no limit"
    guess = out_of(surest_guess(row.epsilon, row.delta))
    return row.epsilon_text, f"{guess}{', were the noise real' if seeded else ''}"


def _whole_party(data: ReportData, guarantees: Mapping[str, GuaranteeRow]) -> list[str]:
    row = guarantees.get("promised_party")
    if row is None:
        return []
    bound = "no limit" if math.isinf(row.epsilon) else out_of(surest_guess(row.epsilon, row.delta))
    return [f"For a whole {data.party_label} it is less: epsilon {row.epsilon_text}, a guess right in {bound}."]


def against_alone(data: ReportData) -> str:
    """Better or worse than one party by itself, with the interval; empty where nobody knows. Secret."""
    found = data.secret_figures.get("alone")
    if not found:
        return ""
    word, name = data.party_label, {"auc": "AUC", "accuracy": "accuracy"}[found["metric"]]
    low, high = found["interval"]
    difference = found["difference"]
    how = "better" if low > 0 else "worse" if high < 0 else "not clearly better or worse"
    student = (data.student or {}).get(found["metric"])
    values = [value for item in data.quality if (value := getattr(item, found["metric"])) is not None]
    beaten = (
        f" It is ahead of {sum(value < student for value in values):,} of {len(values):,} of them."
        if student is not None and values
        else ""
    )
    return (
        f"The student is {how} than what one {word} has by itself: {name} {signed(difference)}"
        f" ({signed(low)} to {signed(high)}) in the mean over the {plural(word)}.{beaten}"
    )


def labels_explained(data: ReportData) -> str:
    """How many released labels are right, beside what always naming the commonest class would give; or empty."""
    matrix: Sequence[Sequence[int]] = data.open_figures.get("labels") or []
    truth = [sum(row) for row in matrix]
    total = sum(truth)
    if not total:
        return ""
    right = sum(row[index] for index, row in enumerate(matrix))
    most = max(range(len(truth)), key=lambda index: truth[index])
    low, high = wilson(right, total)
    what = "largest noisy counts" if data.release is ReleaseKind.COUNTS else "released labels"
    told = (
        f"Of {total:,} {what} {right / total:.0%} are right (95% interval {low:.0%} to {high:.0%}, Wilson); always"
        f" naming “{data.classes[most]}” would be right for {truth[most] / total:.0%} of the same cases."
    )
    if right / total > truth[most] / total + 0.02:
        return told
    found = [
        f"{row[index] / truth[index]:.0%} of “{data.classes[index]}”"
        for index, row in enumerate(matrix)
        if truth[index]
    ]
    balanced = sum(row[index] / truth[index] for index, row in enumerate(matrix) if truth[index]) / len(found)
    listed = ", ".join(found[:4]) + ("" if len(found) <= 4 else f" and of {len(found) - 4} more classes")
    extra = (
        " A student of histograms also learns from how far the counts lie apart, and not from the largest alone."
        if data.release is ReleaseKind.COUNTS
        else ""
    )
    return (
        f"{told} That does not make them worthless: the classes are not equally frequent, and who always names the"
        f" commonest never finds any other. The {what} find {listed}: {balanced:.0%} in the mean over classes, where"
        f" the constant answer has {1 / len(found):.0%}.{extra}{_auc_beside(data)}"
    )


def _auc_beside(data: ReportData) -> str:
    student = data.student or {}
    if lead(data, student) != METRIC_NAMES[1]:
        return ""
    return f" The student that learnt from them reaches AUC {share_text(student['auc'])}; the constant answer 0.500."


def measured_on(data: ReportData) -> str:
    """What the figures were measured on, or empty."""
    counts: dict[str, int] = data.open_figures.get("test") or {}
    total = sum(counts.values())
    if not total:
        return ""
    if len(counts) > MOST:
        listed = f"{min(counts.values()):,} to {max(counts.values()):,} of each of {len(counts)} classes"
    else:
        listed = ", ".join(f"{count:,} “{name}”" for name, count in counts.items())
    return f"All figures of the student are measured on {many(total, 'public test case')}: {listed}."

"""First and third chapter: what a run guarantees and spent, in plain words and as numbers; and how strong a guarantee
is, which `docs/report.md` argues."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from markupsafe import Markup

from consilium.accounting.guarantees import Guarantee, Kind
from consilium.accounting.units import Neighbouring, Towards, Unit
from consilium.coordinator.privacy import NODES
from consilium.models.evaluation import wilson
from consilium.protocol.errors import DataError
from consilium.protocol.messages import CollectionMode
from consilium.protocol.releases import ReleaseKind
from consilium.protocol.strict_json import number
from consilium.report import disclosure
from consilium.report.disclosure import UNITS, Bound, Disclosure, epsilon_text, out_of, surest_guess
from consilium.report.exhibits import Cell, Exhibit, PagePart, Table, TableLine, pairs, without_blanks
from consilium.report.words import delta_text, many, plural
from consilium.simulations.report.data import ReportData
from consilium.sums.modes import MODES

GUARANTEE, SPENT = "guarantee", "spent"
TITLES = {
    GUARANTEE: "The guarantee",
    NODES: "The nodes’ guarantee",
    SPENT: "Spent at the released counts",
    "data_dependent": "Spent at these very votes",
    "sanitised": "Estimate released with noise",
    "guarantee_record": "For a record",
    "guarantee_party": "For a whole party",
}
KINDS = {
    Kind.WORST_CASE: "worst case: holds for all data",
    Kind.REALISED: "at the released counts, secret: do not publish",
    Kind.DATA_DEPENDENT: "data-dependent, secret: do not publish",
    Kind.SANITISED: "data-dependent, released with noise; an estimate, not a ceiling",
}
Claims = Mapping[str, Mapping[str, Any]]  # by name, each as `Guarantee.to_json` gives it


def title_of(name: str) -> str:
    """The title of the guarantee with this name."""
    return TITLES.get(name, name.replace("_", " "))


def shown_guarantees(privacy: Claims, collection: CollectionMode) -> dict[str, Any]:
    """The guarantees that the coordinator states, as a report shows them: none is data-dependent where noise is in the
    sums."""
    left_out = {"student", "data_dependent"} if collection in MODES else {"student"}
    return {name: claim for name, claim in privacy.items() if name not in left_out}


def guarantees_of(claims: Claims) -> dict[str, Guarantee]:
    """All guarantees by name, the one that was fixed before the run first. Raises DataError: a field is missing, or has
    a value that no guarantee can have. A blank could pass for zero."""
    found = {}
    for name in dict.fromkeys((*(name for name in TITLES if name in claims), *claims)):
        values = claims[name]
        try:
            found[name] = Guarantee(
                epsilon=number(values, "epsilon"),
                delta=float(values["delta"]),
                order=math.nan if values["order"] is None else float(values["order"]),
                unit=Unit(values["unit"]),
                neighbouring=Neighbouring(values["neighbouring"]),
                teachers_per_party=values["teachers_per_party"],
                towards=Towards(values["towards"]),
                kind=Kind(values["kind"]),
                method=values["method"],
            )
        except (LookupError, TypeError, ValueError) as error:
            raise DataError(f"guarantee {name!r} is malformed: {error}", "Run the scenario again") from None
    return found


STRONG, MODERATE = 1.0, 3.0
"""Largest epsilon of a strong and of a moderate guarantee: a guess is right in 74 and 96 of 100 cases at most."""
NEARLY = 0.01
"""Delta times the number of parties above which no guarantee is strong; from 1 on it may name one of them outright."""

Level = Literal["strong", "moderate", "weak", "none"]


def verdict(
    epsilon: float, delta: float, parties: int, word: str = "party", unit: Unit = Unit.PARTY
) -> tuple[Level, tuple[str, ...]]:
    """How strong a guarantee is, where nobody knows the noise, and why: the first sentence decided.

    parties: how many take part, each called `word`. unit: what delta is for. How many records or patients there are is
    not told, and parties are counted in their place: the level may then be too good.

    >>> [verdict(epsilon, 1e-5, 371)[0] for epsilon in (0.8, 2, 8, math.inf)], verdict(2, 1e-2, 371)[0]
    (['strong', 'moderate', 'weak', 'none'], 'weak')
    """
    if math.isinf(epsilon):
        return "none", ("No number bounds what the release tells about one of them.",)
    level: Level = "strong" if epsilon <= STRONG else "moderate" if epsilon <= MODERATE else "weak"
    reason = {
        "strong": f"Epsilon is at most {STRONG:g}.",
        "moderate": f"Epsilon is above {STRONG:g} and at most {MODERATE:g}.",
        "weak": f"Epsilon is above {MODERATE:g}: from an even start somebody could become surer than 19 to 1, which is"
        " commonly taken for proof.",
    }[level]
    expected = delta * parties
    among = many(parties, word) if unit is Unit.PARTY else f"at least {many(parties, unit.value)}"
    if expected >= 1:
        return "weak", (f"Delta is {delta:g}: with {among} it would allow to name one of them outright.", reason)
    if expected > NEARLY and level == "strong":
        return "moderate", (f"Delta times the number of them ({among}) is {expected:.2g}, above {NEARLY:g}.", reason)
    return level, (reason, f"Delta, the room left for a mishap, is {delta_text(delta)} for each {unit}.")


Guarantees = Mapping[str, Guarantee]


def plain_part(data: ReportData, guarantees: Guarantees) -> PagePart:
    """The chapter in plain words, the one place where the guarantee has its number."""
    promised, word, words = guarantees[GUARANTEE], data.party_label, plural(data.party_label)
    level, reasons = verdict(promised.epsilon, promised.delta, data.parties, word, promised.unit)
    headline = f"{'No' if level == 'none' else level.capitalize()} protection"
    if data.seeded_noise:
        headline = f"Simulated: {headline.lower()}"
        reasons = (disclosure.SEEDED, "The guarantee below is that of the same run with real noise.", *reasons)
    if "guarantee_party" in guarantees:
        right = _right_in(guarantees["guarantee_party"])
        unbounded = right in (disclosure.ALWAYS, _NO_LIMIT)
        guess = "may be right always" if unbounded else f"is right in {right}"
        reasons = (*reasons, f"For a whole {word} it is less: a guess {guess}.")
    meaning = (
        "Fixed before anything was asked, for all queries that the budget allows. Epsilon is rounded up; delta is the"
        " room left for a mishap.",
        disclosure.in_plain_words(promised.epsilon, promised.delta, promised.unit, promised.neighbouring),
    )
    if math.isfinite(promised.epsilon):
        meaning += (
            f"It holds for all released {plural(data.release.noun)} together, and for whatever anybody computes from"
            f" them. What all {words} together teach is not hidden: that is what the student is for.",
        )
    unprotected = "the noise follows a seed, and can be taken away" if data.seeded_noise else ""
    if math.isinf(promised.epsilon):
        unprotected = "the mechanism has no bound"
    people = disclosure.people(word, words, UNITS[promised.unit], unprotected)
    whose = tuple(TableLine(row.who, (Cell(row.protected), Cell(row.why))) for row in people)
    exhibits = (
        Exhibit("verdict", words=(Markup('<span class="level">{}</span> {}').format(headline, " ".join(reasons)),)),
        Exhibit("guarantee", "The guarantee, and what it means", meaning, table=_claims(guarantees)),
        Exhibit("audiences", "Who sees what", (data.release.sentence,), table=audiences(data, guarantees)),
        Exhibit("people", "Whose rows are protected", table=Table(("whose rows", "protected", "why"), whose)),
    )
    return PagePart("plain", "In plain words", exhibits, look=f"card {level}{' simulated' * data.seeded_noise}")


def _claims(guarantees: Guarantees, publishable: bool = True) -> Table:
    pair = Markup('<span class="epsilon">{}</span> <span class="small">at delta {}</span>')
    lines = []
    for name, item in guarantees.items():
        if item.publishable == publishable:
            order = f", order {item.order:g}" if math.isfinite(item.order) else ""
            numbers = pair.format(epsilon_text(item.epsilon), delta_text(item.delta))
            how = Cell(KINDS[item.kind], f"{item.neighbouring}; both directions; {item.method}{order}")
            cells = (Cell(numbers), Cell(item.relation), Cell(f"the {item.towards}"), how)
            lines.append(TableLine(title_of(name), cells, "" if publishable else "secret"))
    return Table(("", "epsilon, delta", "for whom (the unit)", "towards whom", "kind"), tuple(lines))


def audiences(data: ReportData, guarantees: Guarantees) -> Table:
    """Who sees what, which guarantee covers it, and in how many cases a guess of theirs is right at most."""
    nodes = NODES if NODES in guarantees else GUARANTEE
    larger = max((GUARANTEE, nodes), key=lambda name: guarantees[name].epsilon)
    names = {Bound.STUDENT: GUARANTEE, Bound.NODES: nodes, Bound.LARGER: larger}
    lines = []
    for view in Disclosure(data.release, data.collection).audiences(data.party_label, plural(data.party_label)):
        covered, right = Bound.TRUSTED.value, "no limit: it must be trusted with this"
        if view.bound in names:
            covered, right = title_of(names[view.bound]), _right_in(guarantees[names[view.bound]])
            right += ", were the noise real" * (data.seeded_noise and right != _NO_LIMIT)
        lines.append(TableLine(view.who, (Cell(view.sees), Cell(covered), Cell(right))))
    return Table(("who", "sees", "covered by", "guesses right in at most"), tuple(lines))


_NO_LIMIT = "no limit"


def _right_in(item: Guarantee) -> str:
    return _NO_LIMIT if math.isinf(item.epsilon) else out_of(surest_guess(item.epsilon, item.delta))


def privacy_part(data: ReportData, guarantees: Guarantees) -> PagePart:
    """The chapter on privacy, in which what was spent is secret."""
    word, words = data.party_label, []
    if NODES in guarantees:
        words.append(
            "What the nodes saw, noisy sums, has an epsilon of its own. It holds towards the student and the public too"
            " if the coordinator leaves its noise out."
        )
    if guarantees[GUARANTEE].teachers_per_party == 1:
        words.append(f"Each {word} has one teacher: the guarantee of a record is also that of the whole {word}.")
    spent = _claims(guarantees, publishable=False)
    after = "What these votes came to. It is known after the fact, and is secret: publish the guarantee."
    exhibits = [
        _asked(data),
        Exhibit("spent", "What was spent", (after,), table=spent, secret=True) if spent.lines else None,
    ]
    return PagePart("privacy", "Privacy", without_blanks(exhibits), tuple(words))


def _asked(data: ReportData) -> Exhibit:
    queries, answers = len(data.answered), sum(data.answered)
    counts = {"answered": answers, "confirmed": data.reinforced, "abstained": queries - answers - data.reinforced}
    counts["never asked"] = max(data.most_queries - queries, 0)
    total = max(sum(counts.values()), 1)
    rows = [(name, f"{count:,} ({count / total:.0%})") for name, count in counts.items() if count]
    ends = f" or {many(data.most_answers, 'label')} are released" * data.release.abstains
    words = (
        f"{data.mechanism}. The run ends when {many(data.most_queries, 'query')} are asked{ends}.",
        labels_explained(data),
    )
    return Exhibit("asked", "What was asked, and what was released", words, table=pairs(rows))


def labels_explained(data: ReportData) -> str:
    """How many of the released labels are right, beside the share of the commonest class in the same cases."""
    labels, noun = data.open_figures.get("labels") or {}, "released labels"
    if data.release is ReleaseKind.COUNTS:
        noun = "largest noisy counts"
    truth: list[int] = labels.get("of_class", [])
    if not (total := sum(truth)):
        return f"How many {noun} are right, nobody can say."
    right, most = labels["right"], max(truth)
    low, high = wilson(right, total)
    return (
        f"Of {total:,} {noun} {right / total:.0%} are right (95% interval {low:.0%} to {high:.0%}, Wilson); always"
        f" naming “{data.classes[truth.index(most)]}” would be right for {most / total:.0%} of the same cases."
    )

"""What a run guarantees, to whom, what that means, and what it cost: exhibits of the first screen and the appendix."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup

from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.privacy import NODES
from consilium.report.charts import Axis, RuleAcross, Series, lines_chart, round_ticks, thin, whole_ticks
from consilium.report.disclosure import ALWAYS, Bound, People, out_of, people, rounded_up, surest_guess
from consilium.report.exhibits import Cell, Chart, Exhibit, PagePart, Table, TableLine, without_blanks
from consilium.report.glossary import term
from consilium.report.words import plural
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.guarantees import GUARANTEE, GuaranteeRow, disclosure_of
from consilium.simulations.report.meaning import EXCEPTIONS, SEEDED, Level, in_hundred, surest_belief, verdict

TOWARDS_STUDENT = "student"
SECRET = "secret: do not publish"
_HEADLINES: dict[Level, str] = {
    "strong": "Strong protection",
    "moderate": "Moderate protection",
    "weak": "Weak protection",
    "none": "No protection",
}
_PRIORS = (0.01, 0.1, 0.9)
_BEFORE = Markup("Fixed before anything was asked, for the whole {} and one {}. Epsilon is rounded up.")


def plain_part(data: ReportData, guarantees: Mapping[str, GuaranteeRow], worth: Sequence[Exhibit]) -> PagePart:
    """The box of the first screen, for readers without statistics: the one place where a guarantee has its number.

    From the guarantee alone, which is public: the box is the same in both versions of the report, but for what `worth`
    says of the student.
    """
    promised = guarantees[GUARANTEE]
    level = verdict(promised.epsilon, promised.delta, data.parties, data.party_label).level
    release = plural(data.release.noun)
    exhibits = (
        Exhibit("verdict", words=(_verdict(data, guarantees),)),
        Exhibit(
            "guarantee",
            Markup("The {}").format(term("guarantee")),
            (_BEFORE.format(term("query budget"), term("unit")),),
            table=_claims([row for row in guarantees.values() if not row.secret]),
        ),
        Exhibit(
            "meaning", "What that means", _meaning(data, promised, release), table=_beliefs(promised), look="halves"
        ),
        Exhibit("released", "What was released, and to whom", (disclosure_of(data).release.sentence,)),
        Exhibit("audiences", table=audiences(data, guarantees)),
        Exhibit("people", "Whose data are public, and whose are protected", table=_people_table(data, promised)),
        *worth,
    )
    return PagePart(
        "plain", "In plain words", exhibits, look=f"card {level} simulated" if data.seeded_noise else f"card {level}"
    )


def privacy_part(data: ReportData, guarantees: Mapping[str, GuaranteeRow]) -> PagePart:
    """How votes were collected; what was spent, apart from the guarantee; how the cost grew; what it means for each
    party."""
    word, queries = data.party_label, len(data.answered)
    spent = [row for row in guarantees.values() if row.secret]
    words = [disclosure_of(data).how_collected(), "The guarantee holds towards whom it names, and nothing is guaranteed"
             " towards anybody else. How it was computed stands in the appendix."]  # fmt: skip
    if guarantees[GUARANTEE].teachers_per_party == 1:
        words.append(
            f"Each {word} has one teacher, so the guarantee of a record is also the guarantee of the whole {word}."
        )
    if not queries:
        words.append("Nothing was asked, so nothing was spent.")
    return PagePart(
        "privacy",
        "What privacy cost",
        without_blanks(
            [
                Exhibit("privacy-notes", words=tuple(words)),
                _spent(spent, guarantees[GUARANTEE]) if spent else None,
                privacy_curve(data, guarantees[GUARANTEE]) if queries and not data.public else None,
            ]
        ),
    )


def _spent(spent: Sequence[GuaranteeRow], promised: GuaranteeRow) -> Exhibit:
    """What the votes came to; in words where that is the whole guarantee. Secret."""
    title = Markup("What was {}").format(term("spent"))
    if all(row.epsilon_text == promised.epsilon_text and row.relation == promised.relation for row in spent):
        whole = "The whole guarantee: the query budget was used up, and these votes gave nothing to save."
        return Exhibit("spent", title, (whole,), secret=True)
    why = "Chosen after the fact, or a function of the votes: publish the guarantee instead."
    return Exhibit("spent", title, (why,), table=_claims(spent), secret=True)


def accountant_part(guarantees: Mapping[str, GuaranteeRow]) -> PagePart:
    """How each figure was computed, and how the plain words follow from it."""
    lines = tuple(
        TableLine(
            row.title,
            (
                Cell(f"{row.relation}; neighbouring: {row.neighbouring}"),
                Cell("; ".join([row.direction, row.method, *([] if row.order == "–" else [f"order {row.order}"])])),
            ),
        )
        for row in guarantees.values()
    )
    columns = ("guarantee or cost", "unit, and what changes between neighbours", "how it was computed")
    exhibits = [Exhibit("accounting", table=Table(columns, lines))]
    if math.isfinite(guarantees[GUARANTEE].epsilon):
        exhibits.append(
            Exhibit(
                "bounds",
                "How “guesses right in at most” and “at most after” follow from epsilon and delta",
                (_BOUNDS,),
                look="folded",
            )
        )
    return PagePart("accountant", "Appendix: for the accountant", tuple(exhibits))


_BOUNDS = Markup(
    "A guess between two versions of the data that are as likely before is right with probability at most"
    " (e<sup>ε</sup> + δ) / (1 + e<sup>ε</sup>), however it is made (Kairouz, Oh, Viswanath 2015, theorem 2.1). The"
    " odds of a belief grow at most by the factor e<sup>ε</sup> / (1 − δ/c), save with probability c (after"
    " Kasiviswanathan, Smith 2014, lemma 3.3). Here c is 100 δ. Everything is rounded up. Both hold for any statement"
    " about what is protected, and whatever else is known."
)


def _claims(rows: Sequence[GuaranteeRow]) -> Table:
    lines = tuple(
        TableLine(
            row.title,
            (
                Cell(
                    Markup('<span class="epsilon">{}</span> <span class="small">at delta {}</span>').format(
                        row.epsilon_text, row.delta_text
                    )
                ),
                Cell(row.relation),
                Cell(f"the {row.towards}", look="whole-words"),
                Cell(row.kind, badge=SECRET if row.secret else "" if row.publishable else "no guarantee"),
            ),
            look="secret" if row.secret else "",
        )
        for row in rows
    )
    return Table(("", "epsilon, delta", "for whom (the unit)", "towards whom", "kind"), lines)


def privacy_curve(data: ReportData, promised: GuaranteeRow) -> Exhibit:
    """Epsilon after each query, with the guarantee as a line across. Secret; at least one query."""
    bounded = math.isfinite(promised.epsilon)
    words = "How the privacy cost grows with each query. " + (
        "The line across is the ceiling that was fixed before anything was asked. What is spent at the released counts"
        " is never above it. It is computed at some queries, with straight lines between."
        if bounded
        else "There is no ceiling: the worst case is unbounded."
    )
    curves = {"spent at the released counts": ("sky wide", data.epsilon_spent)}
    if len(data.epsilon_data_dependent):
        words += (
            " Neither curve may be published. The dashed one depends on the votes themselves. Where it lies on the"
            " other, the votes gave nothing to save."
        )
        curves[f"data-dependent ({SECRET})"] = ("secret dashed", data.epsilon_data_dependent)
    finite = [float(curve[np.isfinite(curve)].max()) for _, curve in curves.values() if np.isfinite(curve).any()]
    highest = max([*finite, promised.epsilon if bounded else 0.0]) or 1.0
    last = max(len(data.answered), 2)
    x = Axis(0, last, whole_ticks(last), "queries asked so far")
    ticks = round_ticks(0, 1.2 * highest, 5, "{:.3g}".format)
    y = Axis(0, 1.2 * highest, ticks, f"epsilon so far, at delta {promised.delta_text}")
    series = []
    for name, (look, curve) in curves.items():
        places = [index for index in thin(curve) if np.isfinite(curve[index])]
        heights = [float(curve[index]) for index in places]
        series.append(Series(name, look, [index + 1.0 for index in places], heights))
    rules = [RuleAcross(promised.epsilon, label="the guarantee")] if bounded else []
    return Exhibit(
        "privacy-curve",
        "Privacy cost, query by query",
        (words,),
        chart=Chart(
            f"Lines: epsilon at delta {promised.delta_text} after each of {len(data.answered)} queries, and the"
            " guarantee across.",
            (("", lines_chart(series, (x.title, y.title), x, y, rules)),),
        ),
        secret=True,
    )


def _verdict(data: ReportData, guarantees: Mapping[str, GuaranteeRow]) -> Markup:
    promised = guarantees[GUARANTEE]
    found = verdict(promised.epsilon, promised.delta, data.parties, data.party_label, promised.unit)
    headline, seeded = _HEADLINES[found.level], Markup("")
    if data.seeded_noise:
        headline = f"Simulated: {headline.lower()}"
        like = "The guarantee below is that of the same run with real noise."
        seeded = Markup("<strong>{}</strong> {} ").format(SEEDED, like)
    reasons = Markup(" ").join([*found.reasons, *_whole_party(data, guarantees)])
    return Markup('<span class="level">{}</span> {}{}').format(headline, seeded, reasons)


def _unit(data: ReportData, row: GuaranteeRow) -> str:
    """One of what is protected, in words."""
    word = data.party_label
    return {
        Unit.PARTY: f"one {word}, with all its records",
        Unit.RECORD: f"one record (a single case) of one {word}",
        Unit.PATIENT: f"one patient, with all records at one {word}",
    }[Unit(row.unit)]


def _meaning(data: ReportData, row: GuaranteeRow, release: str) -> tuple[str, ...]:
    one = _unit(data, row)
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
        f" they compute: the odds that such a guess is right are at most {rounded_up(odds)} to 1.",
        f"What all {plural(data.party_label)} together teach is not hidden: that is what the student is for, and it"
        " would be learnt without any one of them as well.",
    )


def _beliefs(row: GuaranteeRow) -> Table | None:
    if math.isinf(row.epsilon) or EXCEPTIONS * row.delta >= 1:
        return None
    lines = tuple(
        TableLine(f"{100 * before:.0f} in 100", (Cell(in_hundred(surest_belief(before, row.epsilon, row.delta))),))
        for before in _PRIORS
    )
    caption = f"How sure anybody can become of a claim about it, {_exceptions(row)}:"
    return Table(("held likely before", "at most after"), lines, look="", caption=caption)


def _exceptions(row: GuaranteeRow) -> str:
    chance = EXCEPTIONS * row.delta
    return "without exception" if chance == 0 else f"except with a chance of at most {_chance(chance)}"


def _chance(chance: float) -> str:
    """
    >>> _chance(0.001), _chance(0.3)
    ('1 in 1,000', '1 in 3')
    """
    return f"1 in {math.floor(1 / chance + 1e-6):,}"


def audiences(data: ReportData, guarantees: Mapping[str, GuaranteeRow]) -> Table:
    """Who sees what, which guarantee covers it, and what it lets them find out about one unit; "none" where nothing
    bounds it."""
    promised = guarantees[GUARANTEE]
    student, nodes = guarantees.get(TOWARDS_STUDENT, promised), guarantees.get(NODES, promised)
    larger = max(student, nodes, key=lambda row: row.epsilon)
    rows = {Bound.STUDENT: student, Bound.NODES: nodes, Bound.LARGER: larger}
    lines = []
    for view in disclosure_of(data).audiences(data.party_label, plural(data.party_label)):
        bound = _number(rows[view.bound], data.seeded_noise) if view.bound in rows else _UNBOUNDED
        lines.append(TableLine(view.who, tuple(Cell(str(text)) for text in (view.sees, *bound))))
    return Table(("who", "sees", "covered by", "guesses right in at most"), tuple(lines))


_UNBOUNDED = Bound.TRUSTED, "no limit: it must be trusted with this"


def _people_table(data: ReportData, promised: GuaranteeRow) -> Table:
    lines = (TableLine(row.who, (Cell(row.protected), Cell(row.why))) for row in _people(data, promised))
    return Table(("whose rows", "protected", "why"), tuple(lines))


def _people(data: ReportData, promised: GuaranteeRow) -> tuple[People, ...]:
    unprotected = ""
    if math.isinf(promised.epsilon):
        unprotected = "the mechanism has no bound"
    elif data.seeded_noise:
        unprotected = "the noise follows a seed, and can be taken away"
    return people(data.party_label, plural(data.party_label), _unit(data, promised), unprotected)


def _number(row: GuaranteeRow, seeded: bool) -> tuple[str, str]:
    if math.isinf(row.epsilon):
        return row.title, "no limit"
    guess = out_of(surest_guess(row.epsilon, row.delta))
    return row.title, f"{guess}{', were the noise real' if seeded else ''}"


def _whole_party(data: ReportData, guarantees: Mapping[str, GuaranteeRow]) -> list[str]:
    row = guarantees.get("guarantee_party")
    if row is None:
        return []
    bound = "no limit" if math.isinf(row.epsilon) else out_of(surest_guess(row.epsilon, row.delta))
    return [f"For a whole {data.party_label} it is less: a guess is right in {bound}."]

"""The first chapter, for readers without statistics: what is guaranteed, to whom, what that means, who is protected.

From the guarantee alone, which is public: the chapter is the same in both versions of the page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from markupsafe import Markup

from consilium.accounting.guarantees import Guarantee
from consilium.accounting.units import Neighbouring, Unit
from consilium.coordinator.privacy import NODES
from consilium.report.disclosure import (
    ALWAYS,
    SEEDED,
    Bound,
    Disclosure,
    epsilon_text,
    out_of,
    people,
    rounded_up,
    surest_guess,
)
from consilium.report.exhibits import Cell, Exhibit, PagePart, Table, TableLine
from consilium.report.words import delta_text, plural
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.guarantees import GUARANTEE, KINDS, title_of
from consilium.simulations.report.meaning import EXCEPTIONS, in_hundred, surest_belief, verdict

PRIORS = (0.01, 0.1, 0.9)
"""How likely a claim was held before, of which the table says how likely anybody may hold it after."""
Guarantees = Mapping[str, Guarantee]


def plain_part(data: ReportData, guarantees: Guarantees) -> PagePart:
    """The one place where the guarantee has its number."""
    promised = guarantees[GUARANTEE]
    found = verdict(promised.epsilon, promised.delta, data.parties, data.party_label, promised.unit)
    headline = f"{'No' if found.level == 'none' else found.level.capitalize()} protection"
    seeded = ""
    if data.seeded_noise:
        headline = f"Simulated: {headline.lower()}"
        seeded = f"{SEEDED} The guarantee below is that of the same run with real noise."
    reasons = " ".join(filter(None, (seeded, *found.reasons, _whole_party(data, guarantees))))
    fixed = (
        "Fixed before anything was asked, for all queries that the budget allows. Epsilon, rounded up, bounds how far"
        " one unit can move what is released; delta is the room left for a mishap."
    )
    public = {name: item for name, item in guarantees.items() if item.publishable}
    unprotected = ""
    if math.isinf(promised.epsilon):
        unprotected = "the mechanism has no bound"
    elif data.seeded_noise:
        unprotected = "the noise follows a seed, and can be taken away"
    whose = people(data.party_label, plural(data.party_label), _unit(data, promised), unprotected)
    exhibits = (
        Exhibit("verdict", words=(Markup('<span class="level">{}</span> {}').format(headline, reasons),)),
        Exhibit("guarantee", "The guarantee", (fixed,), table=claims(public)),
        Exhibit("meaning", "What that means", _meaning(data, promised), table=_beliefs(promised), look="halves"),
        Exhibit(
            "audiences",
            "What was released, and who sees what",
            (data.release.sentence,),
            table=audiences(data, guarantees),
        ),
        Exhibit(
            "people",
            "Whose data are public, and whose are protected",
            table=Table(
                ("whose rows", "protected", "why"),
                tuple(TableLine(row.who, (Cell(row.protected), Cell(row.why))) for row in whose),
            ),
        ),
    )
    return PagePart("plain", "In plain words", exhibits, look=f"card {found.level}{' simulated' * data.seeded_noise}")


def claims(guarantees: Guarantees) -> Table:
    """Each epsilon with all that it means; what is secret says so."""
    pair = Markup('<span class="epsilon">{}</span> <span class="small">at delta {}</span>')
    lines = tuple(
        TableLine(
            title_of(name),
            (
                Cell(pair.format(epsilon_text(item.epsilon), delta_text(item.delta))),
                Cell(item.relation),
                Cell(f"the {item.towards}"),
                Cell(KINDS[item.kind], badge="" if item.publishable else "secret: do not publish"),
            ),
            look="" if item.publishable else "secret",
        )
        for name, item in guarantees.items()
    )
    return Table(("", "epsilon, delta", "for whom (the unit)", "towards whom", "kind"), lines)


def audiences(data: ReportData, guarantees: Guarantees) -> Table:
    """Who sees what, which guarantee covers it, and how often it lets them guess right; "none" where nothing does."""
    nodes = NODES if NODES in guarantees else GUARANTEE
    larger = max((GUARANTEE, nodes), key=lambda name: guarantees[name].epsilon)
    names = {Bound.STUDENT: GUARANTEE, Bound.NODES: nodes, Bound.LARGER: larger}
    lines = []
    for view in Disclosure(data.release, data.collection).audiences(data.party_label, plural(data.party_label)):
        covered, bound = Bound.TRUSTED.value, "no limit: it must be trusted with this"
        if view.bound in names:
            covered = title_of(names[view.bound])
            bound = _right_in(guarantees[names[view.bound]])
            if data.seeded_noise and bound != "no limit":
                bound += ", were the noise real"
        lines.append(TableLine(view.who, (Cell(view.sees), Cell(covered), Cell(bound))))
    return Table(("who", "sees", "covered by", "guesses right in at most"), tuple(lines))


def _right_in(item: Guarantee) -> str:
    return "no limit" if math.isinf(item.epsilon) else out_of(surest_guess(item.epsilon, item.delta))


def _whole_party(data: ReportData, guarantees: Guarantees) -> str:
    if "guarantee_party" not in guarantees:
        return ""
    right = _right_in(guarantees["guarantee_party"])
    return f"For a whole {data.party_label} it is less: a guess is right in {right}."


def _unit(data: ReportData, item: Guarantee) -> str:
    """One of what is protected, in words."""
    word = data.party_label
    return {
        Unit.PARTY: f"one {word}, with all its records",
        Unit.RECORD: f"one record (a single case) of one {word}",
        Unit.PATIENT: f"one patient, with all records at one {word}",
    }[item.unit]


def _meaning(data: ReportData, item: Guarantee) -> tuple[str, ...]:
    protected = f"Protected is {_unit(data, item)}."
    if math.isinf(item.epsilon):
        return (protected, "There is no limit to what the release may tell about it.")
    added = item.neighbouring is Neighbouring.ADD_OR_REMOVE
    aims = "whether it took part at all" if added else "which of two versions of its data was used"
    guess = surest_guess(item.epsilon, item.delta)
    odds = rounded_up(guess / (1 - guess) if guess < 1 else math.inf)
    bound = f"is right in at most {out_of(guess)}" if out_of(guess) != ALWAYS else "may be right always"
    return (
        f"{protected} Suppose that somebody knows everything else and wonders {aims}. A coin is right in 50 of 100"
        f" such cases. Whoever has all {plural(data.release.noun)} that were released, and anything made from them,"
        f" {bound}, whatever they compute: odds of {odds} to 1.",
        f"What all {plural(data.party_label)} together teach is not hidden: that is what the student is for, and it"
        " would be learnt without any one of them as well.",
    )


def _beliefs(item: Guarantee) -> Table | None:
    chance = EXCEPTIONS * item.delta
    if math.isinf(item.epsilon) or chance >= 1:
        return None
    lines = tuple(
        TableLine(f"{100 * before:.0f} in 100", (Cell(in_hundred(surest_belief(before, item.epsilon, item.delta))),))
        for before in PRIORS
    )
    rarely = (
        f"except with a chance of at most 1 in {math.floor(1 / chance + 1e-6):,}" if chance else "without exception"
    )
    caption = f"How sure anybody can become of a claim about it, {rarely}:"
    return Table(("held likely before", "at most after"), lines, look="", caption=caption)

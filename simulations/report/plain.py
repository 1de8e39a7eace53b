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
from consilium.report import disclosure
from consilium.report.disclosure import Bound, Disclosure, out_of, surest_guess
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
    promised, word, words = guarantees[GUARANTEE], data.party_label, plural(data.party_label)
    level, reasons = verdict(promised.epsilon, promised.delta, data.parties, word, promised.unit)
    headline = f"{'No' if level == 'none' else level.capitalize()} protection"
    if data.seeded_noise:
        headline = f"Simulated: {headline.lower()}"
        reasons = (disclosure.SEEDED, "The guarantee below is that of the same run with real noise.", *reasons)
    if "guarantee_party" in guarantees:
        right = _right_in(guarantees["guarantee_party"])
        reasons = (*reasons, f"For a whole {word} it is less: a guess is right in {right}.")
    fixed = (
        "Fixed before anything was asked, for all queries that the budget allows. Epsilon, rounded up, bounds how far"
        " one unit can move what is released; delta is the room left for a mishap."
    )
    unit = {
        Unit.PARTY: f"one {word}, with all its records",
        Unit.RECORD: f"one record (a single case) of one {word}",
        Unit.PATIENT: f"one patient, with all records at one {word}",
    }[promised.unit]
    unprotected = "the noise follows a seed, and can be taken away" if data.seeded_noise else ""
    if math.isinf(promised.epsilon):
        unprotected = "the mechanism has no bound"
    people = disclosure.people(word, words, unit, unprotected)
    whose = tuple(TableLine(row.who, (Cell(row.protected), Cell(row.why))) for row in people)
    exhibits = (
        Exhibit("verdict", words=(Markup('<span class="level">{}</span> {}').format(headline, " ".join(reasons)),)),
        Exhibit("guarantee", "The guarantee", (fixed,), table=_claims(guarantees)),
        Exhibit("meaning", "What that means", _meaning(data, promised, unit), table=_beliefs(promised)),
        Exhibit("audiences", "Who sees what", (data.release.sentence,), table=audiences(data, guarantees)),
        Exhibit("people", "Whose rows are protected", table=Table(("whose rows", "protected", "why"), whose)),
    )
    return PagePart("plain", "In plain words", exhibits, look=f"card {level}{' simulated' * data.seeded_noise}")


def _claims(guarantees: Guarantees) -> Table:
    """Of what may be published: what was spent stands apart, and is secret."""
    pair = Markup('<span class="epsilon">{}</span> <span class="small">at delta {}</span>')
    lines = []
    for name, item in guarantees.items():
        if item.publishable:
            numbers = pair.format(disclosure.epsilon_text(item.epsilon), delta_text(item.delta))
            texts = (numbers, item.relation, f"the {item.towards}", KINDS[item.kind])
            lines.append(TableLine(title_of(name), tuple(map(Cell, texts))))
    return Table(("", "epsilon, delta", "for whom (the unit)", "towards whom", "kind"), tuple(lines))


def audiences(data: ReportData, guarantees: Guarantees) -> Table:
    """Who sees what, which guarantee covers it, and how often it lets them guess right; "none" where nothing does."""
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


def _meaning(data: ReportData, item: Guarantee, unit: str) -> tuple[str, ...]:
    protected = f"Protected is {unit}."
    if math.isinf(item.epsilon):
        return (protected, "There is no limit to what the release may tell about it.")
    added = item.neighbouring is Neighbouring.ADD_OR_REMOVE
    aims = "whether it took part at all" if added else "which of two versions of its data was used"
    guess = surest_guess(item.epsilon, item.delta)
    odds = disclosure.rounded_up(guess / (1 - guess) if guess < 1 else math.inf)
    sure = "may be right always" if out_of(guess) == disclosure.ALWAYS else f"is right in at most {out_of(guess)}"
    return (
        f"{protected} Suppose that somebody knows everything else and wonders {aims}. A coin is right in 50 of 100"
        f" such cases. Whoever has all {plural(data.release.noun)} that were released, and anything made from them,"
        f" {sure}, whatever they compute: odds of {odds} to 1.",
        f"What all {plural(data.party_label)} together teach is not hidden: that is what the student is for, and it"
        " would be learnt without any one of them as well.",
    )


def _beliefs(item: Guarantee) -> Table | None:
    chance = EXCEPTIONS * item.delta
    if math.isinf(item.epsilon) or chance >= 1:
        return None
    after = {before: in_hundred(surest_belief(before, item.epsilon, item.delta)) for before in PRIORS}
    lines = tuple(TableLine(f"{100 * before:.0f} in 100", (Cell(text),)) for before, text in after.items())
    rarely = f"except with a chance of at most 1 in {int(1 / chance + 1e-6):,}" if chance else "without exception"
    caption = f"How sure anybody can become of a claim about it, {rarely}:"
    return Table(("held likely before", "at most after"), lines, look="", caption=caption)

"""The first chapter, for readers without statistics: what is guaranteed, to whom, what that means, who is protected.

From the guarantee alone, which is public: the chapter is the same in both versions of the page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from markupsafe import Markup

from consilium.accounting.guarantees import Guarantee
from consilium.coordinator.privacy import NODES
from consilium.report import disclosure
from consilium.report.disclosure import UNITS, Bound, Disclosure, out_of, surest_guess
from consilium.report.exhibits import Cell, Exhibit, PagePart, Table, TableLine
from consilium.report.words import delta_text, plural
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.guarantees import GUARANTEE, KINDS, title_of
from consilium.simulations.report.meaning import verdict

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

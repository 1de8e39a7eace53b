"""The third chapter: what was asked, released and spent, and how each epsilon was computed; folded, how it was run."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from markupsafe import Markup

from consilium.accounting.guarantees import Guarantee
from consilium.models.evaluation import wilson
from consilium.protocol.releases import ReleaseKind
from consilium.report.charts import histogram
from consilium.report.disclosure import HOW_COLLECTED, epsilon_text
from consilium.report.exhibits import Cell, Chart, Exhibit, PagePart, Table, TableLine, pairs, without_blanks
from consilium.report.words import many, plural
from consilium.simulations.report.classes import MOST
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.guarantees import GUARANTEE, KINDS, title_of


def privacy_part(data: ReportData, guarantees: Mapping[str, Guarantee]) -> PagePart:
    """Secret in it: what was spent, how far the parties agreed, and how long each stage took."""
    word, collected = data.party_label, HOW_COLLECTED[data.collection]
    if guarantees[GUARANTEE].teachers_per_party == 1:
        collected += f" Each {word} has one teacher, so the guarantee of a record is also that of the whole {word}."
    exhibits = [_asked(data), _consensus(data), _accounting(guarantees), _configuration(data), _seconds(data)]
    return PagePart("privacy", "Privacy", without_blanks(exhibits), (collected,))


def _asked(data: ReportData) -> Exhibit:
    """What became of the queries, and how many labels are right."""
    queries, answers = len(data.answered), int(np.count_nonzero(data.answered))
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
    """How many of the released labels are right, beside what always naming the commonest class would give."""
    matrix, noun = data.open_figures.get("labels") or [], "released labels"
    if data.release is ReleaseKind.COUNTS:
        noun = "largest noisy counts"
    truth = [sum(row) for row in matrix]
    if not (total := sum(truth)):
        return f"How many {noun} are right, nobody can say."
    right, most = sum(row[index] for index, row in enumerate(matrix)), max(truth)
    low, high = wilson(right, total)
    worth = " By class they may say more than that: see the last chapter." if right <= most + 0.02 * total else ""
    return (
        f"Of {total:,} {noun} {right / total:.0%} are right (95% interval {low:.0%} to {high:.0%}, Wilson); always"
        f" naming “{data.classes[truth.index(most)]}” would be right for {most / total:.0%} of the same cases.{worth}"
    )


def _consensus(data: ReportData) -> Exhibit | None:
    if not len(data.consensus):
        return None
    words = (
        "Each query stands at the share of the votes that its most voted class got: left they are split, right"
        f" unanimous. Half of the queries lie at {np.median(data.consensus):.0%} or above. Large noise makes a"
        " mechanism abstain anywhere."
    )
    titles = ("share of the votes for the top class", "queries")
    drawing = histogram(data.consensus, data.answered, titles, ("answered", "abstained"))
    title, chart = f"How far the {plural(data.party_label)} agreed", Chart(f"Histogram. {words}", (("", drawing),))
    return Exhibit("consensus", title, (words,), chart=chart, secret=True)


def _accounting(guarantees: Mapping[str, Guarantee]) -> Exhibit:
    """What was spent, and how each figure was computed. What was guaranteed has its number in the first chapter."""
    lines = []
    for name, item in guarantees.items():
        order = f", order {item.order:g}" if math.isfinite(item.order) else ""
        number = Markup('<span class="epsilon">{}</span>').format(epsilon_text(item.epsilon))
        spent = Cell("above" if item.publishable else number, KINDS[item.kind])
        how = Cell(f"{item.neighbouring}; {item.direction}; {item.method}{order}")
        lines.append(TableLine(title_of(name), (spent, how), "" if item.publishable else "secret"))
    secret = any(not item.publishable for item in guarantees.values())
    words = ("Spent is what these votes came to. It is chosen after the fact: publish the guarantee.",) * secret
    table = Table(("", "epsilon", "neighbours, direction, method"), tuple(lines))
    return Exhibit("accounting", "For the accountant", words, table=table, secret=secret)


def _configuration(data: ReportData) -> Exhibit:
    classes = ", ".join(data.classes)
    if len(data.classes) > MOST:
        classes = f"{len(data.classes)}, from {data.classes[0]} to {data.classes[-1]}"
    rows = {
        "scenario": data.scenario,
        "engine": data.engine,
        "parties": f"{data.parties:,}{' invited' * data.public}, {many(data.teachers, 'teacher')}",
        "noise": "seeded" if data.seeded_noise else "operating system entropy",
        "seed": "–" if data.seed is None else data.seed,
        "classes": classes,
        "started": data.created,
        **data.versions,
    }
    return Exhibit("configuration", "Configuration and versions", table=pairs([*rows.items()]), look="folded")


def _seconds(data: ReportData) -> Exhibit | None:
    """Secret: seconds follow from rows as votes do."""
    rows = [(name, f"{took:,.2f} s") for name, took in data.seconds.items()]
    return Exhibit("seconds", "Seconds of each stage", table=pairs(rows), look="folded", secret=True) if rows else None

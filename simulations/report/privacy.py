"""The third chapter: what was asked, released and spent, and how each epsilon was computed; folded, how it was run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup

from consilium.accounting.guarantees import Guarantee
from consilium.protocol.releases import ReleaseKind
from consilium.report.charts import bars, histogram
from consilium.report.disclosure import Disclosure
from consilium.report.exhibits import Cell, Chart, Exhibit, PagePart, Table, TableLine, pairs, without_blanks
from consilium.report.words import many, plural
from consilium.simulations.metrics import wilson
from consilium.simulations.report.classes import MOST
from consilium.simulations.report.data import ReportData
from consilium.simulations.report.guarantees import GUARANTEE, title_of
from consilium.simulations.report.plain import claims

BOUNDS = Markup(
    "A guess between two versions of the data that are as likely before is right with probability at most"
    " (e<sup>ε</sup> + δ) / (1 + e<sup>ε</sup>), however it is made (Kairouz, Oh, Viswanath 2015, theorem 2.1). The"
    " odds of a belief grow at most by the factor e<sup>ε</sup> / (1 − δ/c), save with probability c (after"
    " Kasiviswanathan, Smith 2014, lemma 3.3). Here c is 100 δ. Everything is rounded up. Both hold for any statement"
    " about what is protected, and whatever else is known."
)


def privacy_part(data: ReportData, guarantees: Mapping[str, Guarantee]) -> PagePart:
    """What is secret in it: what was spent, how far the parties agreed, and how long each stage took."""
    promised, word = guarantees[GUARANTEE], data.party_label
    words = [Disclosure(data.release, data.collection).how_collected()]
    if promised.teachers_per_party == 1:
        words.append(
            f"Each {word} has one teacher, so the guarantee of a record is also the guarantee of the whole {word}."
        )
    exhibits = [
        Exhibit("collected", words=tuple(words)),
        _asked(data),
        _consensus(data),
        _spent(guarantees),
        _computed(guarantees),
        Exhibit("bounds", "How the plain words follow from epsilon and delta", (BOUNDS,), look="folded")
        if math.isfinite(promised.epsilon)
        else None,
        _configuration(data),
        _seconds(data),
    ]
    return PagePart("privacy", "Privacy", without_blanks(exhibits), look="columns broad")


def _asked(data: ReportData) -> Exhibit:
    """What became of the queries, and how many labels are right."""
    queries, answers = len(data.answered), int(np.count_nonzero(data.answered))
    counts = {
        "answered": answers,
        **({"confirmed": data.reinforced} if data.reinforced else {}),
        "abstained": queries - answers - data.reinforced,
        "never asked": max(data.most_queries - queries, 0),
    }
    total = max(sum(counts.values()), 1)
    ends = f"{many(data.most_queries, 'query')} are asked"
    if data.release.abstains:
        ends += f" or {many(data.most_answers, 'label')} are released"
    words = [f"{data.mechanism}. The run ends when {ends}."]
    if data.reinforced:
        words.append("Confirmed: the votes do not contradict the student’s own prediction.")
    values = {name: (count, f"{count:,} ({count / total:.0%})") for name, count in counts.items()}
    chart = Chart("; ".join(f"{name}: {text}" for name, (_, text) in values.items()), (("", bars(values)),))
    return Exhibit("asked", "What was asked, and what was released", (*words, labels_explained(data)), chart=chart)


def labels_explained(data: ReportData) -> str:
    """How many of the released labels are right, beside what always naming the commonest class would give."""
    matrix: Sequence[Sequence[int]] = data.open_figures.get("labels") or []
    noun = "largest noisy counts" if data.release is ReleaseKind.COUNTS else "released labels"
    truth = [sum(row) for row in matrix]
    total = sum(truth)
    if not total:
        answers, right = int(np.count_nonzero(data.answered)), data.released_label_accuracy
        known = right is not None and answers
        return f"Of the {noun} {right:.0%} are right." if known else f"How many {noun} are right, nobody can say."
    right, most = sum(row[index] for index, row in enumerate(matrix)), max(truth)
    low, high = wilson(right, total)
    words = (
        f"Of {total:,} {noun} {right / total:.0%} are right (95% interval {low:.0%} to {high:.0%}, Wilson). Always"
        f" naming “{data.classes[truth.index(most)]}” would be right for {most / total:.0%} of the same cases."
    )
    if right > most + 0.02 * total:
        return words
    recalls = [row[index] / of for index, (row, of) in enumerate(zip(matrix, truth, strict=True)) if of]
    balanced, constant = sum(recalls) / len(recalls), 1 / len(recalls)
    if len(recalls) < 2 or balanced <= constant + 0.02:
        return f"{words} They tell no more than that."
    return (
        f"{words} They are worth more all the same: classes are not equally frequent. In the mean over classes"
        f" {balanced:.0%} are found; the constant answer finds {constant:.0%}."
    )


def _consensus(data: ReportData) -> Exhibit | None:
    if not len(data.consensus):
        return None
    middle = f"{np.median(data.consensus):.0%}"
    words = (
        "Each query stands at the share of the votes that its most voted class got: left they are split, right"
        f" unanimous. Half of the queries lie at {middle} or above. Large noise makes a mechanism abstain anywhere."
    )
    titles = ("share of the votes for the top class", "queries")
    drawing = histogram(data.consensus, data.answered, titles, ("answered", "abstained"))
    chart = Chart(f"Histogram of consensus over {len(data.consensus)} queries, median {middle}.", (("", drawing),))
    title = f"How far the {plural(data.party_label)} agreed"
    return Exhibit("consensus", title, (words,), chart=chart, secret=True)


def _spent(guarantees: Mapping[str, Guarantee]) -> Exhibit | None:
    """What the votes came to; in words where that is the whole guarantee. Secret."""
    spent = {name: item for name, item in guarantees.items() if not item.publishable}
    promised, title = guarantees[GUARANTEE], "What was spent"
    if not spent:
        return None
    if all((item.epsilon, item.relation) == (promised.epsilon, promised.relation) for item in spent.values()):
        whole = "The whole guarantee: the query budget was used up, and these votes gave nothing to save."
        return Exhibit("spent", title, (whole,), secret=True)
    why = "Chosen after the fact, or a function of the votes: publish the guarantee instead."
    return Exhibit("spent", title, (why,), table=claims(spent), secret=True)


def _computed(guarantees: Mapping[str, Guarantee]) -> Exhibit:
    lines = tuple(
        TableLine(
            title_of(name),
            (
                Cell(item.neighbouring),
                Cell("; ".join([item.direction, item.method] + [f"order {item.order:g}"] * math.isfinite(item.order))),
            ),
        )
        for name, item in guarantees.items()
    )
    columns = ("guarantee or cost", "neighbouring data", "how it was computed")
    return Exhibit("accounting", "For the accountant", table=Table(columns, lines, look="cards span"))


def _configuration(data: ReportData) -> Exhibit:
    classes = ", ".join(data.classes)
    if len(data.classes) > MOST:
        classes = f"{len(data.classes)}, from {data.classes[0]} to {data.classes[-1]}"
    rows = [
        ("scenario", data.scenario),
        ("engine", data.engine),
        ("mechanism", data.mechanism),
        ("query budget", f"{many(data.most_queries, 'query')}, {many(data.most_answers, 'answer')}"),
        (plural(data.party_label), f"{data.parties:,}{' invited' * data.public}, {many(data.teachers, 'teacher')}"),
        ("noise", "seeded" if data.seeded_noise else "operating system entropy"),
        ("seed", "–" if data.seed is None else data.seed),
        ("classes", classes),
        ("started", data.created),
        *data.versions.items(),
    ]
    return Exhibit("configuration", "How it was run: configuration and versions", table=pairs(rows), look="folded")


def _seconds(data: ReportData) -> Exhibit | None:
    """Secret: seconds follow from rows as votes do."""
    if not data.seconds:
        return None
    rows = [(name, f"{took:,.2f} s") for name, took in data.seconds.items()]
    words = "Stages as the coordinator timed them, until this page was drawn. No node records bytes."
    return Exhibit("seconds", "How long each stage took", (words,), table=pairs(rows), look="folded", secret=True)

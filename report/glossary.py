"""The words of Consilium: what each means here, and what others say. The glossary of the site, and reports, have them
from here."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from consilium.report.exhibits import Cell, Table, TableLine


@dataclass(frozen=True)
class Term:
    """word: or several, with commas. means: as Markdown, without links. others: what others say. page: of the site, as
    a link in Markdown."""

    word: str
    means: str
    others: str = ""
    page: str = ""


GLOSSARY: dict[str, tuple[Term, ...]] = {
    "Who takes part": (
        Term(
            "party",
            "an organisation that holds rows: a hospital, a school, a bank",
            "client, site, data owner, silo",
            "[parties](deploy.md)",
        ),
        Term(
            "coordinator",
            "collects votes, adds noise where parties do not, keeps the ledger, answers students",
            "server, aggregator, curator",
            "[for IT](for-it.md)",
        ),
        Term(
            "second aggregator",
            "a second organisation that checks votes without seeing them",
            "helper, non-colluding server",
            "[two aggregators](secure-aggregation.md#two-aggregators)",
        ),
        Term(
            "student node",
            "asks about public rows and trains the model that is published",
            "learner",
            "[deploy](deploy.md)",
        ),
        Term(
            "node, site folder",
            "a party's, coordinator's, second aggregator's or student's machine; the folder with its keys and state",
            "client, home",
            "[install](install.md)",
        ),
    ),
    "The method": (
        Term(
            "PATE",
            "private aggregation of teacher ensembles: models of private rows vote on public ones, and noisy "
            "votes teach a student",
            "private knowledge transfer, private distillation",
            "[tutorial](tutorial.md)",
        ),
        Term(
            "teacher",
            "a model that a party trains on its own rows; it never leaves the party",
            "local model",
            "[models](models.md)",
        ),
        Term(
            "student",
            "the model that learns from what was released, and the only model that is published",
            "distilled model",
            "[published student](published-student.md)",
        ),
        Term(
            "public rows",
            "rows that are asked about in the open; nothing protects them",
            "unlabeled public data, auxiliary data, queries",
            "[which rows are public](data.md#which-rows-are-public)",
        ),
        Term(
            "vote",
            "the class that a teacher says for a public row",
            "prediction, ballot",
            "[voting rules](scenarios.md)",
        ),
        Term(
            "mechanism",
            "how noise is added and what is released: counts (`histogram`), a winner (`gnmax`, `lnmax`), a winner"
            " if the vote is clear (`confident`), or if the student is not sure already (`interactive`)",
            "aggregator, noisy argmax",
            "[scenarios](scenarios.md)",
        ),
        Term(
            "released labels, released counts",
            "what a student gets of a query",
            "answers",
            "[what leaves](for-privacy-officers.md)",
        ),
        Term(
            "public labels",
            "true labels of some public rows that everybody knows",
            "semi-private, seed set",
            "[with public labels](published-student.md#with-public-labels)",
        ),
    ),
    "Privacy": (
        Term(
            "epsilon, delta",
            "how far one unit can change the probability of anything that is released: a factor e^epsilon, but "
            "for a probability delta",
            "privacy loss, privacy budget, differential privacy",
            "[for privacy officers](for-privacy-officers.md)",
        ),
        Term(
            "unit",
            "whose data are protected: a record, a patient or a whole party",
            "granularity, user-level, record-level, client-level",
            "[for privacy officers](for-privacy-officers.md#what-is-guaranteed)",
        ),
        Term(
            "relation",
            "what a neighbour is: a unit is replaced, or added and removed",
            "adjacency, neighbouring data sets",
        ),
        Term(
            "guarantee",
            "epsilon, delta, unit and relation that are fixed before the run and hold whatever the votes are",
            "promise, worst-case epsilon, data-independent bound",
            "[accounting](accounting.md)",
        ),
        Term(
            "spent",
            "the epsilon at what came out; secret, since it depends on the votes",
            "realised epsilon",
            "[accounting](accounting.md)",
        ),
        Term(
            "query budget",
            "how many queries may be asked and answered",
            "cap, number of queries",
            "[scenarios](scenarios.md)",
        ),
        Term(
            "ledger", "the chained record of all that was released and charged", "accountant's log", "[audit](audit.md)"
        ),
        Term(
            "collection",
            "who can see votes: `plaintext`, `secure` (masks, noise of the parties' own), `verified` (two aggregators)",
            "secure sum, SecAgg, distributed noise",
            "[secure aggregation](secure-aggregation.md)",
        ),
        Term(
            "audit",
            "a check of ledger, labels and every stated epsilon; of a mechanism, by playing it",
            "empirical privacy",
            "[audit](audit.md)",
        ),
        Term(
            "attack",
            "who could find a record, a patient or a hospital in what was released",
            "membership inference, poisoning, backdoor, malicious or Byzantine client",
            "[threat model](threat-model.md)",
        ),
    ),
    "Studies": (
        Term(
            "scenario",
            "one file that says data, federation and student",
            "config, experiment",
            "[scenarios](scenarios.md)",
        ),
        Term(
            "division",
            "how rows belong to parties: as nature divided them, or made: Dirichlet, shards, by time",
            "partition, split, non-iid, heterogeneity",
            "[divisions](scenarios.md#partitions)",
        ),
        Term(
            "shift",
            "which kind of difference parties have: label, covariate, concept, quantity",
            "distribution shift, domain shift, batch effect",
            "[which kind](study.md#what-is-measured)",
        ),
        Term(
            "one party alone, plurality, pooled",
            "the average model of one party; all votes without noise; one model of all rows",
            "single-site, non-private ensemble, centralised",
            "[methods](study.md)",
        ),
        Term(
            "noisy average, private FedAvg, private gradient descent",
            "rivals with the same guarantee",
            "DP-FedAvg, DP-SGD, federated learning",
            "[rivals](federated.md)",
        ),
        Term(
            "label equivalent",
            "how many labels by hand teach as much as the student",
            "manual labels baseline, annotation cost",
            "[report](report.md)",
        ),
    ),
}
"""By title of their table."""
_BY_WORD = {word: term for terms in GLOSSARY.values() for term in terms for word in term.word.split(", ")}


def term(word: str, shown: str = "") -> Markup:
    """A word where it first stands on a page: its meaning on hover, and a link to the page's list of words.

    shown: the word as it stands there, where it has another form.

    >>> term("spent", "Spent")
    Markup('<a class="term" href="#word-spent" title="the epsilon at what came out; secret, since it depends on \
the votes">Spent</a>')
    """
    link = Markup('<a class="term" href="#{}" title="{}">{}</a>')
    return link.format(_place(word), _means(_BY_WORD[word]), shown or word)


def words_table(words: tuple[str, ...]) -> Table:
    """The meanings of these words, and where the links of `term` lead; two words of one entry have one line."""
    lines = []
    for entry in dict.fromkeys(_BY_WORD[word] for word in words):
        places = [Markup('<span id="{}">{}</span>').format(_place(word), word) for word in entry.word.split(", ")]
        lines.append(TableLine(Markup(", ").join(places), (Cell(_means(entry)), Cell(entry.others or "–"))))
    return Table(("word", "means", "others say"), tuple(lines))


def _place(word: str) -> str:
    return f"word-{word.replace(' ', '-')}"


def _means(entry: Term) -> str:
    return entry.means.replace("`", "")

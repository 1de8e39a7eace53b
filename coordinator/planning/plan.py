"""From a federation's table without a mechanism to one with it, and what to expect: ranges, noise in plain numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError

from consilium.accounting.errors import AccountingError, CalibrationError
from consilium.accounting.target import worst_case
from consilium.coordinator.config import Federation, QueryBudget
from consilium.coordinator.planning.candidates import Candidate, candidates
from consilium.coordinator.planning.facts import MOST_ROWS, PublicFacts
from consilium.coordinator.planning.rehearsal import LEARNERS, Entry, Outcomes, Rehearsal, TaskSet, made_up, ranked
from consilium.coordinator.planning.tasks import FeatureMap
from consilium.protocol.config_files import faults_of, in_one, validate
from consilium.protocol.errors import ConfigError
from consilium.protocol.models import Frozen
from consilium.protocol.releases import ReleaseKind
from consilium.protocol.voting_rule import RelativeRule
from consilium.report.disclosure import epsilon_text
from consilium.report.row_warnings import budget_above_rows
from consilium.report.warnings import WarningCode
from consilium.sums.roster import least_sum

COVERED = 0.95
"""Share of the tasks that a range holds, an equal share left out on each side. It was .9 until ranges held too few of
the real students on which the prior was chosen; docs/planning.md says how often it holds."""
MARGIN = 0.05
"""By so much a student must be better than guessing to be worth anything: AUC .55 finds next to nobody."""
LIKELY = 2 / 3
"""On this share of the tasks it must be: by chance alone a student of pure noise is on up to half of them."""
UNANIMOUS = 0.5
"""How far a vote on which all agree is from an undecided one of two classes, as a share of the votes."""


@dataclass(frozen=True)
class Interval:
    """Middle and ends of what came out on the tasks."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray) -> Interval | None:
        """Of float64 (tasks,), NaN where there is no value; None where there is none at all."""
        known = values[~np.isnan(values)]
        if not len(known):
            return None
        low, median, high = np.quantile(known, [(1 - COVERED) / 2, 0.5, (1 + COVERED) / 2])
        return cls(float(low), float(median), float(high))

    def __str__(self) -> str:
        return f"{self.low:.2f} to {self.high:.2f}, median {self.median:.2f}"


@dataclass(frozen=True)
class NoiseInVotes:
    """The noise in plain numbers.

    on_count: standard deviation on one count of one query, in votes, of which each query has `votes`.
    directions: independent directions of the public rows, weighed by their size. on_share: standard deviation of the
    share of the votes that a linear student predicts from all answers together, about sqrt(directions sigma^2 /
    answers) / votes; a label tells less.
    """

    on_count: float
    votes: int
    directions: float
    on_share: float

    @classmethod
    def of(cls, federation: Federation, facts: PublicFacts, features: FeatureMap) -> NoiseInVotes | None:
        """Of a federation whose mechanism adds Gaussian noise to counts; None otherwise."""
        sigma = federation.mechanism.count_sigma(federation.givers(facts.parties)) or federation.event(0, 0).label_sigma
        if not sigma:
            return None
        sizes = features.linear(facts.rows).var(axis=0)
        directions = float(sizes.sum() ** 2 / max((sizes**2).sum(), 1e-300))
        answers = min(federation.query_budget.answers, facts.different)
        on_share = math.sqrt(directions * sigma**2 / answers) / facts.votes
        return cls(sigma, facts.votes, directions, on_share)


EXPECT_NOTHING = "expect-nothing"
"""Code of the caution that a student will hardly be better than guessing."""

STUDENT_UNTRIED = "student-untried"
"""The same of the students that a plan tries, where the file has another one."""


@dataclass(frozen=True)
class Caution:
    """Something to know before anything is spent. code: for programs. text: what, value, limit, what to do."""

    code: str
    text: str


@dataclass(frozen=True)
class StudentForecast:
    """Of one federation with one student. metric: of `student`, "auc" for two classes, "accuracy" for more.

    student, accuracy, labels_right: over the tasks; labels_right None where no label is released. guessing: what no
    student reaches in `metric`. better_than_guessing: share of the tasks on which the student is, by `MARGIN`.
    noise_deviation: standard deviation of `metric` over noise alone, on the same votes; None where it was not tried.
    """

    source: str
    tasks: int
    metric: str
    student: Interval
    accuracy: Interval
    labels_right: Interval | None
    guessing: float
    better_than_guessing: float
    noise_deviation: float | None

    @classmethod
    def of(cls, outcomes: Outcomes, classes: int, source: str) -> StudentForecast:
        """From what came out on the tasks."""
        student, accuracy = Interval.of(outcomes.quality), Interval.of(outcomes.accuracy)
        if student is None or accuracy is None:
            raise ValueError("a forecast needs tasks")
        return cls(
            source=source,
            tasks=len(outcomes.quality),
            metric="auc" if classes == 2 else "accuracy",
            student=student,
            accuracy=accuracy,
            labels_right=Interval.of(outcomes.right),
            guessing=float(outcomes.floor.mean()),
            better_than_guessing=float((outcomes.quality > outcomes.floor + MARGIN).mean()),
            noise_deviation=outcomes.noise_deviation,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "covered": COVERED}

    def lines(self) -> list[str]:
        """For people."""
        name = {"auc": "AUC", "accuracy": "accuracy"}[self.metric]
        lines = [f"student's {name} {self.student} (guessing: {self.guessing:.2f})"]
        if self.noise_deviation is not None:
            lines.append(f"noise alone moves that {name} by ±{self.noise_deviation:.2f}, one standard deviation")
        if self.metric != "accuracy":
            lines.append(f"student's accuracy {self.accuracy}")
        if self.labels_right is not None:
            lines.append(f"share of labels right {self.labels_right}")
        return [*lines, f"ranges hold {COVERED:.0%} of {self.tasks} {self.source}"]


def _by_hand(facts: PublicFacts) -> str:
    return f", or label public rows: one label takes {facts.label_cost}" if facts.label_cost else ""


def cautions(
    forecast: StudentForecast,
    noise: NoiseInVotes | None,
    facts: PublicFacts,
    epsilon: float,
    queries: int,
    untried: str = "",
) -> list[Caution]:
    """What to say before anything is spent. queries: most that the query budget allows. untried: the file's own
    trainer, where it is none of those that a plan tries."""
    beyond = budget_above_rows(queries, facts.different)
    unused = [Caution(WarningCode.BUDGET_ABOVE_ROWS.value, beyond)] if beyond else []
    if forecast.better_than_guessing >= LIKELY:
        return unused
    if untried:
        text = (
            f"with {facts.parties} parties at epsilon {epsilon:.3g} no linear or kernel student is better than"
            f" guessing by {MARGIN:g} on {1 - forecast.better_than_guessing:.0%} of the tasks. The file's own trainer,"
            f" {untried}, is not among those that a plan tries: this says nothing of it. Try it on labelled public rows"
        )
        return [Caution(STUDENT_UNTRIED, text), *unused]
    drowned = noise is not None and noise.on_share >= UNANIMOUS
    return [
        Caution(
            EXPECT_NOTHING,
            f"with {facts.parties} parties at epsilon {epsilon:.3g}"
            f"{' the noise is larger than any vote:' if drowned else ''} expect nothing: on"
            f" {1 - forecast.better_than_guessing:.0%} of the tasks the student is not better than guessing by"
            f" {MARGIN:g}, at most {1 - LIKELY:.0%} would do. Find more parties or raise epsilon{_by_hand(facts)}",
        ),
        *unused,
    ]


AUTO = "auto"
_ANY_NOISE = 9_999.0
"""Of a mechanism that stands in the table until there is a plan: within any epsilon."""
Progress = Callable[[int, int], None]
"""Told how many candidates were tried, of how many."""
Tasks = Callable[[PublicFacts, FeatureMap], TaskSet]
"""Where tasks come from."""


class PlannedMechanism(Frozen):
    """Planned from public facts before the run: mechanism, noise, query budget and, where it is left out, the voting
    rule of two classes, see docs/planning.md; needs `privacy.epsilon`. `query_budget` may be left out;
    `query_budget.queries` is then a limit."""

    name: Literal["auto"] = AUTO


@dataclass(frozen=True)
class PlannedFederation:
    """A federation that is planned, or whose own plan was looked at.

    federation: resolved. epsilon: towards the student and the public; epsilon_nodes: towards the coordinator, None
    where it sees exact sums, or votes. trainer: a table `[student.trainer]` for it. runner_up: the best with another
    mechanism. rule_planned: whether the voting rule is the plan's, too.
    """

    facts: PublicFacts
    federation: Federation
    trainer: dict[str, Any]
    forecast: StudentForecast
    runner_up: tuple[Candidate, StudentForecast] | None
    noise: NoiseInVotes | None
    epsilon: float
    epsilon_nodes: float | None
    cautions: list[Caution]
    rule_planned: bool = False

    @property
    def expects_nothing(self) -> bool:
        """Whether a student will hardly be better than guessing."""
        return any(caution.code == EXPECT_NOTHING for caution in self.cautions)

    @property
    def table(self) -> dict[str, Any]:
        """What the plan adds to a table `[federation]`, plain values."""
        planned = {"mechanism", "query_budget"} | ({"voting_rule"} if self.rule_planned else set())
        return self.federation.model_dump(mode="json", include=planned)

    @property
    def student(self) -> dict[str, Any]:
        """What the plan adds to a table `[student]`, plain values."""
        tells = self.rule_planned and self.federation.voting_rule.by_class_shares
        return {"trainer": self.trainer, **({"prevalence": "votes"} if tells else {})}

    def lines(self) -> list[str]:
        """For people."""
        facts, privacy = self.facts, self.federation.privacy
        planned = Candidate({}, self.federation.mechanism, self.federation.query_budget)
        lines = [
            f"{facts.parties} parties, {facts.votes} votes on a query, {facts.classes} classes, {facts.public_rows}",
            f"plan       {planned.described()}{self.federation.voting_rule.describe()}",
            f"promise    epsilon {epsilon_text(self.epsilon)} at delta {privacy.delta:g}; unit: {privacy.unit.value};"
            " towards the student and the public",
            f"nodes      {self.federation.disclosure.towards_nodes(self.epsilon_nodes or 0)}",
            f"student    {', '.join(f'{key} {value}' for key, value in self.trainer.items())}",
        ]
        if self.noise is not None:
            lines.append(
                f"noise      ±{self.noise.on_count:.4g} on a count of at most {facts.votes} votes; from all answers"
                f" together a share of the votes is known to ±{self.noise.on_share:.2f}"
            )
        lines += [f"forecast   {line}" for line in self.forecast.lines()]
        if facts.label_cost:
            lines.append(f"by hand    one label takes {facts.label_cost}")
        if self.runner_up is not None:
            candidate, forecast = self.runner_up
            lines.append(f"runner-up  {candidate.described()}: {forecast.lines()[0]}")
        return [*lines, *(f"WARNING    {caution.text}" for caution in self.cautions)]

    def to_json(self) -> dict[str, Any]:
        """Plain values, strict JSON."""
        facts, runner_up = self.facts, None
        if self.runner_up is not None:
            candidate, forecast = self.runner_up
            runner_up = {
                "mechanism": candidate.mechanism.model_dump(mode="json"),
                "query_budget": candidate.query_budget.model_dump(mode="json"),
                "forecast": forecast.to_json(),
            }
        return {
            "facts": {
                "parties": facts.parties,
                "teachers_per_party": facts.teachers_per_party,
                "classes": facts.classes,
                "voting_rule": facts.voting_rule,
                "public_rows": facts.available,
                "different_rows": facts.different,
                "label_cost": facts.label_cost,
            },
            "federation_digest": self.federation.federation_digest(),
            **self.table,
            "trainer": self.trainer,
            "epsilon": self.epsilon,
            "epsilon_nodes": self.epsilon_nodes,
            "delta": self.federation.privacy.delta,
            "noise": None if self.noise is None else asdict(self.noise),
            "forecast": self.forecast.to_json(),
            "runner_up": runner_up,
            "warnings": [asdict(caution) for caution in self.cautions],
        }


def is_open(federation: Mapping[str, Any]) -> bool:
    """Whether a table `[federation]` leaves its mechanism to a plan: it is "auto", or left out beside an epsilon."""
    mechanism, privacy = federation.get("mechanism"), federation.get("privacy")
    if isinstance(mechanism, dict):
        return mechanism.get("name") == AUTO
    return mechanism is None and isinstance(privacy, dict) and privacy.get("epsilon") is not None


def stand_in(federation: Mapping[str, Any]) -> dict[str, Any]:
    """An open table with the least of mechanisms, so that all else in it can be checked and used before the plan.

    Raises
    ------
    ConfigError : it says nothing that could be planned to.
    """
    mechanism, privacy = federation.get("mechanism"), federation.get("privacy")
    if mechanism is not None:
        validate(dict(mechanism), PlannedMechanism, "federation.mechanism")
    if isinstance(privacy, dict) and privacy.get("epsilon") is None:
        raise ConfigError(
            "federation.mechanism is to be planned, but federation.privacy.epsilon is left out: there is nothing to"
            " plan to",
            "Set federation.privacy.epsilon, for example 1.0",
        )
    _check_no_schedule(federation.get("schedule"))
    return {
        **federation,
        "mechanism": {"name": "gnmax", "sigma": _ANY_NOISE},
        "query_budget": {"queries": 1, "answers": 1},
    }


def plan(
    federation: Mapping[str, Any],
    facts: PublicFacts,
    most_queries: int,
    tasks: Tasks = made_up,
    progress: Progress = lambda done, total: None,
) -> PlannedFederation:
    """Choose mechanism, noise, query budget and student for an open table `[federation]`.

    most_queries: limit of the parties' policies. tasks: where tasks come from.

    Raises
    ------
    ConfigError : no noise keeps the epsilon, parties may have weights, or the table is wrong.
    """
    _check_alike(federation.get("most_weight", 1))
    table = {key: value for key, value in federation.items() if key not in ("mechanism", "query_budget")}
    most = min(len(facts.rows), most_queries, _stated_limit(federation))
    features = FeatureMap.of(facts.rows)
    options = _options(table, facts)
    entries = []
    for option in options:
        try:
            tried = [candidate for candidate in candidates(option.table, option.facts, most) if option.suits(candidate)]
        except ValidationError as error:
            raise ConfigError(in_one("federation", faults_of(error, Federation, dict(federation)))) from None
        except CalibrationError as error:
            raise ConfigError(f"federation: {error}") from None
        if tried:
            entries.append(Entry(option.facts, tried, tasks(option.facts, features)))
    ranking = ranked(features, entries, progress)
    best, known, task_set = ranking.best, ranking.entry.facts, ranking.entry.task_set
    option = next(option for option in options if option.facts is known)
    query_budget = best.candidate.query_budget.model_dump()
    resolved = validate(
        {**option.table, "mechanism": best.candidate.table, "query_budget": query_budget},
        Federation,
        "federation, planned",
    )
    second = ranking.runner_up
    other = None if second is None else (second.candidate, StudentForecast.of(second, facts.classes, task_set.source))
    return replace(_told(known, features, resolved, best, task_set, other), rule_planned=len(options) > 1)


@dataclass(frozen=True)
class _Option:
    """One voting rule: the table `[federation]` with it, and what is known then."""

    table: dict[str, Any]
    facts: PublicFacts

    def suits(self, candidate: Candidate) -> bool:
        """Whether a student can make decisions of what the candidate releases: of winners relative to a threshold, or
        of none, it cannot tell how frequent the classes are."""
        return self.facts.voting_rule != "class_shares" or candidate.mechanism.releases is ReleaseKind.COUNTS


def _options(table: dict[str, Any], facts: PublicFacts) -> list[_Option]:
    """As the table says; or, where it leaves the voting rule of two classes out, by class shares first: on the
    development divisions they were better in the mean with one teacher a party and with up to ten."""
    stated = _Option(table, facts)
    if "voting_rule" in table or facts.classes != 2:
        return [stated]
    rule = RelativeRule(class_shares=True).model_dump(mode="json")
    return [_Option({**table, "voting_rule": rule}, replace(facts, voting_rule="class_shares")), stated]


def look_at(federation: Federation, facts: PublicFacts, tasks: Tasks = made_up, trainer: str = "") -> PlannedFederation:
    """What to expect of a federation that has its mechanism already, with the best student of those that are tried.

    trainer: name of the one that the file has; empty where it leaves that open.

    Raises
    ------
    ConfigError : its labels depend on what the student believes, or on weights, which no plan knows.
    """
    _check_no_schedule(federation.schedule)
    if federation.mechanism.needs_probabilities:
        raise ConfigError(
            f"mechanism {federation.mechanism.name} answers to what the student believes, which is not known before",
            'Plan another: --set federation.mechanism.name="auto"',
        )
    _check_alike(federation.most_weight)
    features = FeatureMap.of(facts.rows)
    task_set = tasks(facts, features)
    stated = Candidate({}, federation.mechanism, federation.query_budget)
    stage = Rehearsal(features, facts, task_set.judged)
    best = max(stage.rehearse(stated, task_set.tasks), key=lambda outcome: outcome.expected)
    return _told(facts, features, federation, stage.with_noise(best, task_set.tasks), task_set, None, trainer)


def _check_no_schedule(schedule: object) -> None:
    """Raise ConfigError where there are several phases: a plan is for one mechanism."""
    if schedule:
        raise ConfigError(
            "federation.schedule has further stages, and a plan is for one mechanism",
            "Plan without it, or state every stage; noise that stages leave out is calibrated to privacy.epsilon",
        )


def _check_alike(most_weight: object) -> None:
    """Raise ConfigError where parties may have weights: they follow from policies that no plan knows."""
    if most_weight != 1:
        raise ConfigError(
            f"federation.most_weight is {most_weight}: how often each party's answers count follows from its policy,"
            " which a plan does not know",
            "Plan with most_weight = 1, then state the mechanism that was planned together with your most_weight",
        )


def _stated_limit(federation: Mapping[str, Any]) -> int:
    """Most queries that the table's own query budget allows; a plan answers all of them.

    >>> _stated_limit({"query_budget": {"queries": 25}}), _stated_limit({"query_budget": {"queries": 25, "answers": 7}})
    (25, 7)
    """
    query_budget = federation.get("query_budget")
    if query_budget is None:
        return MOST_ROWS
    stated = (
        validate({"answers": 1, **query_budget}, QueryBudget, "federation.query_budget")
        if isinstance(query_budget, dict)
        else None
    )
    if stated is None:
        raise ConfigError(
            "federation.query_budget is no table", "Leave it out, or write [federation.query_budget] with queries"
        )
    return min(stated.queries, stated.answers) if "answers" in query_budget else stated.queries


def _told(
    facts: PublicFacts,
    features: FeatureMap,
    federation: Federation,
    best: Outcomes,
    task_set: TaskSet,
    runner_up: tuple[Candidate, StudentForecast] | None,
    trainer: str = "",
) -> PlannedFederation:
    untried = "" if trainer in {learner.trainer for learner in LEARNERS} else trainer
    forecast = StudentForecast.of(best, facts.classes, task_set.source)
    noise = NoiseInVotes.of(federation, facts, features)
    epsilon = worst_case(federation.promised_events(), federation.privacy.delta).epsilon
    nodes = _epsilon_of_nodes(federation, facts.parties) if federation.noise_in_sums else None
    warned = cautions(forecast, noise, facts, epsilon, federation.whole_budget.queries, untried)
    return PlannedFederation(facts, federation, best.trainer, forecast, runner_up, noise, epsilon, nodes, warned)


def _epsilon_of_nodes(federation: Federation, parties: int) -> float:
    """Of noisy sums over as few of so many parties as may be. Raises ConfigError."""
    least = federation.least_survivors or least_sum(parties, federation.colluders)
    try:
        return worst_case(federation.node_events(federation.sure_givers(least)), federation.privacy.delta).epsilon
    except AccountingError as error:
        raise ConfigError(f"federation: {error}", "Promise less, or collect votes in another way") from None

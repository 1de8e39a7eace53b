"""Shadow federations: the same scenario with a target in it and without, and other rows at everybody else.

An attacker who does not know the rows of others makes federations that look like the real one and learns from them how
what it sees depends on the target (Carlini et al. 2022, arXiv 2112.03570). Here each party's teachers are trained once
on each of a few random halves of its rows, and a shadow takes one half of each party by lot. Between a shadow with the
target and one without, the teachers of one party alone differ. So what is trained is small, however many shadows
there are.

An attacker may also know every other row. Differential privacy protects against that one too: `Games.insider`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from consilium.accounting.units import Neighbouring, Unit
from consilium.node.progress import SHADOWS
from consilium.party.voting import Lot, TeacherSet, class_scores, query_inputs, votes_of_teachers
from consilium.protocol.errors import ConfigError
from consilium.protocol.label_source import Progress, no_progress
from consilium.protocol.queries import query_ids, query_set_hash
from consilium.simulations.divide import Case
from consilium.simulations.population.partition import Partition
from consilium.simulations.teach import teach
from consilium.student.selection import Strategy

HALVES = 16
"""Random halves of its rows on which each party's teachers are trained."""
TRIES = 60
"""Records that are tried in search of the worst."""
BY_MODEL: tuple[Strategy, ...] = ("least_confident", "margin", "entropy")
"""Ways to choose queries that look at the student so far."""
_NUMBERS = 1 << 20
"""Votes that are looked at in one go."""


def check_playable(case: Case) -> None:
    """Raise ConfigError for a federation whose attacks are not played."""
    simulation, student = case.scenario.simulation, case.scenario.student
    by_model = student.rounds > 1 and student.selection in BY_MODEL
    reasons = {
        "a student that chooses rows by its model": (
            by_model,
            "what it asks later depends on what was released before",
        ),
        "policies of single parties": (bool(simulation.policies), "who answers depends on each party's own limits"),
        "parties with teachers of their own": (
            bool(simulation.teachers),
            "shadows train every party's teachers in the same way",
        ),
    }
    for name, (there, why) in reasons.items():
        if there:
            raise ConfigError(
                f"attacks are not played on a federation with {name}: {why}",
                "Leave it out with --set, or take another scenario",
            )


@dataclass(frozen=True)
class Target:
    """One of those that the attacker looks for, as the votes of the teachers of its party.

    name : for people. unit : what it is. party : index of its party. x : float32 (rows, features), its rows.
    whole : int64 (2, queries, classes), votes of its party without it and with it, all other rows of the party as they
    are. halves : int64 (halves, 2, queries, classes), the same with random halves of them. Secret.
    """

    name: str
    unit: Unit
    party: int
    x: np.ndarray = field(repr=False)
    whole: np.ndarray = field(repr=False)
    halves: np.ndarray = field(repr=False)

    @property
    def moved(self) -> int:
        """Votes that it moves on all queries together, with the party's rows as they are."""
        return int(np.abs(self.whole[1] - self.whole[0]).sum() // 2)

    def on(self, rows: np.ndarray) -> Target:
        """The same where these queries alone are asked, int64 positions."""
        return replace(self, whole=self.whole[:, rows], halves=self.halves[:, :, rows])


@dataclass(frozen=True)
class Games:
    """Federations without the target and with it. votes : int64 (games, 2, queries, classes), sums over all parties.
    alone : the same of the target's party alone. Secret."""

    votes: np.ndarray = field(repr=False)
    alone: np.ndarray = field(repr=False)


class Shadows:
    """Votes of one federation's parties on the rows that are asked, trained on all of their rows and on halves.

    rows : int64 (queries,), of the pool. whole : int16 (parties, queries, classes). halves : int16 (halves, parties,
    queries, classes). Secret.
    """

    def __init__(
        self, case: Case, rows: np.ndarray, seed: int, halves: int | None = None, progress: Progress = no_progress
    ) -> None:
        check_playable(case)
        halves = HALVES if halves is None else halves
        self.case, self.rows, self.seed = case, rows, seed
        x = case.pool_x[rows]
        self._inputs, self._ids = query_inputs(case.config.rows, x, query_set_hash(x)), query_ids(x)
        self._digest, self._classes = case.config.digest(), len(case.classes)
        # teachers are trained in the clear, whatever hides their votes
        federation = case.scenario.federation.model_copy(update={"collection": "plaintext", "exact_sums": False})
        self._plain = replace(case, scenario=case.scenario.model_copy(update={"federation": federation}))
        self.whole = self._all_votes(case.partition.parties)
        self.halves = np.zeros((halves, *self.whole.shape), dtype=np.int16)
        for number in range(halves):
            progress(SHADOWS, number, halves)
            generator = self.generator(1, number)
            parties = {name: self.half(part, generator) for name, part in case.partition.parties.items()}
            self.halves[number] = self._all_votes(parties)
        progress(SHADOWS, halves, halves)

    @property
    def queries(self) -> int:
        return len(self.rows)

    def on(self, rows: np.ndarray) -> Shadows:
        """The same where these queries alone are asked, int64 positions."""
        same = copy.copy(self)
        same.rows, same.whole, same.halves = self.rows[rows], self.whole[:, rows], self.halves[:, :, rows]
        same._inputs, same._ids = self._inputs[rows], [self._ids[row] for row in rows]
        return same

    def generator(self, *purpose: int) -> np.random.Generator:
        """Of this laboratory, for one purpose."""
        return np.random.default_rng([self.seed, 0x61747461, *purpose])

    def half(self, rows: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Half of these rows, rounded up: of whole patients, where these are known."""
        patient = self.case.dataset.patient
        units = rows if patient is None else patient[rows]
        different = np.unique(units)
        chosen = generator.permutation(different)[: (len(different) + 1) // 2]
        return rows[np.isin(units, chosen)]

    def _all_votes(self, parties: dict[str, np.ndarray]) -> np.ndarray:
        return np.stack([self._votes(name, trained) for name, trained in self._taught(parties)])

    def _taught(self, parties: dict[str, np.ndarray], case: Case | None = None) -> Iterator[tuple[str, TeacherSet]]:
        plain = self._plain if case is None else case
        # where few are taught, nothing is laid out but their own rows
        public = plain.partition.queries[:1] if len(parties) == 1 else plain.partition.queries
        taught = teach(replace(plain, partition=Partition(parties, public, plain.partition.test[:1])))
        names = list(parties)
        yield from ((names[index], trained) for index, trained in taught)

    def _votes(self, party: str, trained: TeacherSet) -> np.ndarray:
        labels = votes_of_teachers(trained, self._inputs, Lot(party, self._digest, self._ids))
        return (labels[:, :, None] == np.arange(self._classes)).sum(axis=0).astype(np.int16)

    def votes_of(self, party: int, variants: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Votes int64 (variants, queries, classes) of the party if its rows were x float32 (rows, features) and y."""
        name = self.case.parties[party]
        return np.stack([self._retrained(name, x, y) for x, y in variants]).astype(np.int64)

    def scores_of(self, party: int, x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
        """How much each of the party's teachers supports each class on the queries, if its rows were x and y: equal to
        the last bit where a teacher was trained on the same rows."""
        name = self.case.parties[party]
        return next(
            [class_scores(one, self._inputs) for one in taught.teachers] for taught in self._teachers(name, x, y)
        )

    def _retrained(self, name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return next(self._votes(name, taught) for taught in self._teachers(name, x, y))

    def _teachers(self, name: str, x: np.ndarray, y: np.ndarray) -> Iterator[TeacherSet]:
        data, first = self._plain.dataset, len(self._plain.partition.queries[:1])
        public = np.concatenate([self._plain.partition.queries[:1], self._plain.partition.test[:1]])
        count = len(y)
        whose = {
            key: np.concatenate(
                [
                    value[public],
                    np.arange(count) + int(value.max()) + 1 if key == "patient" else value[public][:1].repeat(count),
                ]
            )
            for key in ("owner", "patient", "time")
            if (value := getattr(data, key)) is not None
        }
        small = replace(
            data, x=np.concatenate([data.x[public], x]), y=np.concatenate([data.y[public], y]), public=None, **whose
        )
        places = np.arange(len(public), len(public) + count)
        partition = Partition({name: places}, np.arange(first), np.arange(first, len(public)))
        case = replace(self._plain, dataset=small, partition=partition)
        yield from (taught for _, taught in teach(case))

    def target(
        self,
        name: str,
        unit: Unit,
        party: int,
        rows: np.ndarray,
        x: np.ndarray,
        y: np.ndarray,
        others: tuple[np.ndarray, np.ndarray],
    ) -> Target:
        """The target with rows `x`, `y`, in place of the party's `rows` (indices of the data set; none where it is one
        more). others : rows that are there where the target is not: replaced, or none of them.
        """
        data = self.case.dataset
        rest = np.setdiff1d(self.case.partition.parties[self.case.parties[party]], rows)
        parts = [
            rest,
            *(
                self.half(rest, self.generator(2, party, number)) if len(rest) else rest
                for number in range(len(self.halves))
            ),
        ]
        variants = []
        for part in parts:
            for extra in (others, (x, y)):
                variants.append((np.concatenate([data.x[part], extra[0]]), np.concatenate([data.y[part], extra[1]])))
        votes = self.votes_of(party, variants)
        votes = votes.reshape(len(parts), 2, *votes.shape[1:])
        return Target(name, unit, party, x, votes[0], votes[1:])

    def games(self, target: Target, count: int, insider: bool, purpose: int) -> Iterator[Games]:
        """So many, some at a time. insider : all other rows are the real ones."""
        generator, everybody = self.generator(3, purpose, target.party), np.arange(self.whole.shape[0])
        most = max(1, _NUMBERS // target.whole.size)
        for start in range(0, count, most):
            size = min(most, count - start)
            if insider:
                others = self.whole.sum(axis=0, dtype=np.int64) - self.whole[target.party]
                alone = np.broadcast_to(target.whole, (size, *target.whole.shape))
                yield Games(others + alone, alone)
                continue
            chosen = generator.integers(len(self.halves), size=(size, len(everybody)))
            others = np.empty((size, *target.whole.shape[1:]), dtype=np.int64)
            for place, halves in enumerate(chosen):
                others[place] = self.halves[halves, everybody].sum(axis=0, dtype=np.int64)
            party_halves = chosen[:, target.party]
            others -= self.halves[party_halves, target.party]
            alone = target.halves[party_halves]
            yield Games(others[:, None] + alone, alone)


def typical_records(shadows: Shadows, count: int, unit: Unit = Unit.RECORD) -> list[Target]:
    """Records (or patients with all their rows at one party) by lot; others stand in for them, or nobody, by the
    relation that is promised. Fewer than `count` where fewer parties have two of them."""
    case, generator = shadows.case, shadows.generator(4, list(Unit).index(unit))
    data, owners = case.dataset, list(case.partition.parties.items())
    units = [rows if data.patient is None or unit is Unit.RECORD else data.patient[rows] for _, rows in owners]
    able = [
        (party, who) for party, ids in enumerate(units) if len(different := np.unique(ids)) > 1 for who in different
    ]
    chosen = generator.permutation(len(able))[:count]
    targets = []
    for party, who in (able[place] for place in chosen):
        mine = owners[party][1]
        rows = mine[units[party] == who]
        others = _stand_ins(shadows, party, rows, generator)
        targets.append(shadows.target("typical", unit, party, rows, data.x[rows], data.y[rows], others))
    return targets


def _stand_ins(
    shadows: Shadows, party: int, rows: np.ndarray, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """As many rows of other parties by lot, where one is replaced; else none."""
    data, count = shadows.case.dataset, len(rows)
    if shadows.case.config.privacy.neighbouring is Neighbouring.ADD_OR_REMOVE:
        count = 0
    private = np.concatenate(
        [part for index, part in enumerate(shadows.case.partition.parties.values()) if index != party]
    )
    drawn = generator.choice(private, size=count, replace=count > len(private))
    return data.x[drawn], data.y[drawn]


@dataclass(frozen=True)
class LoudRecord:
    """A record that moves many votes: in place of index `row` of its party, x float32 (1, features) with the label
    `wrong`; in the other world with the label `right`, or nobody. Secret."""

    party: int
    row: np.ndarray = field(repr=False)
    x: np.ndarray = field(repr=False)
    right: np.ndarray = field(repr=False)
    wrong: np.ndarray = field(repr=False)

    def on(self, shadows: Shadows) -> Target:
        """As a target of these shadows."""
        nobody = shadows.case.config.privacy.neighbouring is Neighbouring.ADD_OR_REMOVE
        others = (self.x[:0], self.right[:0]) if nobody else (self.x, self.right)
        return shadows.target("worst found", Unit.RECORD, self.party, self.row, self.x, self.wrong, others)


def worst_record(shadows: Shadows) -> Target:
    """See `loudest_record`."""
    return loudest_record(shadows).on(shadows)


def loudest_record(shadows: Shadows) -> LoudRecord:
    """The record that moves most votes, of those tried: at parties with few rows, beside the same with a wrong label;
    and copies of rows that are asked, with either label."""
    case, data, generator = shadows.case, shadows.case.dataset, shadows.generator(5)
    sizes = np.array([len(rows) for rows in case.partition.parties.values()])
    several = np.argsort(sizes, kind="stable")[(np.sort(sizes) > 1).argmax() :]
    small = several[: max(len(several) // 3, 1)]  # a teacher of few rows depends on each of them
    tried = list[tuple[int, LoudRecord]]()
    for number in range(TRIES):
        party = int(generator.choice(small))
        mine = case.partition.parties[case.parties[party]]
        row = generator.choice(mine, size=1)
        rest = np.setdiff1d(mine, row)
        x = case.pool_x[generator.choice(shadows.rows, size=1)] if number % 2 else data.x[row]
        right = data.y[row]
        wrong = (right + 1 + generator.integers(len(case.classes) - 1)) % len(case.classes)
        variants = [(np.concatenate([data.x[rest], x]), np.concatenate([data.y[rest], y])) for y in (right, wrong)]
        votes = shadows.votes_of(party, variants)
        moved = int(np.abs(votes[1] - votes[0]).sum())
        tried.append((moved, LoudRecord(party, row, x, right, wrong)))
    return max(tried, key=lambda one: one[0])[1]


def with_copies(everything: Shadows, rows: np.ndarray) -> tuple[Shadows, Target]:
    """The worst record where the attacker adds to the public rows: half of what is asked are near-duplicates of one row
    on which the record moves votes, the nearest to it; the others as before (Jagielski et al. 2023, arXiv
    2303.03446, who duplicate queries and poison them).

    everything : of the whole pool. rows : of the pool, what the student asks.
    """
    loud, case = loudest_record(everything.on(rows)), everything.case
    generator, half = everything.generator(10), max(len(rows) // 2, 1)
    moved = np.abs(np.diff(loud.on(everything).whole, axis=0)[0]).sum(axis=1)
    copied = loud.x
    if moved.any():
        places = np.flatnonzero(moved == moved.max())
        copied = case.pool_x[places[np.argmin(np.abs(case.pool_x[places] - loud.x).sum(axis=1))]][None]
    off = generator.normal(0, 1e-4, (half, loud.x.shape[1])) * case.pool_x.std(axis=0)
    copies = (copied + off).astype(np.float32)
    data, kept = case.dataset, case.partition.queries[rows[half:]]
    whose = {
        key: np.concatenate([value, np.full(half, value[kept[0]] if len(kept) else value[0])])
        for key in ("owner", "patient", "time")
        if (value := getattr(data, key)) is not None
    }
    larger = replace(
        data, x=np.concatenate([data.x, copies]), y=np.concatenate([data.y, loud.wrong.repeat(half)]), **whose
    )
    public = np.concatenate([kept, np.arange(len(data.x), len(data.x) + half)])
    poisoned = replace(case, dataset=larger, partition=replace(case.partition, queries=public))
    shadows = Shadows(poisoned, np.arange(len(public)), everything.seed, halves=0)
    return shadows, loud.on(shadows)


def typical_parties(shadows: Shadows, count: int) -> list[Target]:
    """Whole parties by lot; where one is not there, rows of all others by lot are in its place, as many."""
    case, data, generator = shadows.case, shadows.case.dataset, shadows.generator(6)
    chosen = generator.permutation(len(case.parties))[:count]
    return [_party(shadows, int(party), data.x, data.y, generator) for party in chosen]


def _party(shadows: Shadows, party: int, x: np.ndarray, y: np.ndarray, generator: np.random.Generator) -> Target:
    """A party as it is, and in the other world one with as many rows of others. With halves, half of either."""
    case = shadows.case
    mine = case.partition.parties[case.parties[party]]
    private = np.concatenate([rows for name, rows in case.partition.parties.items() if name != case.parties[party]])
    strangers = generator.choice(private, size=len(mine), replace=len(mine) > len(private))
    parts = [(strangers, mine)]
    for number in range(len(shadows.halves)):
        draw = shadows.generator(7, party, number)
        parts.append((strangers[draw.permutation(len(strangers))[: (len(mine) + 1) // 2]], shadows.half(mine, draw)))
    votes = shadows.votes_of(party, [(x[rows], y[rows]) for pair in parts for rows in pair])
    votes = votes.reshape(len(parts), 2, *votes.shape[1:])
    return Target("typical", Unit.PARTY, party, x[mine], votes[0], votes[1:])


def outcome_shares(shadows: Shadows, count: int) -> list[Target]:
    """Parties by lot of which the attacker wants to know whether one outcome is frequent there: four fifths of their
    rows have the last class, or one fifth; the rows are the party's own, drawn again."""
    case, data, generator = shadows.case, shadows.case.dataset, shadows.generator(8)
    last, targets = len(case.classes) - 1, list[Target]()
    for party in generator.permutation(len(case.parties)):
        mine = case.partition.parties[case.parties[party]]
        having, lacking = mine[data.y[mine] == last], mine[data.y[mine] != last]
        if len(targets) == count:
            break
        if len(mine) < 10 or not len(having) or not len(lacking):
            continue
        variants = []
        for number in range(len(shadows.halves) + 1):
            draw = shadows.generator(9, int(party), number)
            for share in (0.2, 0.8):
                many = round(share * len(mine))
                drawn = np.concatenate([draw.choice(having, size=many), draw.choice(lacking, size=len(mine) - many)])
                variants.append((data.x[drawn], data.y[drawn]))
        votes = shadows.votes_of(int(party), variants)
        votes = votes.reshape(-1, 2, *votes.shape[1:])
        targets.append(Target("share of outcomes", Unit.PARTY, int(party), data.x[mine], votes[0], votes[1:]))
    return targets


def worst_party(shadows: Shadows) -> Target:
    """A party whose rows are the queries, labelled as most parties vote, against one that labels them the other way:
    its teachers move as many votes as can be."""
    case = shadows.case
    x = case.pool_x[shadows.rows]
    ranks = np.argsort(-shadows.whole.sum(axis=0), axis=1, kind="stable")
    variants = [(x, ranks[:, 1]), (x, ranks[:, 0])]
    votes = shadows.votes_of(0, variants)
    halves = np.broadcast_to(votes, (len(shadows.halves), *votes.shape))  # all of its rows are the attacker's
    return Target("worst found", Unit.PARTY, 0, x[:1], votes, halves)

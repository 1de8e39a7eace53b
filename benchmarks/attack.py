"""The laboratory of attacks: planted faults, false alarms, and what attackers find in federations that ship.

    python -m benchmarks.attack planted                   # each fault planted, 20 times
    python -m benchmarks.attack alarms                    # the same looks at 200 honest federations
    python -m benchmarks.attack votes                     # the exact histogram by asking again
    python -m benchmarks.attack differences               # one party's vote, as a difference of sums
    python -m benchmarks.attack attributes                # of the subject of a query, and of a row that trained
    python -m benchmarks.attack liars                     # false votes, a trigger, votes for the liars' own gain
    python -m benchmarks.attack releases                  # who is found in what was released, by collection and release
    python -m benchmarks.attack few                       # the same, of labels of few parties
    python -m benchmarks.attack students                  # who is found in the student

A fault is planted by one function that is replaced in this process. The federations are those hospitals of `stroke`
with most patients, with ridge teachers, four to a hospital, in turn with noisy counts and with labels.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from consilium.coordinator import conclusion, label_service
from consilium.coordinator.collection.clear import Histogram
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.memory_ledger import MemoryLedger
from consilium.party import node
from consilium.protocol.noise import SeededNoise
from consilium.simulations import release, teach
from consilium.simulations.attack import faults
from consilium.simulations.attack.attributes import OUTCOME, guessed_attributes
from consilium.simulations.attack.bounds import LEVELS, Hits
from consilium.simulations.attack.differences import differences
from consilium.simulations.attack.faults import DEPENDENT, FED_BACK, KNOWN, LESS, RESET, REUSED, SHARED, look_for_faults
from consilium.simulations.attack.liars import poisoned_students
from consilium.simulations.attack.membership import OBSERVERS, MembershipAttack, asked_rows, membership
from consilium.simulations.attack.repeats import recovered_votes
from consilium.simulations.attack.shadows import Shadows
from consilium.simulations.divide import divide
from consilium.simulations.scenario import load_scenario
from docs.figures import figure

SMALL = (
    "data.least_rows=200",
    "federation.minimum_parties=5",
    "federation.teachers_per_party=4",
    'federation.teacher={model="ridge"}',
    "federation.query_budget.queries=80",
    "federation.query_budget.answers=80",
)
RELEASES = ('federation.mechanism={name="histogram",sigma=20.0}', 'federation.mechanism={name="gnmax",sigma=20.0}')

LITTLE_NOISE = ('federation.mechanism={name="gnmax",sigma=5.0}',)


def votes_of(seed: int, mechanism: str) -> Shadows:
    """The votes of one small federation on its whole pool."""
    case = divide(load_scenario("stroke", [*SMALL, mechanism], seed), seed)
    return Shadows(case, np.arange(len(case.pool_x)), seed, halves=0)


@contextmanager
def shared_rows() -> Iterator[None]:
    """Each teacher also gets a tenth of the rows of its party, by lot."""
    split = teach.split

    def overlapping(identities: np.ndarray, count: int, secret: bytes) -> list[np.ndarray]:
        parts, rows = split(identities, count, secret), len(identities)
        # by each row's own identity, as the shards are: only the overlap is wrong
        drawn = identities[:, :count].astype(int) < 26
        return [np.union1d(part, np.flatnonzero(drawn[:, index])) if rows else part for index, part in enumerate(parts)]

    with mock.patch.object(teach, "split", overlapping), mock.patch.object(node, "split", overlapping):
        yield


@contextmanager
def reset_budget() -> Iterator[None]:
    """The ledger forgets what was asked before each batch."""
    nothing: Callable[..., tuple[int, int]] = lambda self, phase=None: (0, 0)  # noqa: E731
    with mock.patch.object(MemoryLedger, "spent", nothing), mock.patch.object(Ledger, "spent", nothing):
        yield


@contextmanager
def reused_across_batches() -> Iterator[None]:
    """Every batch begins with the same seed."""
    noise_for = label_service.noise_for
    same: Callable[[Any], Any] = lambda config: lambda batch: noise_for(config)(1)  # noqa: E731
    with (
        mock.patch.object(faults, "noise_for", same),
        mock.patch.object(release, "noise_for", same),
        mock.patch.object(label_service, "noise_for", same),
    ):
        yield


@contextmanager
def reused_within_a_batch() -> Iterator[None]:
    """One draw for all queries of a batch."""
    gaussian = SeededNoise.gaussian

    def once(self: SeededNoise, sigma: float, shape: tuple[int, ...]) -> np.ndarray:
        return np.broadcast_to(gaussian(self, sigma, (1, *shape[1:])), shape).copy()

    with mock.patch.object(SeededNoise, "gaussian", once):
        yield


@contextmanager
def half_the_noise() -> Iterator[None]:
    """Sigma is divided by two where it is drawn."""
    gaussian = SeededNoise.gaussian
    with mock.patch.object(SeededNoise, "gaussian", lambda self, sigma, shape: gaussian(self, sigma / 2, shape)):
        yield


@contextmanager
def fed_back() -> Iterator[None]:
    """Parties train again on what was released: on each later query one vote goes to the label of one before."""
    collect, labels = release.RecordedVotes.__call__, list[int]()

    def committing(kind: type) -> Callable[..., None]:
        commit = kind.commit

        def committed(self: Any, batch: Any, *words: Any) -> None:
            labels[:] = batch.labels.tolist()
            commit(self, batch, *words)

        return committed

    def trained_again(self: Any, queries: np.ndarray, *words: Any, **more: Any) -> Histogram:
        histogram = collect(self, queries, *words, **more)
        if len(self.rows) < 2 or not labels:
            return histogram
        votes = histogram.votes.copy()
        for place in range(len(votes)):
            label = labels[place % len(labels)]
            loser = int(np.argmax(np.where(np.arange(votes.shape[1]) == label, -1, votes[place])))
            if votes[place, loser]:
                votes[place, loser], votes[place, label] = votes[place, loser] - 1, votes[place, label] + 1
        return replace(histogram, votes=votes)

    with (
        mock.patch.object(release.RecordedVotes, "__call__", trained_again),
        mock.patch.object(MemoryLedger, "commit", committing(MemoryLedger)),
        mock.patch.object(Ledger, "commit", committing(Ledger)),
    ):
        yield


@contextmanager
def printed_by_the_data() -> Iterator[None]:
    """What is promised is what the votes at hand cost."""
    play = faults.replay

    def wrong(*words: Any, **more: Any) -> Any:
        replayed = play(*words, **more)
        return replace(replayed, promised=replayed.spent["data_dependent"])

    spent, promises, last = conclusion.spent, conclusion.promises, dict[str, Any]()

    def remembered(*words: Any, **more: Any) -> Any:
        last.update(spent(*words, **more))
        return {}

    def printed(config: Any) -> Any:
        return {**promises(config), **last, "guarantee": last["data_dependent"]}

    with (
        mock.patch.object(faults, "replay", wrong),
        mock.patch.object(conclusion, "spent", remembered),
        mock.patch.object(conclusion, "promises", printed),
    ):
        yield


SHARED_ROWS = "each teacher gets a tenth of its party's rows more"
PLANTED: dict[str, tuple[str, Callable[[], Any], tuple[str, ...]]] = {
    SHARED_ROWS: (SHARED, shared_rows, RELEASES),
    "the ledger forgets what was asked": (RESET, reset_budget, RELEASES),
    "every batch has the same noise": (REUSED, reused_across_batches, RELEASES),
    "all queries of a batch have the same noise": (REUSED, reused_within_a_batch, RELEASES),
    "half the noise": (LESS, half_the_noise, RELEASES),
    "teachers learn from released labels": (FED_BACK, fed_back, RELEASES),
    # only labels, and votes that are clear beside the noise, have another epsilon than the worst case
    "epsilon of the votes at hand is printed": (DEPENDENT, printed_by_the_data, LITTLE_NOISE),
}


def planted(runs: int) -> Iterator[tuple[str, list[str], str]]:
    """Each fault, how often it was found by its name, and which others were named beside it."""
    for name, (fault, plant, mechanisms) in PLANTED.items():
        named: Counter[str] = Counter()
        for run in range(runs):
            with plant():  # teachers are trained with the fault in them
                findings = look_for_faults(votes_of(run, mechanisms[run % len(mechanisms)]))
            named.update(finding.fault for finding in findings if finding.state == "found")
        others = [f"{other}: {named[other]}" for other in KNOWN if other != fault and named[other]]
        yield name, [fault, f"{named[fault]} of {runs}"], "; ".join(others) or "–"


def honest(runs: int) -> tuple[Counter[str], Counter[str]]:
    """Of federations as they are, what was named, and what was not looked for."""
    named: Counter[str] = Counter()
    unseen: Counter[str] = Counter()
    for run in range(runs):
        for finding in look_for_faults(votes_of(1000 + run, RELEASES[run % 2])):
            named[finding.fault] += finding.state == "found"
            unseen[finding.fault] += finding.state == "not looked for"
    return named, unseen


SPLIT = "no parameter was chosen; hospitals of stroke with 200 patients or more"


def _planted(runs: int) -> None:
    command, columns = "python -m benchmarks.attack planted", ["planted", "looked for as", "found", "named beside it"]
    with figure("attacks/planted-faults", command, columns, seeds=range(runs), quick=False, split=SPLIT) as table:
        for name, cells, others in planted(runs):
            table.add(name, *cells, others)


def _alarms(runs: int) -> None:
    command, columns = "python -m benchmarks.attack alarms", ["looked for", "false alarms", "not looked for"]
    seeds = range(1000, 1000 + runs)
    with figure("attacks/false-alarms", command, columns, seeds=seeds, quick=False, split=SPLIT) as table:
        named, unseen = honest(runs)
        for fault in KNOWN:
            table.add(fault, f"{named[fault]} of {runs}", str(unseen[fault]))


FEW = ("data.least_rows=180", "federation.minimum_parties=5")
COUNTS = ('federation.mechanism={name="histogram",sigma=112.1}', "federation.query_budget.queries=300")
FEDERATIONS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "plaintext, counts": ("stroke", COUNTS, OBSERVERS[:2]),
    "plaintext, labels": ("stroke", (), OBSERVERS[:2]),
    "secure, counts": ("stroke", (*COUNTS, "federation.collection=secure"), OBSERVERS[1:2]),
    "distributed, counts": ("stroke", (*COUNTS, "federation.collection=distributed"), OBSERVERS[1:2]),
    "verified, counts": ("stroke", (*COUNTS, "federation.collection=verified"), OBSERVERS[1:2]),
    "verified, labels": ("stroke", ("federation.collection=verified",), OBSERVERS[1:2]),
    "few parties, counts": ("stroke", (*FEW, *COUNTS), OBSERVERS[:1]),
    "few parties, labels": (
        "stroke",
        (*FEW, COUNTS[1], 'federation.mechanism={name="gnmax",sigma=80.0}'),
        OBSERVERS[:1],
    ),
}
"""By collection and release, what is attacked, and by whom. Towards a student all collections are alike. Of few
parties, those with 180 patients or more, targets are found without noise too by who knows where rows come from, and
in labels, which one of their votes decides."""
COLUMNS = (
    "collection, release", "looked for", "observer", "knows", "found of 100 at .1 false alarms", "at 1 false alarm",
    "without noise", "proved without noise", "epsilon at least", "guaranteed", "ratio", "games", "seconds",
)  # fmt: skip
SEEDS = range(3)
GAMES = 2600
"""Shadow federations of each world; ten times as many games where noise alone is drawn. By who knows all other rows."""
STUDENT_SECONDS = 400.0
"""Of one processor, for the students of one federation: some 200 federations of each world for each attack."""


def strongest(attacks: Sequence[MembershipAttack]) -> Iterator[list[str]]:
    """Of each unit, observer and knowledge the kind of target that found most, over all seeds: shares of all games
    together with their interval; the largest bound of any seed; games and seconds of each seed, of a world, in the
    mean.
    """
    for unit, observer, knows in dict.fromkeys((one.unit, one.observer, one.knows) for one in attacks):
        these = [one for one in attacks if (one.unit, one.observer, one.knows) == (unit, observer, knows)]
        noisy, bare = ([one for one in these if one.noise is noise] for noise in (True, False))
        by_target = [
            [one for one in noisy if one.target == name] for name in dict.fromkeys(one.target for one in noisy)
        ]
        strong = max(by_target, key=lambda part: (round(max(one.bound for one in part), 2), _found(part).share))
        target = strong[0].target
        best, control = ([one for one in part if one.target == target] for part in (noisy, bare))
        promise, bound = best[0].promise, max(one.bound for one in best)
        yield [
            f"{target} {unit.value}",
            observer,
            knows,
            *(_hundred(_found(best, level)) for level in range(len(LEVELS))),
            f"{100 * _found(control).share:.0f}" if control else "–",
            f"{max(one.proved.exact for one in control):.1f}" if control else "–",
            f"{bound:.3f}",
            "nothing" if promise is None else f"{promise:.3f}",
            f"{bound / promise:.2f}" if promise else "–",
            f"{np.mean([one.games for one in best]):.0f}",
            f"{np.mean([one.seconds for one in best]):.1f}",
        ]


def _hundred(hits: Hits) -> str:
    low, high = hits.interval()
    return f"{100 * hits.share:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def _found(attacks: Sequence[MembershipAttack], level: int = 1) -> Hits:
    """Of all games together, at a threshold for one of `LEVELS` of false alarms, by default one in 100."""
    hits = [one.detected[level].hits for one in attacks]
    return Hits(sum(one.count for one in hits), sum(one.runs for one in hits))


def _attacks(name: str, part: str, federations: Sequence[str], students: bool, budget: float) -> None:
    command = f"python -m benchmarks.attack {part}"
    split, timings = "no parameter was chosen; every record and party may be a target", ("games", "seconds")
    columns = list(COLUMNS)
    seeds = SEEDS[:1] if students else SEEDS
    with figure(f"attacks/{name}", command, columns, seeds=seeds, quick=False, timings=timings, split=split) as table:
        for label in federations:
            _, _, observers = FEDERATIONS[label]
            attacks = list[MembershipAttack]()
            for seed in seeds:
                everything = _everything(label, seed)
                # who sees noisy sums, or one of exact ones, is strongest where all other rows are known
                halves = None if students or OBSERVERS[0] in observers else 0
                shadows = Shadows(everything.case, asked_rows(everything), seed, halves)
                chosen = OBSERVERS[2:] if students else observers
                attacks += membership(shadows, everything, budget, games=GAMES, observers=chosen)
            if any(one.broken for one in attacks):
                raise AssertionError("a guarantee is refuted")
            for line in strongest(attacks):
                table.add(label, *line)


WITH_STUDENTS = ("few parties, counts", "few parties, labels")
COUNTS_AND_LABELS = ("plaintext, counts", "plaintext, labels")


def _everything(label: str, seed: int) -> Shadows:
    scenario, overrides, _ = FEDERATIONS[label]
    case = divide(load_scenario(scenario, list(overrides), seed), seed)
    return Shadows(case, np.arange(len(case.pool_x)), seed, halves=0)


def _spread(values: Sequence[float], digits: int = 1) -> str:
    """Mean over seeds, with the smallest and the largest."""
    return f"{np.mean(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def _votes() -> None:
    columns = ["collection, release", "a question is", "answers", "votes missed in a count", "exact of 100", "epsilon"]
    command, split = "python -m benchmarks.attack votes", "no parameter was chosen; public rows by lot"
    note = "Mean over seeds, smallest and largest. Epsilon: of these answers, at the promised delta."
    with figure("attacks/votes", command, columns, seeds=SEEDS, quick=False, split=split, note=note) as table:
        for label in COUNTS_AND_LABELS:
            for results in zip(*(recovered_votes(_everything(label, seed)) for seed in SEEDS), strict=True):
                missed, exact = _spread([one.error for one in results]), np.mean([one.exact for one in results])
                epsilon = results[0].epsilon
                charged = "unbounded" if epsilon is None else f"{epsilon:.3f}"
                table.add(label, results[0].way, str(results[0].times), missed, f"{100 * exact:.0f}", charged)


def _liars() -> None:
    columns = [
        "collection, release",
        "lie",
        "liars",
        "cases turned of 100",
        "AUC of the student",
        "called as wanted of 100",
        "for the liars' patients",
        "had they been honest",
    ]
    command, split = "python -m benchmarks.attack liars", "no parameter was chosen; hospitals held out whole"
    note = "Mean over seeds, smallest and largest. Unverified votes are under masks: nothing checks them."
    with figure("attacks/liars", command, columns, seeds=SEEDS, quick=False, split=split, note=note) as table:
        for label in COUNTS_AND_LABELS:
            federations = [_everything(label, seed) for seed in SEEDS]
            attacks = [poisoned_students(mine, asked_rows(mine)) for mine in federations]
            for results in zip(*attacks, strict=True):
                hit = [100 * one.hit for one in results if one.hit is not None]
                liars = sorted({one.liars for one in results})
                own = [
                    [value for one in results if (value := getattr(one, name)) is not None]
                    for name in ("own", "own_honest")
                ]
                table.add(
                    label,
                    results[0].attack,
                    " to ".join(dict.fromkeys([str(liars[0]), str(liars[-1])])),
                    _spread([100 * one.moved for one in results], 0),
                    _spread([one.value for one in results if one.value is not None], 3),
                    _spread(hit, 0) if hit else "–",
                    *(_spread(part, 3) if part else "–" for part in own),
                )


HIDDEN = ("secure, counts", "distributed, counts", "verified, counts")


def _differences() -> None:
    columns = ["collection", "what stands in the way", "sums asked for", "sums had", "a vote alone", "noise on it"]
    command, split = "python -m benchmarks.attack differences", "no parameter was chosen; nothing is trained for it"
    note = "Sums over all seeds, of 20 lives each. Noise: least deviation on a vote that came out, in votes."
    with figure("attacks/differences", command, columns, seeds=SEEDS, quick=False, split=split, note=note) as table:
        for label in HIDDEN:
            for results in zip(*(differences(_everything(label, seed)) for seed in SEEDS), strict=True):
                one, deviations = results[0], [each.deviation for each in results if each.deviation is not None]
                table.add(
                    label.split(",")[0],
                    f"{one.rule} (control)" if one.control else one.rule,
                    str(sum(each.asked for each in results)),
                    str(sum(each.granted for each in results)),
                    f"{sum(each.read for each in results)} of {sum(each.histories for each in results)}",
                    f"{min(deviations):.0f}" if deviations else "–",
                )


def _attributes() -> None:
    columns = ["release", "whose", "attribute", "guessed by", "AUC", "beyond", "rows"]
    command, split = ("python -m benchmarks.attack attributes", "attributes are chosen on other rows than judge")
    note = "Mean over seeds, smallest and largest. Beyond: above a model of all rows, or rows that did not train."
    with figure("attacks/attributes", command, columns, seeds=SEEDS, quick=False, split=split, note=note) as table:
        for label in COUNTS_AND_LABELS:
            federations = [_everything(label, seed) for seed in SEEDS]
            every = [one for mine in federations for one in guessed_attributes(mine, asked_rows(mine))]
            for whose, outcome, by in dict.fromkeys((one.whose, one.attribute == OUTCOME, one.by) for one in every):
                these = [one for one in every if (one.whose, one.attribute == OUTCOME, one.by) == (whose, outcome, by)]
                table.add(
                    label,
                    whose,
                    ", ".join(dict.fromkeys(one.attribute for one in these)),
                    f"{by} (control)" if these[0].control else by,
                    _spread([one.value for one in these], 3),
                    _spread([one.beyond for one in these], 3),
                    str(these[0].rows),
                )


PARTS: dict[str, Callable[[], None]] = {
    "planted": lambda: _planted(20),
    "alarms": lambda: _alarms(200),
    "votes": _votes,
    "differences": _differences,
    "attributes": _attributes,
    "liars": _liars,
    "releases": lambda: _attacks("membership", "releases", list(FEDERATIONS)[:-1], False, 0.0),
    "few": lambda: _attacks("few", "few", list(FEDERATIONS)[-1:], False, 0.0),
    "students": lambda: _attacks("students", "students", WITH_STUDENTS, True, STUDENT_SECONDS),
}


def main(parts: Sequence[str] = ()) -> None:
    """Print the tables that are named, all by default."""
    if unknown := set(parts) - set(PARTS):
        sys.exit(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    for part in parts or PARTS:
        PARTS[part]()


if __name__ == "__main__":
    main(sys.argv[1:])

"""Known mistakes of PATE implementations, looked for by what a federation does, not by how it is written.

The list follows what audits found in public implementations: of PATE-GAN Ganev, Annamalai, De Cristofaro 2024 (arXiv
2406.13985), where teachers shared rows, budgets were reset, noise was too small and epsilon was that of the data at
hand. Each look is a control of one claim that the accounting takes for granted. It plays the federation in this
process, by the code that runs it everywhere, with votes that show the mistake best: all tied, or unanimous.

Looks that depend on luck raise a false alarm with probability `ALARM` at most; the others never do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import bdtrc, gammainc

from consilium.accounting.events import event_from_json
from consilium.accounting.target import worst_case
from consilium.accounting.units import Neighbouring, Unit, votes_moved
from consilium.coordinator.events import NoLog
from consilium.coordinator.label_service import LabelService, noise_for
from consilium.coordinator.ledger import Batch
from consilium.coordinator.memory_ledger import MemoryLedger
from consilium.node.progress import FAULTS
from consilium.protocol.errors import BudgetExceeded
from consilium.protocol.label_source import NO_LABEL, Progress, no_progress
from consilium.protocol.releases import ReleaseKind
from consilium.simulations.attack.membership import OnRows, drawn_on, outcome_law
from consilium.simulations.attack.shadows import Shadows
from consilium.simulations.divide import Case
from consilium.simulations.release import RecordedVotes, replay

ALARM = 1e-6
"""Probability of a false alarm of a look that depends on luck, at most."""
CHANGES = 20
"""Records that are taken away, one at a time, to see how many teachers change."""
_TRIALS = 600
"""Labels that are drawn to see how much noise is in them, at least."""

SHARED = "a record in several teachers"
RESET = "a query budget that is reset"
REUSED = "noise that is used again"
LESS = "less noise than is charged"
FED_BACK = "votes that depend on released labels"
DEPENDENT = "an epsilon of the data printed as the guarantee"
KNOWN = (SHARED, RESET, REUSED, LESS, FED_BACK, DEPENDENT)
"""In this order they are looked for."""


@dataclass(frozen=True)
class FaultFinding:
    """What became of looking for one mistake. evidence: what was seen, in a sentence; secret."""

    fault: str
    state: Literal["found", "not found", "not looked for"]
    evidence: str

    def to_json(self) -> dict[str, str]:
        return {"fault": self.fault, "state": self.state, "evidence": self.evidence}


def look_for_faults(everything: Shadows, progress: Progress = no_progress) -> list[FaultFinding]:
    """All of `KNOWN`. everything : the votes of the federation on its whole pool."""
    looks: dict[str, Callable[[Shadows], tuple[bool | None, str]]] = {
        SHARED: _shared_records,
        RESET: _reset_budget,
        REUSED: _reused_noise,
        LESS: _less_noise,
        FED_BACK: _fed_back,
        DEPENDENT: _dependent_epsilon,
    }
    findings = []
    for number, fault in enumerate(KNOWN):
        progress(FAULTS, number, len(KNOWN))
        seen, evidence = looks[fault](everything)
        states: dict[bool | None, Literal["found", "not found", "not looked for"]]
        states = {True: "found", False: "not found", None: "not looked for"}
        findings.append(FaultFinding(fault, states[seen], evidence))
    progress(FAULTS, len(KNOWN), len(KNOWN))
    return findings


def _shared_records(everything: Shadows) -> tuple[bool | None, str]:
    """Take records away, one at a time, and count the teachers that are others then."""
    case = everything.case
    parties = list(case.partition.parties.values())
    rows = np.concatenate(parties)
    if len(np.unique(rows)) < len(rows):
        return True, f"{len(rows) - len(np.unique(rows))} rows are at two parties"
    party = int(np.argmax([len(part) for part in parties]))
    mine, generator = parties[party], everything.generator(31)
    allowed = votes_moved(Unit.RECORD, case.config.teachers_per_party, Neighbouring.ADD_OR_REMOVE)
    x, y = case.dataset.x, case.dataset.y
    before = everything.scores_of(party, x[mine], y[mine])
    gone = generator.permutation(len(mine))[:CHANGES]
    most = 0
    for place in gone:
        rest = np.delete(mine, place)
        after = everything.scores_of(party, x[rest], y[rest])
        changed = sum(not np.array_equal(one, other) for one, other in zip(before, after, strict=True))
        most = max(most, changed)
    word = f"without one of {len(gone)} records, {most} teachers of a party are others at most; {allowed} may be"
    return most > allowed, word


def _service(case: Case, votes: np.ndarray, rows: np.ndarray, seed: int) -> tuple[LabelService, MemoryLedger, Any]:
    """The label service of this federation, on votes (rows, classes), with noise of another seed."""
    config = case.config.model_copy(update={"noise_seed": seed})
    ledger, collector = MemoryLedger(), RecordedVotes(case, OnRows(rows, votes))
    service = LabelService(config, ledger, noise_for(config), collector, len(case.parties), NoLog())
    return service, ledger, collector


def _reset_budget(everything: Shadows) -> tuple[bool | None, str]:
    """Ask until somebody refuses."""
    case, rows = everything.case, everything.rows
    budget = case.config.query_budget
    votes = everything.whole.sum(axis=0, dtype=np.int64)
    service, ledger, _ = _service(case, votes, rows, case.seed)
    most = budget.queries + max(budget.queries // 2, 1)
    if most > len(np.unique(case.pool_ids)):
        return None, "the public rows are too few to ask more than the budget allows"
    step = max(budget.queries // 4, 1)
    first = _different(case)
    for start in range(0, most, step):
        try:
            service.ask(case.pool_x[first[start : min(start + step, most)]])
        except BudgetExceeded:
            break
    asked = sum(len(batch.query_ids) for batch in ledger.batches())
    answered = sum(int(batch.answered.sum()) for batch in ledger.batches())
    word = f"{asked} queries and {answered} answers were given; {budget.queries} and {budget.answers} are charged for"
    return asked > budget.queries or answered > budget.answers, word


def _different(case: Case) -> np.ndarray:
    """Positions of public rows, int64, equal ones once."""
    return np.sort(np.unique(case.pool_ids, return_index=True)[1])


def _contested(case: Case, count: int) -> np.ndarray:
    """Votes int64 (count, classes) whose outcome is the noise's alone: the first two classes are tied, as high as they
    get; where a check asks for more, the first is at its threshold."""
    total = len(case.parties) * case.config.teachers_per_party
    top = max(total // 2, min(getattr(case.config.mechanism, "threshold", 0), total))
    votes = np.zeros((count, len(case.classes)), dtype=np.int64)
    votes[:, 0], votes[:, 1] = top, total - top
    return votes


def _noise_unseen(case: Case) -> str:
    if case.config.noise_in_sums:
        return "the noise is in the sums, and what parties add is drawn by each of them"
    return "" if case.config.mechanism.private else "the mechanism has no noise that protects"


def _reused_noise(everything: Shadows) -> tuple[bool | None, str]:
    """On votes that are tied everywhere nothing but noise decides: are two queries, or two batches, alike?"""
    case = everything.case
    if reason := _noise_unseen(case):
        return None, reason
    rows = _different(case)[: case.config.query_budget.queries]
    half = len(rows) // 2
    if half < 20:
        return None, "so few queries are alike by luck"
    service, ledger, _ = _service(case, _contested(case, len(rows)), rows, case.seed)
    for part in (rows[:half], rows[half : 2 * half]):
        service.ask(case.pool_x[part])
    batches = ledger.batches()
    if len(batches) < 2 or len({len(batch.labels) for batch in batches}) > 1:
        return None, "the budget of answers was used up in one batch"
    first, second = (_seen(batch) for batch in batches)
    within = (first == first[0]).all() or (second == second[0]).all()
    across = np.array_equal(first, second)
    if within or across:
        return True, f"on tied votes {'all queries of a batch' if within else 'two batches'} have the same outcome"
    return False, f"on tied votes two batches of {half} queries differ, in themselves and from each other"


def _seen(batch: Batch) -> np.ndarray:
    """What was released, (queries, anything)."""
    return batch.labels[:, None] if batch.counts is None else batch.counts


def _less_noise(everything: Shadows) -> tuple[bool | None, str]:
    """Is what is released as far from the votes as the charge says?"""
    case = everything.case
    if reason := _noise_unseen(case):
        return None, reason
    config, rows = case.config, _different(case)[: case.config.query_budget.queries]
    votes = _contested(case, len(rows))
    if config.mechanism.releases is ReleaseKind.COUNTS:
        service, ledger, _ = _service(case, votes, rows, case.seed)
        service.ask(case.pool_x[rows])
        batch = ledger.batches()[0]
        sigma = getattr(event_from_json(batch.event), "sigma", 0.0)
        counts = np.zeros((0, 0)) if batch.counts is None else batch.counts
        off = (counts - votes[: len(counts)]) / sigma
        chance = float(gammainc(off.size / 2, (off**2).sum() / 2))
        spread = float(np.sqrt((off**2).mean()))
        return chance < ALARM, f"the noise is {spread:.2f} of what is charged, by {off.size} counts"
    return _too_often_right(everything, rows)


def _too_often_right(everything: Shadows, rows: np.ndarray) -> tuple[bool | None, str]:
    """Of labels: the last class leads by as much as the noise is wide, and wins more often than that noise lets it."""
    case, mechanism = everything.case, everything.case.config.mechanism
    event = mechanism.event(
        asked=1, answered=1, unit=Unit.PARTY, neighbouring=Neighbouring.REPLACE, teachers_per_party=1
    )
    sigma = getattr(event, "sigma2", getattr(event, "sigma", None))
    total = len(case.parties) * case.config.teachers_per_party
    if sigma is None:
        return None, "how often the noise decides is not computed for this mechanism"
    lead = min(max(round(1.4 * sigma), 1), total)
    votes = np.zeros(len(case.classes), dtype=np.int64)
    votes[0], votes[-1] = (total - lead) // 2, (total - lead) // 2 + lead
    shifted = votes.astype(np.float64)
    shifted[-1] -= 0.5  # noise is whole, and the last class loses where it is tied
    law = outcome_law(mechanism, shifted[None])[0][:-1]
    expected, config = float(law[-1] / law.sum()), case.config.model_copy(update={"noise_seed": case.seed})
    won = answered = batch = 0
    while answered < _TRIALS and batch < 10_000:
        batch += 1
        labels = drawn_on(mechanism, np.tile(votes, (len(rows), 1)), noise_for(config)(batch)).labels
        answered, won = answered + int((labels != NO_LABEL).sum()), won + int((labels == len(votes) - 1).sum())
    if not answered:
        return None, "nothing is answered at such votes"
    chance = float(bdtrc(won - 1, answered, min(expected + 0.01, 1.0))) if won else 1.0
    return chance < ALARM, f"the leader won {won} of {answered} labels; {expected:.2f} of them are expected"


def _fed_back(everything: Shadows) -> tuple[bool | None, str]:
    """What parties vote in the second batch, after two first batches that differ by their noise alone."""
    case, rows = everything.case, _different(everything.case)
    rows = rows[: case.config.query_budget.queries]
    half = len(rows) // 2
    if not half or case.config.noise_in_sums:
        return None, "one query is all there is" if not half else "nobody sees sums without noise here"
    votes = everything.whole.sum(axis=0, dtype=np.int64)
    second = []
    for seed in (case.seed, case.seed + 1):
        service, _, collector = _service(case, votes, everything.rows, seed)
        histograms: list[np.ndarray] = []
        _spied(service, collector, histograms)
        service.ask(case.pool_x[rows[:half]])
        try:
            service.ask(case.pool_x[rows[half:]])
        except BudgetExceeded:
            return None, "the budget of answers was used up in one batch"
        second.append(histograms[-1])
    changed = int((second[0] != second[1]).any(axis=1).sum()) if second[0].shape == second[1].shape else len(rows)
    word = (
        f"after other noise in the first batch, the votes on {changed} of {len(rows) - half} later queries are others"
    )
    return changed > 0, word


def _spied(service: LabelService, collector: Any, histograms: list[np.ndarray]) -> None:
    """Keep the sums that come to this service."""

    class Spy:
        def __call__(self, *words: Any) -> Any:
            histogram = collector(*words)
            histograms.append(histogram.votes)
            return histogram

        def settle(self) -> None:
            collector.settle()

    service._collector = Spy()


def _dependent_epsilon(everything: Shadows) -> tuple[bool | None, str]:
    """What is promised must follow from the configuration alone: the same for tied votes and for unanimous ones."""
    case = everything.case
    truth = worst_case(case.config.promised_events(), case.config.privacy.delta).epsilon
    total = len(case.parties) * case.config.teachers_per_party
    unanimous = np.zeros((len(everything.rows), len(case.classes)), dtype=np.int64)
    unanimous[:, 0] = total
    unanimous[::2] = np.roll(unanimous[::2], 1, axis=1)  # a student needs two classes
    promised = []
    for votes in (_contested(case, len(everything.rows)), unanimous):
        promised.append(replay(case, OnRows(everything.rows, votes)).promised.epsilon)
    word = f"promised {promised[0]:.4f} with tied votes and {promised[1]:.4f} with unanimous ones; charged {truth:.4f}"
    return promised[0] != promised[1] or min(promised) < truth * (1 - 1e-9), word

"""What a ledger was charged for, against its configuration: query budget, events, evidence, and the closing.

Also what is claimed, against what the ledger gives: epsilons, and of verified votes what the second aggregator
signed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from consilium.accounting.curves.gnss import group_smooth_sensitivity
from consilium.accounting.mechanisms import event_from_json
from consilium.accounting.sanitise.release import sanitise, secret_smoothness
from consilium.coordinator.collection.kept_session import RECORDS, ROSTER, KeptRecord, read_halves, read_records
from consilium.coordinator.ledger import Batch
from consilium.coordinator.privacy import answered_batches, most_teachers
from consilium.coordinator.verify.files import Absent, Contradiction, Damaged, Files, agree, entry
from consilium.coordinator.verify.recorded import Recorded
from consilium.protocol.errors import ConfigError, MalformedMessage
from consilium.protocol.strict_json import is_infinite
from consilium.report.words import many
from consilium.sums.aggregators.wire import GivenRecord
from consilium.sums.roster import VerifiedRoster

TOLERANCE = 1e-9
"""Relative difference between a claimed and a recomputed number that rounding may explain."""


def same(left: np.ndarray | None, right: np.ndarray | None) -> bool:
    """Whether two float64 arrays are equal up to rounding, or both are not there."""
    if left is None or right is None:
        return left is right
    return left.shape == right.shape and np.allclose(left, right, rtol=TOLERANCE, atol=TOLERANCE)


def number(table: dict[str, Any], name: str, *keys: str) -> float:
    """A number below `keys`, which may be infinite as in `protocol.strict_json`. Raises Damaged where there is none."""
    value = entry(table, name, *keys)
    if is_infinite(entry(table, name, *keys[:-1]) if keys[1:] else table, keys[-1]):
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise Damaged(f"{name}: {'.'.join(keys)} is no number")
    return float(value)


def close_to(name: str, claimed: float, truth: float, *, secret: bool = False) -> None:
    """Raise Contradiction unless the numbers are equal up to rounding. A secret one is not told."""
    if claimed != truth and not math.isclose(claimed, truth, rel_tol=TOLERANCE):
        numbers = "" if secret else f": claimed {claimed:.6g}, the ledger gives {truth:.6g}"
        raise Contradiction(f"{name} is not the ledger's{numbers}")


def check_guarantee(name: str, claim: object, truth: dict[str, Any]) -> None:
    """Raise unless a claimed guarantee says what the ledger gives: epsilon, and every word that belongs to it."""
    if not isinstance(claim, dict):
        raise Damaged(f"{name} is no guarantee")
    secret = not truth.get("publishable", False)
    close_to(f"{name}: epsilon", number(claim, name, "epsilon"), number(truth, name, "epsilon"), secret=secret)
    agree(f"{name}: fields", sorted(claim), sorted(truth))
    for key, value in truth.items():
        if key != "epsilon" and claim[key] != value:
            raise Contradiction(f"{name}: {key} is not that of the ledger's guarantee")


def check_claims(name: str, claims: object, truth: dict[str, dict[str, Any]]) -> str:
    """Every guarantee that should be claimed is, and says what the ledger gives; there is no other."""
    if not truth:
        raise Contradiction("the ledger gives no epsilon to compare with")
    if not isinstance(claims, dict):
        raise Damaged(f"{name} has no guarantees")
    agree(f"{name}: its guarantees", sorted(claims), sorted(truth))
    for key, claim in claims.items():
        check_guarantee(f"{name}: {key}", claim, truth[key])
    return ", ".join(claims)


MOST_DEVIATIONS, ROUNDING = 7.0, 2e-4
"""A sanitised curve is within so many standard deviations of what the ledger's votes give, but once in 4e11 runs."""


def check_query_budget(recorded: Recorded) -> str:
    """No more was asked or answered than the query budget allows."""
    batches, budget = recorded.batches, recorded.config.query_budget
    queries, answered = sum(len(b.query_ids) for b in batches), sum(int(b.answered.sum()) for b in batches)
    if queries > budget.queries:
        raise Contradiction(f"{queries} queries were asked, the cap is {budget.queries}")
    if answered > budget.answers:
        raise Contradiction(f"{answered} labels were given, the cap is {budget.answers}")
    return f"{queries} of {budget.queries} queries, {answered} of {budget.answers} labels"


def check_charges(recorded: Recorded) -> str:
    """Every batch was charged the event that the configuration gives for its counts."""
    config = recorded.config
    for place, batch in enumerate(recorded.batches, 1):
        expected = config.event(len(batch.query_ids), int(batch.answered.sum())).to_json()
        if batch.event != expected:
            differing = sorted(key for key in expected if batch.event.get(key) != expected[key])
            raise Contradiction(f"batch {place}: the event differs in {', '.join(differing) or 'its keys'}")
    return config.mechanism.describe()


def check_evidence(recorded: Recorded) -> str:
    """log q from the histograms, where votes decide anything of what is charged at them."""
    compared = 0
    for place, batch in enumerate(recorded.batches, 1):
        if batch.histogram is None:
            if batch.log_q_label is not None:
                raise Contradiction(f"batch {place} has evidence without the histograms of which it is")
            continue
        evidence = event_from_json(batch.event).evidence(batch.histogram, probabilities=batch.probabilities)
        for computed, written in zip(evidence, (batch.log_q_check, batch.log_q_label), strict=True):
            if not same(computed, written):
                raise Contradiction(f"batch {place}: the evidence is not that of its histograms")
        compared += 1
    if recorded.batches and not compared:
        raise Absent("no votes are kept where they decide nothing of what is charged")
    return many(compared, "batch")


def check_sanitised(recorded: Recorded) -> str:
    """The released number, up to its noise, from the histograms in the ledger; the charge from the plan."""
    planned, event, closing = recorded.config.privacy.sanitised, recorded.config.closing_event(), recorded.closing
    if planned is None or event is None:
        if closing is not None:
            raise Contradiction("the ledger is closed with a sanitised epsilon that nobody planned")
        raise Absent("none is planned")
    if closing is None:
        raise Absent("planned, not released")
    if entry(closing, "the closing", "event") != event.to_json():
        raise Contradiction("the charge is not that of the plan")
    if any(batch.histogram is None for batch in recorded.batches) or not recorded.batches:
        raise Contradiction("the ledger lacks the histograms of which it is")
    votes, teachers, plan = answered_batches(recorded.batches), most_teachers(recorded.batches), planned.plan()
    again = sanitise(votes, plan, recorded.config.privacy.delta, teachers, lambda: 0.0)
    cost, rdp = number(closing, "the closing", "release_cost"), number(closing, "the closing", "released_rdp")
    if not math.isclose(cost, plan.cost(event.votes_moved), rel_tol=TOLERANCE):
        raise Contradiction("the release's cost is another")
    claimed = number(closing, "the closing", "guarantee", "epsilon")
    gap = (rdp - again.released_rdp) - (claimed - again.guarantee.epsilon)
    if not abs(gap) < TOLERANCE:
        raise Contradiction("the released curve and the epsilon do not belong together")
    for key, truth in again.guarantee.to_json().items():
        if key not in ("epsilon", "method"):
            agree(f"its {key}", entry(closing, "the closing", "guarantee", key), truth)
    secret = secret_smoothness(votes, plan, teachers)
    scale = group_smooth_sensitivity(secret.smooth, plan.beta, event.votes_moved)[0] * plan.sigma_ss
    if not abs(rdp - again.released_rdp) <= MOST_DEVIATIONS * scale + ROUNDING:
        raise Contradiction("it is further from the ledger's votes than its noise explains")
    return f"{claimed:.4f}, of which the release itself costs {cost:.4f}"


def check_given(files: Files, recorded: Recorded) -> str:
    """Each batch is of one signed sum, and each aggregator's total the one that it was bound to; no query is in two
    noisy sums of one phase, and exact ones are over whole blocks of parties.

    Raises
    ------
    Contradiction : one of these does not hold. Damaged, Unfinished : a file is missing or broken.
    """
    config = recorded.config
    if not recorded.batches and not (files.folder / RECORDS).exists():
        return "no sum was given"
    try:
        roster = VerifiedRoster.load(files.path(ROSTER))
        if roster.digest != config.roster:
            raise Contradiction(f"{ROSTER} is not the roster of the federation")
        records = read_records(files.path(RECORDS), roster)
    except (ConfigError, MalformedMessage) as error:
        raise Damaged(error.what) from None
    for record in records:
        if record.record.federation != config.digest() or record.record.roster != roster.digest:
            raise Contradiction(f"{RECORDS}: session {record.record.sid} is of another federation")
    for place, batch in enumerate(recorded.batches, 1):
        _check_halves(_record_of(place, batch, records, recorded), files, recorded, roster)
    _check_sets(records)
    sigma = max((record.record.sigma for record in records), default=0.0)
    return (
        f"{len(recorded.batches)} of {len(records)} signed sums, each with noise of the second aggregator, sigma"
        f" {sigma:g}"
    )


def _record_of(place: int, batch: Batch, records: list[KeptRecord], recorded: Recorded) -> GivenRecord:
    noise = recorded.config.node_event(0, 0).party_noise(1)
    expected = (batch.parties, 0.0 if noise is None else noise.sigma)
    for stored in records:
        if stored.record.phase == 1 and stored.ids[: len(batch.query_ids)] == batch.query_ids:
            if (len(stored.record.accepted), stored.record.sigma) == expected:
                return stored.record
            raise Contradiction(f"batch {place}: the second aggregator signed a sum of other parties or noise")
    raise Contradiction(f"batch {place}: the second aggregator signed no sum on its queries")


def _check_halves(record: GivenRecord, files: Files, recorded: Recorded, roster: VerifiedRoster) -> None:
    """The totals that both were bound to."""
    try:
        read_halves(files.folder, record)
    except MalformedMessage as error:
        raise Contradiction(error.what) from None


def _check_sets(records: list[KeptRecord]) -> None:
    seen: set[tuple[str, int]] = set()
    for record in records:
        sums = {(query_id, record.record.phase) for query_id in record.ids}
        if seen & sums:
            raise Contradiction(f"session {record.record.sid}: a query is in two sums")
        seen |= sums

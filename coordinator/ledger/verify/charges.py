"""What a ledger was charged for, against its configuration: caps, events, evidence, and the closing."""

from __future__ import annotations

import math

import numpy as np

from consilium.accounting.curves.gnss import group_smooth_sensitivity
from consilium.accounting.events import event_from_json
from consilium.accounting.sanitise.release import sanitise, secret_smoothness
from consilium.coordinator.ledger.closing import answered_batches, most_teachers
from consilium.coordinator.ledger.verify.claims import TOLERANCE, number, same
from consilium.coordinator.ledger.verify.files import entry
from consilium.coordinator.ledger.verify.findings import Absent, Contradiction, agree
from consilium.coordinator.ledger.verify.recorded import Recorded

MOST_DEVIATIONS, ROUNDING = 7.0, 2e-4
"""A sanitised curve is within so many standard deviations of what the ledger's votes give, but once in 4e11 runs."""


def check_caps(recorded: Recorded) -> str:
    """No more was asked or answered than the caps allow."""
    config, told = recorded.config, []
    for at, phase in enumerate(config.phases, 1):
        batches = [batch for batch in recorded.batches if batch.phase in (None, at)]
        asked, answered = sum(len(b.query_ids) for b in batches), sum(int(b.answered.sum()) for b in batches)
        caps, where = phase.caps, f" in phase {at}" if config.schedule else ""
        if asked > caps.queries:
            raise Contradiction(f"{asked} queries were asked{where}, the cap is {caps.queries}")
        if answered > caps.answers:
            raise Contradiction(f"{answered} labels were given{where}, the cap is {caps.answers}")
        told.append(f"{asked} of {caps.queries} queries, {answered} of {caps.answers} labels{where}")
    return "; ".join(told)


def check_charges(recorded: Recorded) -> str:
    """Every batch was charged the event that the configuration gives for its counts."""
    config = recorded.config
    for at, batch in enumerate(recorded.batches, 1):
        expected = config.event(len(batch.query_ids), int(batch.answered.sum()), batch.phase).to_json()
        if batch.event != expected:
            differing = sorted(key for key in expected if batch.event.get(key) != expected[key])
            raise Contradiction(f"batch {at}: the event differs in {', '.join(differing) or 'its keys'}")
    return "; ".join(phase.mechanism.describe() for phase in config.phases)


def check_evidence(recorded: Recorded) -> str:
    """log q from the histograms, where votes decide anything of what is charged at them."""
    compared = 0
    for at, batch in enumerate(recorded.batches, 1):
        if batch.histogram is None:
            if batch.log_q_label is not None:
                raise Contradiction(f"batch {at} has evidence without the histograms of which it is")
            continue
        evidence = recorded.config.phase(batch.phase).mechanism.evidence(
            event_from_json(batch.event), batch.histogram, batch.probabilities
        )
        for found, written in zip(evidence, (batch.log_q_check, batch.log_q_label), strict=True):
            # 0 stands where a row was made to fit, and is charged the worst case
            if not same(found, written if found is None or written is None else np.where(written == 0, found, written)):
                raise Contradiction(f"batch {at}: the evidence is not that of its histograms")
        compared += 1
    if recorded.batches and not compared:
        raise Absent("no votes are kept where they decide nothing of what is charged")
    return f"{compared} batches"


def check_sanitised(recorded: Recorded) -> str:
    """The released number, up to its noise, from the histograms in the ledger; the charge from the plan."""
    planned, event, found = recorded.config.privacy.sanitised, recorded.config.closing_event(), recorded.closing
    if planned is None or event is None:
        if found is not None:
            raise Contradiction("the ledger is closed with a sanitised epsilon that nobody planned")
        raise Absent("none is planned")
    if found is None:
        raise Absent("planned, not released")
    if entry(found, "the closing", "event") != event.to_json():
        raise Contradiction("the charge is not that of the plan")
    if any(batch.histogram is None for batch in recorded.batches) or not recorded.batches:
        raise Contradiction("the ledger lacks the histograms of which it is")
    votes, teachers, plan = answered_batches(recorded.batches), most_teachers(recorded.batches), planned.plan()
    again = sanitise(votes, plan, recorded.config.privacy.delta, teachers, lambda: 0.0)
    cost, rdp = number(found, "the closing", "release_cost"), number(found, "the closing", "released_rdp")
    if not math.isclose(cost, plan.cost(event.votes_moved), rel_tol=TOLERANCE):
        raise Contradiction("the release's cost is another")
    claimed = number(found, "the closing", "guarantee", "epsilon")
    gap = (rdp - again.released_rdp) - (claimed - again.guarantee.epsilon)
    if not abs(gap) < TOLERANCE:
        raise Contradiction("the released curve and the epsilon do not belong together")
    for key, truth in again.guarantee.to_json().items():
        if key not in ("epsilon", "method"):
            agree(f"its {key}", entry(found, "the closing", "guarantee", key), truth)
    secret = secret_smoothness(votes, plan, teachers)
    scale = group_smooth_sensitivity(secret.smooth, plan.beta, event.votes_moved)[0] * plan.sigma_ss
    if not abs(rdp - again.released_rdp) <= MOST_DEVIATIONS * scale + ROUNDING:
        raise Contradiction("it is further from the ledger's votes than its noise explains")
    return f"{claimed:.4f}, of which the release itself costs {cost:.4f}"

"""What a ledger was charged for, against its configuration; what is claimed, against what the ledger gives; and what
the second aggregator signed, against the ledger's batches."""

from __future__ import annotations

import math
from typing import Any

from consilium.accounting.sanitise.release import sanitise, secret_smoothness
from consilium.coordinator.collection.kept_sums import ROSTER, SUMS, KeptSum, read_sums
from consilium.coordinator.ledger import Batch
from consilium.coordinator.privacy import answered_batches, most_teachers, promises, spent
from consilium.coordinator.verify.findings import Absent, Contradiction, Damaged, Files, agree, entry
from consilium.coordinator.verify.ledger import Recorded
from consilium.protocol import strict_json
from consilium.sums.roster import VerifiedRoster

TOLERANCE = 1e-9
"""Relative difference between a claimed and a recomputed number that rounding may explain."""


def check_query_budget(recorded: Recorded) -> str:
    """No more was asked or answered than the query budget allows."""
    batches, budget = recorded.batches, recorded.config.query_budget
    queries, answered = sum(len(batch.query_ids) for batch in batches), recorded.answered
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


MOST_DEVIATIONS, ROUNDING = 7.0, 2e-4
"""A sanitised curve is within so many standard deviations of what the ledger's votes give, but once in 4e11 runs."""


def check_closing(recorded: Recorded) -> str:
    """The released number, up to its noise, from the histograms in the ledger; the charge from the plan."""
    planned, event, closing = recorded.config.privacy.sanitised, recorded.config.closing_event(), recorded.closing
    if planned is None or event is None:
        if closing is not None:
            raise Contradiction("the ledger is closed with a sanitised epsilon that nobody planned")
        raise Absent("none is planned")
    if closing is None:
        raise Absent("planned, not released")
    agree("the charge", entry(closing, "the closing", "event"), event.to_json())
    if any(batch.histogram is None for batch in recorded.batches) or not recorded.batches:
        raise Contradiction("the ledger lacks the histograms of which it is")
    votes, teachers, plan = answered_batches(recorded.batches), most_teachers(recorded.batches), planned.plan()
    again = sanitise(votes, plan, recorded.config.privacy.delta, teachers, lambda: 0.0)
    cost, rdp = _number(closing, "the closing", "release_cost"), _number(closing, "the closing", "released_rdp")
    _close_to("the release's cost", cost, plan.cost())
    guarantee = entry(closing, "the closing", "guarantee")
    epsilon = _number(guarantee, "the closing", "epsilon")
    if not abs((rdp - again.released_rdp) - (epsilon - again.guarantee.epsilon)) < TOLERANCE:
        raise Contradiction("the released curve and the epsilon do not belong together")
    for key, truth in again.guarantee.to_json().items():
        if key not in ("epsilon", "method"):
            agree(f"its {key}", entry(guarantee, "the closing", key), truth)
    secret = secret_smoothness(votes, plan, teachers)
    scale = secret.smooth * plan.sigma_ss
    if not abs(rdp - again.released_rdp) <= MOST_DEVIATIONS * scale + ROUNDING:
        raise Contradiction("it is further from the ledger's votes than its noise explains")
    return f"{epsilon:.4f}, of which the release itself costs {cost:.4f}"


def guarantees_of(recorded: Recorded) -> dict[str, dict[str, Any]]:
    """What was promised and spent, by name, as JSON. What a closing released was drawn once, and is as recorded."""
    config, closing = recorded.config, recorded.closing
    every = promises(config) | spent(config, recorded.batches, closing is not None)
    guarantees: dict[str, dict[str, Any]] = {name: one.to_json() for name, one in every.items()}
    return guarantees if closing is None else guarantees | {"sanitised": entry(closing, "the closing", "guarantee")}


def check_claims(name: str, claims: object, truth: dict[str, dict[str, Any]]) -> str:
    """Every guarantee that should be claimed is, and says what the ledger gives, word by word; there is no other."""
    if not isinstance(claims, dict):
        raise Damaged(f"{name} has no guarantees")
    agree(f"{name}: its guarantees", sorted(claims), sorted(truth))
    for key, claim in claims.items():
        check_epsilon(f"{name}: {key}", claim, "epsilon", truth[key])
        if {**claim, "epsilon": None} != {**truth[key], "epsilon": None}:
            raise Contradiction(f"{name}: {key} has other words than the ledger's guarantee")
    return ", ".join(claims)


def check_epsilon(name: str, claims: object, key: str, truth: dict[str, Any]) -> None:
    """Raise Contradiction unless the number at `key` is the guarantee's epsilon. A secret one is not told."""
    numbers = _number(claims, name, key), _number(truth, "the ledger", "epsilon")
    _close_to(f"{name}: {key}", *numbers, secret=not truth.get("publishable", False))


def _number(table: Any, name: str, key: str) -> float:
    try:
        return strict_json.number(table, key)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Damaged(f"{name}: {key} is no number") from None


def _close_to(name: str, claimed: float, truth: float, *, secret: bool = False) -> None:
    if claimed != truth and not math.isclose(claimed, truth, rel_tol=TOLERANCE):
        numbers = "" if secret else f": claimed {claimed:.6g}, the ledger gives {truth:.6g}"
        raise Contradiction(f"{name} is not the ledger's{numbers}")


def check_signed(files: Files, recorded: Recorded) -> str:
    """Each batch is of one signed sum, with each aggregator's total the one that it was bound to; no query is in two
    sums of one round.

    Raises
    ------
    Contradiction : one of these does not hold. ConfigError, MalformedMessage, Damaged, Unfinished : a file is missing
        or broken, or a signature is false.
    """
    config, folder = recorded.config, files.folder
    if not recorded.batches and not (folder / SUMS).exists():
        return "no sum was given"
    content = [files.content(name) for name in (ROSTER, SUMS)][-1]
    roster = VerifiedRoster.load(folder / ROSTER)
    if roster.digest != config.roster:
        raise Contradiction(f"{ROSTER} is not the roster of the federation")
    sums = read_sums(content, roster)
    summed: set[tuple[str, int]] = set()
    for kept in sums:
        queries = {(query_id, kept.terms.round) for query_id in kept.ids}
        if (kept.terms.federation, kept.terms.roster) != (config.digest(), roster.digest):
            raise Contradiction(f"{SUMS}: session {kept.terms.sid} is of another federation")
        if summed & queries:
            raise Contradiction(f"session {kept.terms.sid}: a query is in two sums")
        summed |= queries
        kept.check_halves()
    noise = config.node_event(0, 0).party_noise(1)
    sigma = 0.0 if noise is None else noise.sigma
    for place, batch in enumerate(recorded.batches, 1):
        _check_batch(f"batch {place}", batch, sums, sigma)
    signed = f"{len(recorded.batches)} of {len(sums)} signed sums"
    return f"{signed}, each with noise of the second aggregator, sigma {sigma:g}"


def _check_batch(name: str, batch: Batch, sums: list[KeptSum], sigma: float) -> None:
    """Against the record of the batch's first sum; of queries beyond the last answer that there was room for too."""
    for kept in sums:
        if kept.terms.round == 1 and kept.ids[: len(batch.query_ids)] == batch.query_ids:
            if (len(kept.record.accepted), kept.terms.sigma) != (batch.parties, sigma):
                raise Contradiction(f"{name}: the second aggregator signed a sum of other parties or noise")
            return
    raise Contradiction(f"{name}: the second aggregator signed no sum on its queries")

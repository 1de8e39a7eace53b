"""Sums of verified votes: what the second aggregator signed, against the ledger's batches."""

from __future__ import annotations

from consilium.coordinator.collection.kept_sums import ROSTER, SUMS, KeptSum, read_sums
from consilium.coordinator.ledger import Batch
from consilium.coordinator.verify.findings import Contradiction, Files
from consilium.coordinator.verify.ledger import Recorded
from consilium.sums.roster import VerifiedRoster


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

"""Sums of verified votes: what the second aggregator signed, against the ledger's batches."""

from __future__ import annotations

from consilium.coordinator.collection.kept_session import RECORDS, ROSTER, KeptRecord, read_halves, read_records
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
    if not recorded.batches and not (folder / RECORDS).exists():
        return "no sum was given"
    for name in (ROSTER, RECORDS):
        files.content(name)
    roster = VerifiedRoster.load(folder / ROSTER)
    if roster.digest != config.roster:
        raise Contradiction(f"{ROSTER} is not the roster of the federation")
    records = read_records(folder / RECORDS, roster)
    summed: set[tuple[str, int]] = set()
    for kept in records:
        record, queries = kept.record, {(query_id, kept.record.round) for query_id in kept.ids}
        if (record.federation, record.roster) != (config.digest(), roster.digest):
            raise Contradiction(f"{RECORDS}: session {record.sid} is of another federation")
        if summed & queries:
            raise Contradiction(f"session {record.sid}: a query is in two sums")
        summed |= queries
    noise = config.node_event(0, 0).party_noise(1)
    sigma = 0.0 if noise is None else noise.sigma
    for place, batch in enumerate(recorded.batches, 1):
        read_halves(folder, _signed(f"batch {place}", batch, records, sigma).record)
    signed = f"{len(recorded.batches)} of {len(records)} signed sums"
    return f"{signed}, each with noise of the second aggregator, sigma {sigma:g}"


def _signed(name: str, batch: Batch, records: list[KeptRecord], sigma: float) -> KeptRecord:
    """The record of the batch's first sum; of queries beyond the last answer that there was room for too."""
    for kept in records:
        if kept.record.round == 1 and kept.ids[: len(batch.query_ids)] == batch.query_ids:
            if (len(kept.record.accepted), kept.record.sigma) == (batch.parties, sigma):
                return kept
            raise Contradiction(f"{name}: the second aggregator signed a sum of other parties or noise")
    raise Contradiction(f"{name}: the second aggregator signed no sum on its queries")

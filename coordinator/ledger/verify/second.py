"""The ledger of verified votes against what the second aggregator signed: each sum, its parties and its noise."""

from __future__ import annotations

import numpy as np

from consilium.coordinator.collection.clear import seen
from consilium.coordinator.given_records import RECORDS, ROSTER, KeptRecord, read_halves, read_records
from consilium.coordinator.ledger.batch import Batch
from consilium.coordinator.ledger.verify.files import Files
from consilium.coordinator.ledger.verify.findings import Contradiction, Damaged
from consilium.coordinator.ledger.verify.recorded import Recorded
from consilium.protocol.errors import ConfigError, MalformedMessage
from consilium.sums.aggregators.half import add_up
from consilium.sums.aggregators.wire import GivenRecord
from consilium.sums.errors import BrokenBlock
from consilium.sums.roster import VerifiedRoster, check_whole


def check_given(files: Files, recorded: Recorded) -> str:
    """Each batch is of one signed sum, and each aggregator's total the one that it was bound to; no query is in two
    noisy sums of one phase, and exact ones are over whole blocks of parties. Rosters of version 0.9 had no blocks: sets
    of parties are not looked at.

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
    for kept in records:
        if kept.record.federation != config.digest() or kept.record.roster != roster.digest:
            raise Contradiction(f"{RECORDS}: session {kept.record.sid} is of another federation")
    for at, batch in enumerate(recorded.batches, 1):
        _check_halves(at, batch, _record_of(at, batch, records, recorded), files, recorded)
    _check_sets(records, roster)
    noise = max((kept.record.sigma for kept in records), default=0.0)
    told = f", each with noise of the second aggregator, sigma {noise:g}" if noise > 0 else ", exact"
    return f"{len(recorded.batches)} of {len(records)} signed sums{told}"


def _record_of(at: int, batch: Batch, records: list[KeptRecord], recorded: Recorded) -> GivenRecord:
    noise = recorded.config.node_event(0, 0, batch.phase).party_noise(1)
    expected = (batch.parties, 0.0 if noise is None else noise.sigma, batch.phase or 1)
    for kept in records:
        if kept.record.phase == 1 and kept.ids[: len(batch.query_ids)] == batch.query_ids:
            if (len(kept.record.accepted), kept.record.sigma, kept.record.release) == expected:
                return kept.record
            raise Contradiction(f"batch {at}: the second aggregator signed a sum of other parties, noise or release")
    raise Contradiction(f"batch {at}: the second aggregator signed no sum on its queries")


def _check_halves(at: int, batch: Batch, record: GivenRecord, files: Files, recorded: Recorded) -> None:
    """The totals that both were bound to, and the votes of the ledger, where it has them."""
    if record.version == 1:
        return  # 0.9 bound nobody
    try:
        one, other = read_halves(files.folder, record)
    except MalformedMessage as error:
        raise Contradiction(error.what) from None
    if batch.histogram is None or record.sigma > 0:
        return
    votes = batch.parties * recorded.config.teachers_per_party
    sums, clipped = add_up(one, other, votes, 0)
    if not np.array_equal(seen(sums, clipped, votes)[: len(batch.histogram)], batch.histogram):
        raise Contradiction(f"batch {at}: its votes are not the sum of the two totals")


def _check_sets(records: list[KeptRecord], roster: VerifiedRoster) -> None:
    seen: set[tuple[str, int]] = set()
    for kept in records:
        if kept.record.sigma == 0:
            if roster.version > 1:
                _check_blocks(kept, roster)
            continue
        asked = {(query_id, kept.record.phase) for query_id in kept.ids}
        if seen & asked:
            raise Contradiction(f"session {kept.record.sid}: a query is in two sums")
        seen |= asked


def _check_blocks(kept: KeptRecord, roster: VerifiedRoster) -> None:
    try:
        check_whole(roster.blocks, kept.record.accepted)
    except BrokenBlock as error:
        raise Contradiction(f"session {kept.record.sid}: {error.what}") from None

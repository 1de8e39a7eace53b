"""The end of a federation: its sanitised epsilon, where one is planned, and its summary; or why it failed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import Event, EventLog, read_events
from consilium.coordinator.ledger import Ledger
from consilium.coordinator.privacy import Normal, close, promises, spent
from consilium.coordinator.run_folders import EVENTS, LEDGER, SUMMARY
from consilium.coordinator.run_state import RunState
from consilium.protocol import errors
from consilium.protocol.digests import canonical_digest
from consilium.protocol.errors import ConsiliumError, EngineError
from consilium.protocol.files import replace_private, typed
from consilium.sums.errors import SecAggError


def conclude(
    config: FederationConfig,
    run_dir: Path,
    ledger: Ledger,
    log: EventLog,
    *,
    parties: Sequence[str] = (),
    left_out_for_data: int = 0,
    counted: Sequence[int] = (),
    seconds: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Write the summary, after which the federation is closed, and return it. parties: that took part since the
    coordinator was started last; the summary has all that ever did. counted: parties in each sum. Raises LedgerError:
    nothing was released."""
    names = sorted({*RunState.of(read_events(run_dir / EVENTS)).took_part, *parties})
    sanitised = close(config, ledger, normal_for(config), log)
    batches = ledger.batches()
    guarantees = spent(config, batches, closed=sanitised is not None)
    summary = {
        "federation": config.digest(),
        "federation_digest": config.federation_digest(),
        "parties": names,
        "teachers": len(names) * config.teachers_per_party,
        "parties_left_out_for_data": left_out_for_data,
        "parties_counted": list(counted),
        "collection": config.collection,
        "asked": sum(len(batch.query_ids) for batch in batches),
        "answered": sum(int(batch.answered.sum()) for batch in batches),
        "reinforced": sum(int(batch.reinforced.sum()) for batch in batches),
        "noise": "system" if config.noise_seed is None else "seeded",
        "privacy": {
            **{name: guarantee.to_json() for name, guarantee in (promises(config) | guarantees).items()},
            **({"sanitised": sanitised["guarantee"]} if sanitised else {}),
        },
        "sanitised": sanitised,
        "seconds": dict(seconds or {}),
    }
    replace_private(run_dir / SUMMARY, json.dumps(summary, indent=2) + "\n")  # half of it would say "closed"
    log.write("closed", asked=summary["asked"], answered=summary["answered"])
    return summary


def conclude_unserved(config: FederationConfig, run_dir: Path) -> dict[str, Any]:
    """Close a deployed federation that nobody serves: what closing needs is in its ledger, and no party. Raises
    LedgerError: the ledger cannot be read or written, or is of another federation."""
    log = contextlib.closing(EventLog(run_dir / EVENTS))
    with log as opened, contextlib.closing(Ledger.of(run_dir / LEDGER, config)) as ledger:
        return conclude(config, run_dir, ledger, opened)


def normal_for(config: FederationConfig) -> Normal | None:
    """The noise of the closing: None for the operating system's; seeded in a simulation that asks for it."""
    if config.noise_seed is None:
        return None
    generator = np.random.default_rng(int(canonical_digest([config.noise_seed, "closing"]), 16))
    return lambda: float(generator.standard_normal())


@contextlib.contextmanager
def telling_failure(run_dir: Path, log: EventLog) -> Iterator[None]:
    """A typed error is written into the run's event log before it is raised."""
    try:
        yield
    except (ConsiliumError, OSError) as error:
        known = error if isinstance(error, ConsiliumError) else typed(error, run_dir)
        if known is None:
            raise
        with contextlib.suppress(OSError):  # on a full disk the error itself is what matters
            log.write("failed", error=type(known).__name__, what=known.what, action=known.action)
        raise


def failure_of(events: Iterable[Event]) -> ConsiliumError | None:
    """The error that these tell of, or one of the kind above it; None where they tell of none."""
    of_sums = {kind.__name__ for kind in SecAggError.__subclasses__()}
    for event in events:
        if event.kind == "failed":
            kind = getattr(errors, event.error, SecAggError if event.error in of_sums else EngineError)
            return kind(event.what, event.action)
    return None

"""A ledger in memory takes what one in a file takes, and refuses what that refuses, in the same order."""

from __future__ import annotations

from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.coordinator.events import NoLog
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Batch, Ledger, ReleaseLedger
from consilium.coordinator.memory_ledger import MemoryLedger
from consilium.protocol.errors import ConfigError, ConsiliumError
from consilium.protocol.label_source import NO_LABEL
from consilium.protocol.noise import SystemNoise
from tests.federation import make_config

IDS = [f"query-{number}" for number in range(30)]


def some_batch(generator: np.random.Generator) -> Batch:
    """One to four queries by lot, so that some are asked again."""
    ids = generator.permutation(IDS)[: generator.integers(1, 5)].tolist()
    labels = generator.integers(NO_LABEL, 2, len(ids))
    with_counts, has_votes, left_over = generator.integers(2, size=3)
    return Batch(
        event={"type": "confident", "asked": len(ids), "sigma": float(generator.random())},
        parties=5,
        query_ids=tuple(ids),
        labels=labels,
        reinforced=(labels != NO_LABEL) & (generator.random(len(ids)) < 0.3),
        counts=generator.integers(-5, 9, (len(ids), 2)) if with_counts else None,
        log_q_check=generator.normal(size=len(ids)) if has_votes else None,
        log_q_label=generator.normal(size=len(ids)) if has_votes else None,
        histogram=generator.integers(0, 9, (len(ids), 2)) if has_votes else None,
        probabilities=generator.random((len(ids), 2)) if has_votes else None,
        left_over=("left",) if left_over else (),
    )


def outcome(ledger: ReleaseLedger, batch: Batch, caps: tuple[int, int]) -> str:
    try:
        ledger.commit(batch, *caps)
    except ConsiliumError as error:
        return type(error).__name__ + (error.what if "budget" in type(error).__name__.lower() else "")
    return "charged"


def state(ledger: ReleaseLedger) -> list[Any]:
    return [ledger.next_batch(), ledger.spent(), ledger.find([*IDS, "left"]), ledger.closing()]


def plain(batch: Batch) -> dict[str, Any]:
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}


@pytest.mark.parametrize("seed", range(3))
def test_both_say_the_same_to_whatever_comes(seed: int, tmp_path: Path) -> None:
    generator, outcomes = np.random.default_rng(seed), set[str]()
    memory = MemoryLedger()
    with closing(Ledger(tmp_path / "ledger.db", "f" * 64, "{}")) as file:
        for _ in range(40):
            batch, caps = some_batch(generator), (int(generator.integers(2, 20)), int(generator.integers(1, 12)))
            with file.exclusive(), memory.exclusive():
                said = outcome(file, batch, caps)
                assert outcome(memory, batch, caps) == said
            outcomes.add(said.split()[0])
            assert state(memory) == state(file)
        assert [plain(batch) for batch in memory.batches()] == [plain(batch) for batch in file.batches()]
        for ledger in (file, memory):
            ledger.close_with('{"sanitised": 1}')
            assert outcome(ledger, some_batch(generator), (100, 100)) == "LedgerError"
            with pytest.raises(ConsiliumError):
                ledger.close_with("{}")
        assert state(memory) == state(file)
    assert len(outcomes) >= 3  # charged, beyond a cap, and recorded already


def test_no_label_leaves_by_a_ledger_in_memory_but_in_a_simulation() -> None:
    def service(simulation: bool, ledger: ReleaseLedger) -> LabelService:
        config = make_config(simulation=simulation, noise_seed=7 if simulation else None)
        return LabelService(config, ledger, None, lambda _: SystemNoise(), 5, NoLog())  # pyright: ignore

    service(True, MemoryLedger())
    with pytest.raises(ConfigError, match="in memory outside a simulation"):
        service(False, MemoryLedger())

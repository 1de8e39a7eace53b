"""The tables of modes: complete, and of one mind."""

from __future__ import annotations

from typing import get_args

from consilium.coordinator.collection.ways import WAYS
from consilium.coordinator.sum_noise import PARTS
from consilium.party.store import TABLES
from consilium.protocol.messages import CollectionMode
from consilium.sums.modes import ANSWERS, MODES
from consilium.sums.terms import SumTerms


def test_each_mode_stands_in_each_table() -> None:
    modes = set(get_args(CollectionMode))
    assert set(WAYS) == modes and set(MODES) == set(PARTS) == modes - {"plaintext"}
    kinds = {cls.collection for cls in _all(SumTerms) if hasattr(cls, "collection")}
    assert kinds == set(MODES) == {mode.roster.model_fields["collection"].default for mode in MODES.values()}


def _all(kind: type) -> set[type]:
    return {kind}.union(*map(_all, kind.__subclasses__()))


def test_no_request_and_no_table_is_of_two_modes() -> None:
    kinds = [request.kind for mode in MODES.values() for request in (*mode.answers, *mode.second)]
    tables = [table.split()[0] for table in TABLES]
    assert len(kinds) == len(set(kinds)) and len(tables) == len(set(tables))
    assert all(mode.votes in mode.answers and mode.votes in ANSWERS for mode in MODES.values())

"""Exact sums of the parties' votes, which only a simulation has. Everything computed from them is secret."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from consilium.coordinator.collection.clear import PATTERN, kept_votes
from consilium.coordinator.config import FederationConfig
from consilium.party.home import SETTINGS, open_home
from consilium.party.teachers import store
from consilium.party.teachers.ballot import Lot, cast
from consilium.protocol.rows.queries import query_ids
from consilium.simulations.workspace import Workspace
from consilium.student.pool import load_pool


def vote_sums(space: Workspace, config: FederationConfig, weights: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Query id -> votes int64 (classes,) of all parties.

    From the recorded votes; secure and distributed ones nobody has, so all teachers are asked again. `weights`: how
    often the answers of each party count, by name; 1 where none is given.
    """
    if config.votes != "clear":
        return _asked_again(space, config, weights)
    sums: dict[str, np.ndarray] = {}
    for file in space.private.glob(PATTERN):
        with kept_votes(file) as kept:
            sums.update(zip(kept.query_ids, kept.total(), strict=True))
    return sums


def _asked_again(space: Workspace, config: FederationConfig, weights: Mapping[str, int]) -> dict[str, np.ndarray]:
    queries = load_pool(space.work / "pool.npz").queries
    inputs, ids, federation = config.rows.inputs(queries), query_ids(queries), config.digest()
    votes = np.zeros((len(queries), len(config.rows.classes)), dtype=np.int64)
    for home in sorted(path.parent for path in space.party_root.glob(f"*/{SETTINGS}")):
        name = open_home(home).name
        for state in (home / "state").glob("teachers-*"):
            own = cast(store.load(state, federation), inputs, Lot(name, federation, ids))
            votes += own * weights.get(name, 1)
    return dict(zip(ids, votes, strict=True))

"""Queries as the teachers see them, kept for the next party where many parties are simulated in one process."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np

from consilium.protocol.rows.queries import query_ids
from consilium.protocol.rows.schema import Schema

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Latest(Generic[K, V]):
    """One value and the key that it was made for; no more than one, however large.

    >>> squares: Latest[int, int] = Latest()
    >>> squares.get(3, lambda: 9), squares.get(3, lambda: 0), squares.get(2, lambda: 4)
    (9, 9, 4)
    """

    def __init__(self) -> None:
        self._held: tuple[K, V] | None = None

    def get(self, key: K, make: Callable[[], V]) -> V:
        """What was made for this key, by `make` unless it was the last."""
        held = self._held  # another thread may put another here
        if held is None or held[0] != key:
            self._held = held = None  # let go of the old one first
            self._held = held = (key, make())
        return held[1]


_inputs: Latest[tuple[str, str], np.ndarray] = Latest()
_ids: Latest[str, list[str]] = Latest()


def query_inputs(schema: Schema, queries: np.ndarray, query_set: str) -> np.ndarray:
    """`schema.inputs` of canonical queries (n, features) whose hash is `query_set`; not to be written to.

    A representation of the last set is kept, and no more than that one: queries are public, and it is a function of
    them and the schema alone. Without a representation there is nothing that would be worth keeping.
    """
    if schema.representation == "none":
        return schema.inputs(queries)

    def represented() -> np.ndarray:
        inputs = schema.inputs(queries)
        inputs.setflags(write=False)
        return inputs

    return _inputs.get((schema.digest(), query_set), represented)


def ids_of_set(queries: np.ndarray, query_set: str) -> list[str]:
    """`query_ids` of canonical queries (n, features) whose hash is `query_set`; not to be written to."""
    return _ids.get(query_set, lambda: query_ids(queries))

"""The last of what was computed from something public, kept for the next party where one process serves many."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

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

"""Processor time and memory of several nodes that take turns in one process."""

from __future__ import annotations

import time
import tracemalloc
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Meter:
    """Seconds by node, summed; bytes at the peak by node, where memory is traced, and then seconds say nothing.

    A node's memory is counted from `base`, what the process held before the node had begun, or from its turn's start.
    """

    def __init__(self, traced: bool) -> None:
        self._traced = traced
        self.seconds: dict[str, float] = defaultdict(float)
        self.memory: dict[str, float] = defaultdict(float)
        if traced:
            tracemalloc.start()

    def base(self) -> int:
        """Bytes that are held now."""
        return tracemalloc.get_traced_memory()[0]

    @contextmanager
    def __call__(self, node: str, base: int | None = None) -> Iterator[None]:
        before = self.base() if base is None else base
        if self._traced:
            tracemalloc.reset_peak()
        start = time.process_time()
        yield
        self.seconds[node] += time.process_time() - start
        if self._traced:
            self.memory[node] = max(self.memory[node], tracemalloc.get_traced_memory()[1] - before)

"""The network edge under load: how much memory it costs, and whether honest peers go on. Loopback only."""

from __future__ import annotations

from benchmarks.load.table import main

__all__ = ["main"]

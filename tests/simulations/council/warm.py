"""Fits that take a second: worker processes that stay, and no report. What is tested beside it runs as it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from consilium.simulations.engines.local_grid import Worker

QUICK = {"mechanism": {"name": "histogram", "sigma": 1.0}, "queries": 20, "epsilon": None, "hand_labels": "none"}
"""No plan, no calibration, hardly any noise."""


class KeptWorker(Worker):
    """Outlives the runs that it works for."""

    def kill(self) -> None:
        """Not yet."""

    def stop(self) -> None:
        """Not yet."""

    def end(self) -> None:
        """Now."""
        super().stop()


@contextmanager
def quick_fits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within it runs share two workers, and write a page without a drawing."""
    workers = [KeptWorker() for _ in range(2)]

    @contextmanager
    def shared(count: int | None = None) -> Iterator[list[Worker]]:
        yield list(workers)

    def page(data: object, path: Path, public: bool = False) -> None:
        path.write_text("<html></html>", encoding="utf-8")

    monkeypatch.setattr("consilium.simulations.run.running_workers", shared)
    monkeypatch.setattr("consilium.simulations.report.build.write_report", page)
    try:
        yield
    finally:
        for worker in workers:
            worker.end()

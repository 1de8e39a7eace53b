"""Progress of a run on stderr, from its event log: the same for every engine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from consilium.protocol.strict_json import number
from consilium.simulations.report.wording import epsilon_text

WORDS = {"enrol": "parties enrol", "train": "parties train", "vote": "parties vote"}
POLL_SECONDS = 0.1


class Display:
    """Turns events into bars and lines."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console = console
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}

    def show(self, event: dict[str, Any]) -> None:
        """One event."""
        match event["event"]:
            case "stage":
                stage = str(event["stage"])
                self._tasks[stage] = self._progress.add_task(WORDS.get(stage, str(stage)), total=event["total"])
            case "progress":
                self._progress.update(self._tasks[event["stage"]], completed=event["done"])
            case "left-out":
                self._console.print(
                    f"  left out of {event['stage']}: {event['party']} ({event['reason']})", markup=False
                )
            case "promised":
                self._console.print(
                    f"promised before anything is asked: epsilon at most {epsilon_text(number(event, 'epsilon'))}"
                    f" at delta {event['delta']:g}, unit: a {event['unit']}",
                    markup=False,
                )
            case "warned":
                self._console.print(f"warning: {event['text']}", style="yellow", markup=False)
            case "released":
                self._console.print(
                    f"asked {event['asked']}, released {event['answered']} labels, counted {event['parties']} parties",
                    markup=False,
                )


@contextmanager
def following(events: Path, console: Console) -> Iterator[None]:
    """Show the events of a run while the context is open."""
    stop = threading.Event()
    columns = (TextColumn("{task.description:>14}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        display = Display(console, progress)

        def follow() -> None:
            position = 0
            while True:
                last = stop.is_set()  # read once more after the run has ended
                if events.exists():
                    with open(events, encoding="utf-8") as file:
                        file.seek(position)
                        while (line := file.readline()).endswith("\n"):
                            position = file.tell()
                            display.show(json.loads(line))
                if last:
                    return
                stop.wait(POLL_SECONDS)

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

"""Bars on a terminal: one for each stage, with how far it is, the time that it took and the time that is left."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from consilium.protocol.progress.stages import StageChange, Stages, StageState
from consilium.protocol.progress.time_left import spent


class Bars:
    """See `Display`. A stage that comes again keeps its bar; its time is that of all times together."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stages = Stages()
        self._rows: dict[str, TaskID] = {}
        columns = (
            TextColumn("{task.description:>24}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[count]:>14}"),
            TextColumn("{task.fields[spent]:>10}"),
            TextColumn("{task.fields[left]}"),
        )
        self._progress = Progress(*columns, console=console, refresh_per_second=4, redirect_stdout=False)
        self._progress.start()

    def begin(self, stage: str, total: int, at: float) -> None:
        """See `Display`."""
        self._show(self._stages.begin(stage, total, at), at)

    def update(self, stage: str, done: int, total: int, at: float) -> None:
        """See `Display`."""
        self._show(self._stages.update(stage, done, total, at), at)

    def say(self, text: str, at: float, warning: bool = False) -> None:
        """See `Display`."""
        told = f"warning: {text}" if warning else text
        self._console.print(told, style="yellow" if warning else None, markup=False, highlight=False)

    def restart(self, at: float) -> None:
        """See `Display`."""
        for row in self._rows.values():
            self._progress.remove_task(row)
        self._stages, self._rows = Stages(), {}

    def tick(self, now: float) -> None:
        """See `Display`."""
        self._draw(self._stages.open, now)

    def rest(self, at: float) -> None:
        """See `Display`."""
        self._draw(self._stages.end(at), at)

    def end(self, at: float, broken: bool = False) -> None:
        """See `Display`."""
        self.rest(at)
        self._progress.stop()

    def _show(self, change: StageChange, at: float) -> None:
        self._draw([*change.ended, change.stage], at)

    def _draw(self, stages: list[StageState], at: float) -> None:
        for each in stages:
            if each.name not in self._rows:
                self._rows[each.name] = self._progress.add_task(each.words, total=None, count="", spent="", left="")
            done, total = each.done, each.total if each.counted else None
            if each.ended is not None and not each.counted:
                done, total = 1, 1
            self._progress.update(
                self._rows[each.name],
                completed=done,
                total=total,
                count=each.count(),
                spent=spent(each.seconds(at)),
                left=each.time_left(at),
            )

"""Work that is done beside other work: by an idle process or, where there is none, when its result is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from consilium.protocol.label_source import Progress, no_progress


@dataclass(frozen=True)
class Task:
    """`function` of some module, which another process finds by its name, called with `arguments` and whom it tells
    what it has so far: a `Progress` mostly."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...] = field(repr=False)

    def run(self, tell: Callable[..., None]) -> Any:
        """Its result."""
        return self.function(*self.arguments, tell)


@dataclass(frozen=True)
class Finished:
    """What came of a task."""

    result: Any = field(repr=False)


class IdleProcess(Protocol):
    """Does one task at a time."""

    def begin(self, task: Task) -> bool:
        """Whether it has the task; False where it is dead, or the task cannot be sent."""
        ...

    def heard(self) -> tuple[Any, ...] | Finished | None:
        """What it says next, once it does: what the task tells, or its end; None where it cannot do it, or died."""
        ...

    def stop(self) -> None:
        """End it, whatever it does."""
        ...


class Pending:
    """A task that was begun, or is done when its result is wanted: here, where no process has it."""

    def __init__(self, task: Task, process: IdleProcess | None = None) -> None:
        self._task = task
        self._process = process if process is not None and process.begin(task) else None

    def result(self, progress: Progress = no_progress) -> Any:
        """Wait for it; progress is told of it as it comes. What the process could not do is done here, and raises here
        what it raises."""
        while self._process is not None:
            match self._process.heard():
                case Finished(result):
                    self._process = None
                    return result
                case None:
                    self._process = None
                case advance:
                    progress(*advance)
        return self._task.run(progress)

    def give_up(self) -> None:
        """End the process that still has it: whatever it says from now on is for nobody."""
        if self._process is not None:
            self._process.stop()


Begin = Callable[..., Pending]
"""Called with a function and its arguments but the last, a `Progress`."""


def when_wanted(function: Callable[..., Any], *arguments: Any) -> Pending:
    """A `Begin` without other processes."""
    return Pending(Task(function, arguments))


class Idle:
    """A `Begin` for processes that have nothing else to do: each has one task, further ones are done here. A context,
    with which processes are ended that have a task whose result nobody waited for."""

    def __init__(self, processes: Sequence[IdleProcess]) -> None:
        self._processes = list(processes)
        self._begun: list[Pending] = []

    def __enter__(self) -> Idle:
        return self

    def __exit__(self, *_: object) -> None:
        for pending in self._begun:
            pending.give_up()

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Pending:
        """Begin."""
        self._begun.append(Pending(Task(function, arguments), self._processes.pop() if self._processes else None))
        return self._begun[-1]

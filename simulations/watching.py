"""To look on at a run from another process: what its log says, and whether anybody still works on it.

Only files are read. The lock that says whether somebody works is looked at, for a moment each time.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from consilium.coordinator.deploy.runs import current_run
from consilium.coordinator.events import Event, EventTail
from consilium.coordinator.run_state import last_attempt
from consilium.node.kit import Kit, open_kit
from consilium.node.progress import Clock, Display, StageChange
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import is_held
from consilium.simulations.attempt import MANIFEST
from consilium.simulations.progress import EVENTS, Showing
from consilium.simulations.workspace import Workspace

LOOK_SECONDS = 0.5
YOUNG_SECONDS = 2.0
"""A run may have a folder for so long before anything is in it."""


@dataclass(frozen=True)
class Ending:
    """Why there is nothing more to see.

    status: "complete", "interrupted", "failed" or "killed" of a simulation; "closed" or "stopped" of a coordinator.
    """

    status: str
    what: str
    next: str = ""

    @property
    def well(self) -> bool:
        """Whether it came to its end."""
        return self.status in ("complete", "closed")


class WatchedRun(Protocol):
    """Where a run is."""

    @property
    def events(self) -> Path:
        """Its log."""
        ...

    def alive(self) -> bool:
        """Whether a process works on it now."""
        ...

    def ending(self) -> Ending | None:
        """How it ended, where nobody works on it; None where it has not begun."""
        ...


@dataclass(frozen=True)
class SimulatedRun:
    """The folder of `consilium run`."""

    folder: Path

    @property
    def events(self) -> Path:
        """See `WatchedRun`."""
        return self.folder / EVENTS

    def alive(self) -> bool:
        """See `WatchedRun`."""
        return is_held(Workspace(self.folder).lock)

    def ending(self) -> Ending | None:
        """See `WatchedRun`. Raises ConfigError if the manifest is damaged."""
        path = self.folder / MANIFEST
        if not path.exists():
            return None
        try:
            status = str(json.loads(path.read_text(encoding="utf-8"))["status"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ConfigError(f"{path} is damaged", "Run the scenario anew") from None
        resume = f"consilium run --resume {shlex.quote(str(self.folder))}"
        if status == "complete":
            return Ending(status, "the run is complete", f"Its report: {self.folder / 'report.html'}")
        if status == "running":
            return Ending("killed", "the run was killed: nobody works on it any more", f"Go on with: {resume}")
        word, _, why = status.partition(": ")
        return Ending(word, f"the run {word}{': ' if why else ''}{why}", f"Go on with: {resume}")


@dataclass(frozen=True)
class DeployedRun:
    """A coordinator's kit."""

    kit: Kit

    @property
    def events(self) -> Path:
        """See `WatchedRun`."""
        return current_run(self.kit).events

    def alive(self) -> bool:
        """See `WatchedRun`."""
        return is_held(self.kit.state / "lock")

    def ending(self) -> Ending | None:
        """See `WatchedRun`."""
        if current_run(self.kit).closed:
            return Ending("closed", "the federation is closed")
        again = f"Start it with: consilium node start {shlex.quote(str(self.kit.folder))}"
        return Ending("stopped", "the coordinator is not running", again)


def place_of(path: Path) -> WatchedRun | None:
    """Where the run is that a path means; None where nothing is there yet.

    Raises
    ------
    ConfigError : something else is there.
    """
    if (path / "kit.json").exists():
        return DeployedRun(open_kit(path, "coordinator"))
    if not path.exists():
        return None
    if not path.is_dir():
        raise ConfigError(f"{path} is no folder, so there is no run here", "Give the folder of a run, or a kit")
    return SimulatedRun(path)


class Seen(Display):
    """A `Display` that shows nothing, and remembers when it heard of a stage last."""

    def __init__(self) -> None:
        super().__init__()
        self.last = 0.0

    def restart(self, at: float) -> None:
        """See `Display`."""
        super().restart(at)
        self.last = at

    def _show(self, change: StageChange, at: float) -> None:
        self.last = at


@dataclass
class Watch:
    """Looks on until there is nothing more to see.

    wait: seconds to wait for somebody to work on it, at the beginning and again whenever nobody does.
    """

    path: Path
    display: Display
    wait: float = 0.0
    clock: Clock = time.time
    sleep: Callable[[float], None] = time.sleep
    seen: Seen = field(default_factory=Seen)

    def __post_init__(self) -> None:
        self._shown = (Showing(self.display), Showing(self.seen))

    def until_it_ends(self) -> Ending:
        """How it ended.

        Raises
        ------
        ConfigError : no run is there, nor came within `wait` seconds.
        """
        place = self._found()
        reader = EventTail(place.events)
        self._take(last_attempt(reader.fresh()))
        deserted: float | None = None
        while True:
            alive = place.alive()
            ending = None if alive else place.ending()
            self._take(reader.fresh())  # after the look, so that all that was written before an ending is shown
            if alive or place.alive():
                deserted = None
            else:
                if deserted is None:
                    deserted = self.clock()
                    self.display.rest(self.seen.last)
                    self._tell_waiting(ending)
                patience = self.wait if ending is not None else max(self.wait, YOUNG_SECONDS)
                if (ending is not None and ending.well) or self.clock() >= deserted + patience:
                    break
            self.sleep(LOOK_SECONDS)
        self.seen.rest(self.seen.last)
        if ending is None:
            raise _no_run(self.path)
        return ending

    def summary(self, ending: Ending) -> dict[str, Any]:
        """What `--format json` prints: each stage with its seconds, as often as it came."""
        stages = [
            {
                "stage": stage.name,
                "done": stage.done,
                "total": stage.total,
                "seconds": round(stage.seconds(stage.began), 3),
            }
            for stage in self.seen.stages.all.values()
        ]
        return {"run": str(self.path), **asdict(ending), "stages": stages}

    def _found(self) -> WatchedRun:
        until = self.clock() + self.wait
        while (place := place_of(self.path)) is None:
            if self.clock() >= until:
                raise _no_run(self.path)
            self.sleep(LOOK_SECONDS)
        return place

    def _tell_waiting(self, ending: Ending | None) -> None:
        if self.wait and ending is not None and not ending.well:
            self.display.say(f"{ending.what}; waiting {self.wait:g} s for it", self.clock())

    def _take(self, events: list[Event]) -> None:
        for event in events:
            for show in self._shown:
                show(event)


def _no_run(path: Path) -> ConfigError:
    return ConfigError(
        f"there is no run in {path}", "Give the folder of a run or a coordinator's kit, or --wait SECONDS for one"
    )

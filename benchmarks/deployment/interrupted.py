"""Questions in whose vote something happens: whoever asked is answered, and no row is charged twice or for nothing.

A question asks new rows. As soon as its vote has begun, and a while later, something is done to a node; nobody does
anything else but what a supervisor does, which starts again what has ended.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.deployment.machines import Machine
from benchmarks.deployment.site import Site

SECONDS = 1800.0
"""That a question may take, at most."""


@dataclass(frozen=True)
class Answered:
    """What came of one question. stage: in which the vote was when something happened; empty where it was over, and
    nothing did. seconds: from then to the answer. whole: whether all rows that were asked are charged, each once."""

    stage: str
    answered: bool
    seconds: float
    whole: bool

    @property
    def words(self) -> str:
        """For a table."""
        done = "answered by itself" if self.answered else "NOT ANSWERED"
        return f"in stage {self.stage or 'none'}: {done} after {self.seconds:.0f} s; {'asked = charged' * self.whole}"

    @property
    def right(self) -> bool:
        """Whether it is as it should be."""
        return self.answered and self.whole and bool(self.stage)


class Questions:
    """Those of one student, one after the other, `rows` new rows each."""

    def __init__(self, site: Site, rows: int, name: str = "asked") -> None:
        self.site, self.rows, self.name = site, rows, name
        self.count, self._before = 0, len(site.charged())

    def ask(self, disturb: Callable[[], None] = lambda: None, delay: float = 0.0) -> Answered:
        """One question; `disturb` is done `delay` seconds after its vote began."""
        self.count += 1
        events, folder = len(self.site.events()), f"{self.name}-{self.count}"
        command = self.site.question(folder, self._before + self.rows * self.count)
        asking, begun, stage = self._start(command), time.monotonic(), ""
        deadline, done = begun + SECONDS, False
        while time.monotonic() < deadline:
            if not done and any(event["event"] == "stage" for event in self.site.events()[events:]):
                time.sleep(delay)
                if asking.poll() is None:
                    stage = [event["stage"] for event in self.site.events() if event["event"] == "stage"][-1]
                done, begun = True, time.monotonic()
                disturb()
            if (code := asking.poll()) is not None and code >= 0:
                break  # answered, or it gave up, after which a person would have to ask again
            if code is not None:  # its machine was killed
                time.sleep(1)
                there = (self.site.student.folder / folder).is_dir()
                asking = self._start(f"{command} --resume" if there else command)
            time.sleep(0.1)
        charged = self.site.charged()
        wanted = self._before + self.rows * self.count
        whole = len(charged) == len({*charged}) == wanted
        return Answered(stage, asking.poll() == 0, time.monotonic() - begun, whole)

    def _start(self, command: str) -> subprocess.Popen[bytes]:
        student = self.site.student
        student.start(*command.split(), cwd=self.site.kit(student))
        assert student.node is not None
        return student.node


def kill(site: Site, victim: Machine) -> None:
    """SIGKILL to all that runs on a machine, and what a supervisor does then. A student is started by `Questions`."""
    victim.kill()
    if victim is not site.student:
        time.sleep(1)
        site.start(victim)


def cut(site: Site, victim: Machine, seconds: float) -> None:
    """Its cable is pulled for a while. Needs namespaces."""
    assert site.machines.network is not None
    site.machines.network.cut(victim.name)
    time.sleep(seconds)
    site.machines.network.mend(victim.name)

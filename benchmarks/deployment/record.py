"""What a drill did: each step with its seconds, what came of it, and whether that is what it should be."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.deployment.machines import Machine

MOST_LETTERS = 230


@dataclass(frozen=True)
class Step:
    """One step: of which part, who did what, in how many seconds, what came of it, and whether it is right."""

    part: str
    who: str
    what: str
    seconds: float
    outcome: str
    right: bool


class DrillEnded(Exception):
    """A step failed that all others rest on."""


class Record:
    """The steps so far, printed as they come, and a transcript of every command with all that it printed.

    commands: who ran them, and what stands after `consilium`."""

    def __init__(self, transcript: Path, hidden: Sequence[str] = (), quiet: bool = False) -> None:
        """hidden: paths of this machine that are not to be shown. quiet: print only what is not as it should be."""
        self.steps: list[Step] = []
        self.commands: list[tuple[str, str]] = []
        self._quiet, self._part = quiet, ""
        self._transcript, self._hidden = transcript, sorted(hidden, key=len, reverse=True)

    def begin(self, part: str) -> None:
        """What follows belongs to this part."""
        self._part = part
        print(f"== {part}", flush=True)

    def run(
        self,
        machine: Machine,
        command: str,
        cwd: Path | None = None,
        code: int = 0,
        says: str = "",
        never: str = "",
        needed: bool = False,
    ) -> str:
        """A command as docs/deploy.md has it, after `consilium`; returns what it printed.

        code: the exit status that is right. says: a pattern that must be in what it prints, and whose line is the
        outcome; never: one that must not be. needed: whether all that follows rests on it.
        """
        self.commands.append((machine.name, command))
        begun = time.monotonic()
        done = machine.consilium(*command.split(), cwd=cwd)
        seconds, output = time.monotonic() - begun, done.stdout
        found = re.search(says, output) if says else None
        right = done.returncode == code and (not says or found is not None)
        right = right and not (never and re.search(never, output))
        line = _line(output, found.start()) if found else _last(output)
        self.write(f"{machine.name}$ consilium {command}\n{output}")
        self.add(machine.name, f"`consilium {command}`", seconds, f"exit {done.returncode}: {line}", right)
        if needed and not right:
            raise DrillEnded(f"{machine.name}: consilium {command}\n{output}")
        return output

    def wait(
        self,
        who: str,
        what: str,
        true: Callable[[], str],
        seconds: float,
        nodes: Sequence[Machine] = (),
        needed: bool = True,
    ) -> str:
        """Until `true` gives a text, the outcome. Raises DrillEnded where it is needed, and does not come or a node has
        ended."""
        begun = time.monotonic()
        while not (told := true()):
            ended = [node.name for node in nodes if node.node is None or node.node.poll() is not None]
            if ended or time.monotonic() > begun + seconds:
                why = f"{', '.join(ended)} ended" if ended else f"not within {seconds:g} s"
                self.add(who, what, time.monotonic() - begun, why, False)
                if not needed:
                    return ""
                said = "\n".join(f"== {node.name}\n{node.said()[-3000:]}" for node in nodes)
                raise DrillEnded(f"{what}: {why}\n{said}")
            time.sleep(0.2)
        self.add(who, what, time.monotonic() - begun, told, True)
        return told

    def check(self, who: str, what: str, outcome: str, right: bool) -> None:
        """Something that was seen, and took no time."""
        self.add(who, what, 0.0, outcome, right)

    def add(self, who: str, what: str, seconds: float, outcome: str, right: bool) -> None:
        """One step, printed."""
        step = Step(
            self._part, who, self._clean(what), seconds, self._clean(outcome)[:MOST_LETTERS].replace("|", "/"), right
        )
        self.steps.append(step)
        if right and self._quiet:
            return
        print(f"{'ok  ' if right else 'FAIL'} {seconds:6.1f} s  {who}: {step.what} -> {step.outcome}", flush=True)

    def write(self, text: str) -> None:
        """Add to the transcript."""
        with open(self._transcript, "a", encoding="utf-8") as file:
            file.write(self._clean(text).rstrip() + "\n\n")

    def table(self) -> str:
        """All steps, as a table of Markdown."""
        lines = ["| at | step | seconds | outcome | |", "|---|---|---|---|---|"]
        for step in self.steps:
            right = "pass" if step.right else "**FAIL**"
            lines.append(f"| {step.who} | {step.what} | {step.seconds:.1f} | {step.outcome} | {right} |")
        return "\n".join(lines)

    def summary(self) -> list[tuple[str, int, int, int]]:
        """The parts: steps, seconds, and how many are not as they should be."""
        rows = []
        for part in dict.fromkeys(step.part for step in self.steps):
            of = [step for step in self.steps if step.part == part]
            wrong = sum(not step.right for step in of)
            rows.append((part, len(of), round(sum(step.seconds for step in of)), wrong))
        return rows

    @property
    def failed(self) -> int:
        """How many steps are not as they should be."""
        return sum(not step.right for step in self.steps)

    def _clean(self, text: str) -> str:
        for path in self._hidden:
            text = text.replace(path, "...")
        return text


def _line(output: str, at: int) -> str:
    start = output.rfind("\n", 0, at) + 1
    end = output.find("\n", at)
    return " ".join(output[start : end if end >= 0 else None].split())


def _last(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return " ".join(lines[-1].split()) if lines else "printed nothing"

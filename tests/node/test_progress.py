"""Stages, the time that is left, bars and lines of a log."""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from consilium.node.progress import (
    ASK,
    LEAST_SECONDS,
    MOST_POINTS,
    ROUND,
    TRAIN_STUDENT,
    Bars,
    Display,
    LogLines,
    Shared,
    Stages,
    TimeLeft,
    about,
    showing,
)


def after(points: list[tuple[float, int]], began: float = 0.0) -> TimeLeft:
    left = TimeLeft(began, 0)
    for at, done in points:
        left.update(at, done)
    return left


@pytest.mark.parametrize(
    ("points", "now", "total", "expected"),
    [
        ([], 100.0, 10, None),  # nothing was done
        ([(1.0, 5)], 1.0, 10, None),  # too early to know
        ([(4.0, 5)], 4.0, 10, 4.0),
        ([(4.0, 5)], 8.0, 10, 8.0),  # nothing comes: it grows
        ([(4.0, 10)], 4.0, 10, 0.0),
        ([(10.0, 10), (20.0, 20)], 20.0, 30, 10.0),
        # slow at first, ten times as fast in the later half: the first half is forgotten
        ([(5.0, 5), (10.0, 10), (15.0, 60), (20.0, 110)], 20.0, 210, 10.0),
        # one slow step of many does not decide
        ([(float(at), at) for at in range(1, 90)] + [(100.0, 90)], 100.0, 180, pytest.approx(112.5, rel=0.02)),
    ],
)
def test_seconds_left(points: list[tuple[float, int]], now: float, total: int, expected: float | None) -> None:
    assert after(points).seconds(now, total) == expected


def test_it_goes_on_from_what_was_done_before_it_began() -> None:
    """A student of images that resumes begins at the step of its checkpoint: those before took no time."""
    left = TimeLeft(0.0, 900)
    left.update(10.0, 950)
    assert left.seconds(10.0, 1000) == 10.0


@given(st.lists(st.tuples(st.floats(0.01, 50), st.integers(0, 20)), min_size=1, max_size=60), st.integers(1, 400))
def test_it_is_never_negative_nor_told_before_it_can_be_known(steps: list[tuple[float, int]], more: int) -> None:
    at, done, left = 0.0, 0, TimeLeft(0.0, 0)
    for seconds, units in steps:
        at, done = at + seconds, done + units
        left.update(at, done)
    found = left.seconds(at, done + more)
    assert (found is None) == (done == 0 or at < LEAST_SECONDS)
    assert found is None or 0 < found < math.inf


def test_millions_of_steps_need_no_memory() -> None:
    left = after([(float(at), at) for at in range(1, 20_000)])
    assert len(left._points) <= MOST_POINTS
    assert left.seconds(20_000.0, 40_000) == pytest.approx(20_000, rel=0.01)


def test_words_never_promise_more_than_a_tenth_or_so() -> None:
    for seconds in (8, 33, 59, 61, 119, 601, 1700, 3601, 9000, 36_001, 200_000):
        words = about(seconds).removeprefix("about ").split()
        told = sum(
            int(value) * {"s": 1, "min": 60, "h": 3600}[unit]
            for value, unit in zip(words[::2], words[1::2], strict=True)
        )
        assert abs(told - seconds) <= max(30.0, 0.15 * seconds), (seconds, about(seconds))
    assert about(0) == "a few seconds"


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def play(display: Display, *calls: tuple[Any, ...]) -> None:
    for name, *arguments in calls:
        getattr(display, name)(*arguments)


def lines(*calls: tuple[Any, ...]) -> list[str]:
    file = io.StringIO()
    play(LogLines(file), *calls)
    return [line.removeprefix("1970-01-01 ") for line in file.getvalue().splitlines()]


def trained(*ats: float, total: int = 100) -> list[tuple[Any, ...]]:
    """One more of the parties has trained, at each of these times."""
    return [("update", "train", place + 1, total, at) for place, at in enumerate(ats)]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([("say", "a run", 3661.0)], ["01:01:01  a run"]),
        ([("say", "few parties", 1.0, True)], ["00:00:01  warning: few parties"]),
        (
            [("begin", "train", 2, 0.0), *trained(1.0, 4.0, total=2)],
            ["00:00:00  parties train (2)", "00:00:04  parties train: 2 of 2, done in 4.0 s"],
        ),
        (  # not all came before the next stage began
            [("begin", "train", 3, 0.0), *trained(1.0, total=3), ("begin", "vote", 1, 5.0), ("end", 6.0)],
            [
                "00:00:00  parties train (3)",
                "00:00:05  parties train: 1 of 3, ended in 5.0 s",
                "00:00:05  parties vote",
                "00:00:06  parties vote, ended in 1.0 s",
            ],
        ),
        (  # a tenth of the way, but no more often than every two seconds
            [("begin", "train", 10, 0.0), *trained(0.5, 1.0, 1.5, 2.0, 2.5, total=10)],
            ["00:00:00  parties train (10)", "00:00:02  parties train: 4 of 10, 2.0 s so far, a few seconds left"],
        ),
        (  # nothing comes: the clock speaks
            [("begin", "train", 9, 0.0), ("tick", 9.0), ("tick", 10.0), ("tick", 19.0), ("tick", 20.0)],
            [
                "00:00:00  parties train (9)",
                "00:00:10  parties train: 0 of 9, 10 s so far",
                "00:00:20  parties train: 0 of 9, 20 s so far",
            ],
        ),
        (  # nobody knows how far it is
            [("begin", "pooled", 1, 0.0), ("tick", 12.0), ("update", "pooled", 1, 1, 13.0)],
            [
                "00:00:00  pooled model trains",
                "00:00:12  pooled model trains, 12 s so far",
                "00:00:13  pooled model trains, done in 13 s",
            ],
        ),
        (  # batches of votes within what is asked: a line at the first, then by the clock alone
            [
                ("begin", ASK, 40, 0.0),
                *(("begin", "vote", 2, float(at)) for at in (0, 4, 8)),
                ("update", ASK, 30, 40, 9.0),
                ("begin", "vote", 2, 9.5),
                ("tick", 20.0),
                ("update", ASK, 40, 40, 21.0),
            ],
            [
                "00:00:00  queries are asked (40)",
                "00:00:00  parties vote (2)",
                "00:00:04  parties vote: 0 of 2, ended in 4.0 s",
                "00:00:09  queries are asked: 30 of 40, 9.0 s so far, a few seconds left;"
                " parties vote: 0 of 2, 9.0 s so far",
                "00:00:20  queries are asked: 30 of 40, 20 s so far, a few seconds left;"
                " parties vote: 0 of 2, 20 s so far",
                "00:00:21  queries are asked: 40 of 40, done in 21 s",
            ],
        ),
        (  # a callback without a begin
            [("update", "votes of mine", 2, 2, 1.0)],
            ["00:00:01  votes of mine (2)", "00:00:01  votes of mine: 2 of 2, done in 0.0 s"],
        ),
    ],
)  # fmt: skip
def test_lines(utc, calls: list[tuple[Any, ...]], expected: list[str]) -> None:
    assert lines(*calls) == expected


def test_a_stage_in_which_others_happen_stays_open() -> None:
    stages = Stages()
    stages.begin(ROUND, 3, 0.0)
    stages.begin(ASK, 300, 0.0)
    stages.begin("vote", 5, 1.0)
    assert [each.name for each in stages.open] == [ROUND, ASK, "vote"]
    stages.begin(TRAIN_STUDENT, 1, 2.0)
    assert [each.name for each in stages.open] == [ROUND, ASK, TRAIN_STUDENT]
    stages.update("train student, mlp", 10, 100, 3.0)
    assert [each.name for each in stages.update(TRAIN_STUDENT, 1, 1, 4.0).ended] == [
        "train student, mlp",
        TRAIN_STUDENT,
    ]
    stages.update(ROUND, 1, 3, 5.0)
    assert [each.name for each in stages.open] == [ROUND, ASK]
    stages.begin(TRAIN_STUDENT, 1, 6.0)
    assert stages.all[TRAIN_STUDENT].seconds(9.0) == 2.0 + 3.0  # of both times
    assert {each.name for each in stages.end(9.0)} == {ROUND, ASK, TRAIN_STUDENT}
    assert stages.all["vote"].seconds(100.0) == 1.0


def bars(width: int, *calls: tuple[Any, ...]) -> str:
    """What stands on the terminal when all is shown."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    display = Bars(console)
    play(display, *calls)
    shown = "\n".join("".join(part.text for part in line) for line in console.render_lines(display._progress))
    display.end(0.0)
    return shown


def test_bars_have_count_time_and_time_left() -> None:
    shown = bars(
        100,
        ("begin", "enrol", 371, 0.0),
        ("update", "enrol", 371, 371, 3.0),
        ("begin", "train", 371, 3.0),
        ("update", "train", 100, 371, 13.0),
        ("tick", 13.0),
    )
    enrolled, training = shown.splitlines()
    assert enrolled.split()[:2] == ["parties", "enrol"]
    assert "371 of 371" in enrolled and "3.0 s" in enrolled and "left" not in enrolled
    assert "100 of 371" in training and "10 s" in training and training.rstrip().endswith("about 30 s left")


def test_bars_of_a_stage_that_comes_again_are_one() -> None:
    calls = [call for at in range(0, 40, 2) for call in (("begin", "vote", 2, at), ("update", "vote", 2, 2, at + 1.0))]
    (line,) = bars(100, *calls).splitlines()
    assert "20 s" in line  # all times together


class Gone(Display):
    """A terminal that is not there any more."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def begin(self, stage: str, total: int, at: float) -> None:
        self.calls += 1
        raise BrokenPipeError(32, "Broken pipe")


def test_nobodys_work_fails_for_a_terminal_that_is_gone() -> None:
    gone = Gone()
    shared = Shared(gone)
    shared.begin("train", 3, 0.0)
    shared.begin("vote", 3, 0.0)
    assert gone.calls == 1


def test_what_is_shared_is_passed_on_as_it_was_said() -> None:
    file = io.StringIO()
    Shared(LogLines(file)).say("few parties", 1.0, warning=True)
    assert file.getvalue().endswith("warning: few parties\n")


@pytest.mark.parametrize("terminal", [False, True])
def test_bars_on_a_terminal_and_lines_elsewhere(monkeypatch, capfd, terminal: bool) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1") if terminal else monkeypatch.delenv("FORCE_COLOR", raising=False)
    with showing() as display:
        display.begin("train", 3, time.time())
        display.say("here", time.time())
    out, told = capfd.readouterr()
    assert out == ""  # stdout is for results
    assert ("\x1b[" in told) == terminal
    assert "here" in told and "parties train" in told


def test_quiet_shows_nothing(capfd) -> None:
    with showing(quiet=True) as display:
        display.begin("train", 3, time.time())
        display.say("here", time.time())
    assert capfd.readouterr() == ("", "")


def test_time_passes_by_itself(capfd) -> None:
    """The heartbeat of a stage of which nothing comes, with a clock that runs an hour ahead."""
    with showing(clock=lambda: time.time() + 3600) as display:
        display.begin("pooled", 1, time.time())
        while "1 h so far" not in (told := capfd.readouterr().err):
            assert told == "" or "pooled" in told
            time.sleep(0.02)
    assert os.environ.get("TERM") != "dumb" or told


def test_seconds_count_from_the_start_of_the_process() -> None:
    """Not from when a library was loaded."""
    late = "import time; time.sleep(0.3); from consilium.node.progress import seconds_since_start as so; print(so())"
    done = subprocess.run([sys.executable, "-c", late], capture_output=True, text=True, check=True)
    assert 0.3 <= float(done.stdout) < 60

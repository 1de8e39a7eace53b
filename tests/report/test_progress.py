"""Stages as bars on a terminal, and as lines of a log elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from consilium.report.progress import ASK, COMPARE, Bars, Display, LogLines, showing


def play(display: Display, *calls: tuple[str, int, int]) -> Display:
    for call in calls:
        display.update(*call)
    return display


def lines(file: io.StringIO) -> list[str]:
    """Without the time of day."""
    return [line.split("  ", 1)[1] for line in file.getvalue().splitlines()]


def test_lines_of_a_stage_that_comes_again_are_those_of_its_first_time() -> None:
    file, votes = io.StringIO(), [("vote", 0, 2), ("vote", 2, 2)]
    display = play(LogLines(file), (ASK, 0, 40), *votes, (ASK, 30, 40), *votes, *votes, (ASK, 40, 40))
    display.say("few parties", warning=True)
    assert lines(file) == [
        "queries are asked (40)",
        "parties vote (2)",
        "parties vote: 2 of 2, ended after 0.0 s",
        "queries are asked: 40 of 40, ended after 0.0 s",
        "warning: few parties",
    ]


def test_lines_say_how_far_a_stage_is_and_how_long_it_takes_also_before_its_first_piece_has_ended(monkeypatch) -> None:
    """A line every ten seconds, however often it is asked."""
    now, file = [100.0], io.StringIO()
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    display = play(LogLines(file), (COMPARE, 5, 17))  # those of before say nothing of the pace
    for second in range(1, 41):
        now[0] = 100.0 + second
        display.update(COMPARE, 5 + second // 20, 17)
    assert lines(file) == [
        "cells are computed (17)",
        "cells are computed: 5 of 17 after 10 s",
        "cells are computed: 6 of 17 after 20 s, about 4 min left",
        "cells are computed: 6 of 17 after 30 s, about 6 min left",
        "cells are computed: 7 of 17 after 40 s, about 3 min left",
    ]


class Gone(io.StringIO):
    """A terminal that is not there any more."""

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of the thread that draws bars
@pytest.mark.parametrize("terminal", [False, True])
def test_nobodys_work_fails_for_a_terminal_that_is_gone(terminal: bool) -> None:
    console = Console(file=io.StringIO(), force_terminal=True)
    display = Bars(console) if terminal else LogLines(Gone())
    console.file = Gone()
    display.say("here")
    play(display, ("train", 0, 3), ("train", 3, 3), ("vote", 0, 3))


@pytest.mark.parametrize("terminal", [False, True])
def test_bars_on_a_terminal_lines_elsewhere_and_nothing_where_it_is_quiet(monkeypatch, capfd, terminal: bool) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1") if terminal else monkeypatch.delenv("FORCE_COLOR", raising=False)
    for quiet in (False, True):
        with showing(quiet) as display:
            display.update("train", 0, 3)
            display.say("here")
            display.say("few parties", warning=True)
        out, told = capfd.readouterr()
        assert out == ""  # stdout is for results
        assert ("\x1b[" in told) == (terminal and not quiet)
        assert all((words in told) != quiet for words in ("here", "warning: few parties", "parties train"))

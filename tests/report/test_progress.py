"""Stages as bars on a terminal, and as lines of a log elsewhere."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from consilium.report.progress import ASK, Bars, Display, LogLines, about, showing


def test_words_never_promise_more_than_a_tenth_or_so() -> None:
    for seconds in (8, 33, 59, 61, 119, 601, 1700, 3601, 9000, 36_001, 200_000):
        words = about(seconds).removeprefix("about ").split()
        told = sum(
            int(value) * {"s": 1, "min": 60, "h": 3600}[unit]
            for value, unit in zip(words[::2], words[1::2], strict=True)
        )
        assert abs(told - seconds) <= max(30.0, 0.15 * seconds), (seconds, about(seconds))
    assert about(0) == "a few seconds"


def play(display: Display, *calls: tuple[Any, ...]) -> None:
    for name, *arguments in calls:
        getattr(display, name)(*arguments)


VOTES = [("begin", "vote", 2), ("update", "vote", 2, 2)]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([("say", "few parties", True)], ["warning: few parties"]),
        (  # not all came before the next stage began
            [("begin", "train", 3), ("update", "train", 1, 3), ("begin", "vote", 1), ("end",)],
            [
                "parties train (3)",
                "parties train: 1 of 3, ended after 0.0 s",
                "parties vote",
                "parties vote, ended after 0.0 s",
            ],
        ),
        (  # batches of votes within what is asked: lines of the first alone
            [("begin", ASK, 40), *VOTES, ("update", ASK, 30, 40), *VOTES, *VOTES, ("update", ASK, 40, 40)],
            [
                "queries are asked (40)",
                "parties vote (2)",
                "parties vote: 2 of 2, ended after 0.0 s",
                "queries are asked: 40 of 40, ended after 0.0 s",
            ],
        ),
    ],
)
def test_lines(calls: list[tuple[Any, ...]], expected: list[str]) -> None:
    file = io.StringIO()
    play(LogLines(file), *calls)
    assert [line.split("  ", 1)[1] for line in file.getvalue().splitlines()] == expected


def bars(*calls: tuple[Any, ...]) -> list[str]:
    """What stands on the terminal when all is shown."""
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    display = Bars(console)
    play(display, *calls)
    shown = ["".join(part.text for part in line) for line in console.render_lines(display._table)]
    display.end()
    return shown


def test_bars_have_count_and_time() -> None:
    enrolled, training = bars(
        ("begin", "enrol", 371), ("update", "enrol", 371, 371), ("begin", "train", 371), ("update", "train", 100, 371)
    )
    assert enrolled.split()[:2] == ["parties", "enrol"]
    assert "371/371" in enrolled and "0:00:00" in enrolled
    assert "100/371" in training


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
    play(display, ("say", "here"), ("begin", "train", 3), ("update", "train", 3, 3), ("begin", "vote", 3), ("end",))


@pytest.mark.parametrize("terminal", [False, True])
def test_bars_on_a_terminal_and_lines_elsewhere(monkeypatch, capfd, terminal: bool) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1") if terminal else monkeypatch.delenv("FORCE_COLOR", raising=False)
    with showing() as display:
        display.begin("train", 3)
        display.say("here")
        display.say("few parties", warning=True)
    out, told = capfd.readouterr()
    assert out == ""  # stdout is for results
    assert ("\x1b[" in told) == terminal
    assert "here" in told and "warning: few parties" in told and "parties train" in told


def test_quiet_shows_nothing(capfd) -> None:
    with showing(quiet=True) as display:
        display.begin("train", 3)
        display.say("here")
    assert capfd.readouterr() == ("", "")

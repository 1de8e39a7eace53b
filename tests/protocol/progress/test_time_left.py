"""How long it will still take, by a clock that the test sets."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consilium.protocol.progress.time_left import LEAST_SECONDS, MOST_POINTS, TimeLeft, about


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

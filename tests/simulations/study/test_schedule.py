"""Which steps are done, in which order, how often, and what becomes of those that fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import pytest

from consilium.protocol.errors import EngineError
from consilium.simulations.study.cache import LostStep, StepCache
from consilium.simulations.study.keys import deciding_versions
from consilium.simulations.study.schedule import MOST_ATTEMPTS, MOST_IN_BATCH, Died, Tally, do_steps, missing
from consilium.simulations.study.tasks import BatchDone, StepDone, StepFailure, StudyStep


def at(name: str) -> str:
    """An address."""
    return name.encode().hex().ljust(64, "0")


def step(name: str, *needs: str, kind: str = "judge") -> StudyStep:
    return StudyStep(at(name), kind, kind, {"division": "d", "source": None}, {each: at(each) for each in needs})


def graph(*steps: StudyStep) -> dict[str, StudyStep]:
    return {each.address: each for each in steps}


DIAMOND = graph(
    step("top", "left", "right"), step("left", "root"), step("right", "root"), step("root", kind="ensemble")
)


@dataclass
class Recorded:
    """Does steps at once, as `what` says of each; writes down the batches. A result is the names of what was read."""

    cache: StepCache
    what: Callable[[StudyStep], StepFailure | Died | None] = lambda step: None
    workers: int = 2
    versions: Mapping[str, str] = field(default_factory=deciding_versions)
    batches: list[list[str]] = field(default_factory=list)
    _waiting: list[tuple[int, list[StudyStep]]] = field(default_factory=list)

    def room(self) -> int:
        return self.workers - len(self._waiting)

    def submit(self, number: int, steps: list[StudyStep]) -> None:
        self._waiting.append((number, steps))
        self.batches.append([name(each.address) for each in steps])

    def finished(self) -> list[tuple[int, BatchDone | Died]]:
        number, steps = self._waiting.pop(0)
        done = []
        for each in steps:
            became = self.what(each)
            if isinstance(became, Died):
                return [(number, became)]
            done.append(self._done(each, became))
        return [(number, BatchDone(done, self.versions))]

    def _done(self, each: StudyStep, failure: StepFailure | None) -> StepDone:
        if failure is not None:
            return StepDone(each.address, failure=failure)
        try:
            content = b",".join(self.cache.get(address) for address in each.needs.values())
        except LostStep as error:
            return StepDone(each.address, lost=error.address)
        return StepDone(each.address, name(each.address).encode() + b"(" + content + b")", 0.5)


def name(address: str) -> str:
    return bytes.fromhex(address).decode().rstrip("\0")


@pytest.fixture
def cache(tmp_path: Path) -> StepCache:
    return StepCache(tmp_path / "cache")


def carry_out(steps: dict[str, StudyStep], targets: list[str], executor: Recorded, tally: Tally | None = None) -> Tally:
    tally = tally or Tally()
    do_steps(steps, [at(each) for each in targets], executor.cache, executor, tally, lambda kinds: None)
    return tally


def test_each_step_once_after_what_it_needs(cache: StepCache) -> None:
    executor = Recorded(cache)
    tally = carry_out(DIAMOND, ["top", "left"], executor)
    assert sorted(chain(*executor.batches)) == ["left", "right", "root", "top"]
    assert executor.batches[0] == ["root"] and executor.batches[-1] == ["top"]
    assert cache.get(at("top")) == b"top(left(root()),right(root()))"
    assert (tally.done, tally.hits, tally.seconds) == (4, 0, 2.0)
    again = Recorded(cache)
    assert (carry_out(DIAMOND, ["top", "left"], again).hits, again.batches) == (2, [])


def test_what_no_target_needs_is_not_done(cache: StepCache) -> None:
    """An ensemble that was cleared away is trained again only if something new is to be read from it."""
    carry_out(DIAMOND, ["top"], Recorded(cache))
    cache.drop(at("root"))
    assert missing(DIAMOND, [at("top")], cache) == {}
    cache.drop(at("left"))
    executor = Recorded(cache)
    carry_out(DIAMOND, ["left"], executor)
    assert executor.batches == [["root"], ["left"]]


def test_a_failure_reaches_what_needs_it_and_nothing_else(cache: StepCache) -> None:
    wrong = StepFailure("DataError", "is wrong")
    executor = Recorded(cache, lambda step: wrong if step.address == at("left") else None)
    steps = {**DIAMOND, **graph(step("alone"))}
    tally = carry_out(steps, ["top", "right", "alone"], executor)
    assert tally.failures == {at("left"): wrong, at("top"): wrong}
    assert "top" not in set(chain(*executor.batches))
    assert cache.has(at("right")) and cache.has(at("alone"))
    later = Recorded(cache)
    carry_out({**steps, **graph(step("late", "top"))}, ["late"], later, tally)
    assert (tally.failures[at("late")], later.batches) == (wrong, [])


@pytest.mark.parametrize("deaths", [1, MOST_ATTEMPTS - 1, MOST_ATTEMPTS])
def test_a_step_whose_process_dies_is_tried_again(cache: StepCache, deaths: int) -> None:
    left = [deaths]

    def what(each: StudyStep) -> Died | None:
        if each.address == at("b") and left[0]:
            left[0] -= 1
            return Died("it ended")
        return None

    steps = graph(*(step(each) for each in "abcd"))
    tally = carry_out(steps, list("abcd"), Recorded(cache, what, workers=1))
    gone = deaths == MOST_ATTEMPTS
    assert {name(address): failure.what for address, failure in tally.failures.items()} == (
        {"b": "it ended"} if gone else {}
    )
    assert [each for each in "abcd" if cache.has(at(each))] == list("acd" if gone else "abcd")


@pytest.mark.parametrize("damage", ["gone", "damaged"])
def test_what_is_lost_from_the_cache_meanwhile_is_done_again(cache: StepCache, damage: str) -> None:
    """As where another process clears it."""
    carry_out(DIAMOND, ["left"], Recorded(cache))
    broken = []

    def what(each: StudyStep) -> None:
        if each.address == at("top") and not broken:
            broken.append(cache.path(at("left")))
            if damage == "gone":
                cache.clear()
            else:
                broken[0].write_bytes(b"half")

    executor = Recorded(cache, what)
    assert carry_out(DIAMOND, ["top"], executor).failures == {}
    assert cache.get(at("top")) == b"top(left(root()),right(root()))"


def test_what_is_lost_again_and_again_fails(cache: StepCache) -> None:
    executor = Recorded(cache, lambda step: cache.clear() and None)  # type: ignore[arg-type]
    tally = carry_out(graph(step("b", "a"), step("a")), ["b"], executor)
    assert [failure.type for failure in tally.failures.values()] == ["StorageError"]


def test_small_steps_go_out_together_once_it_is_known_that_they_are(cache: StepCache) -> None:
    steps = graph(*(step(f"s{number}") for number in range(200)))
    executor = Recorded(cache)
    carry_out(steps, [f"s{number}" for number in range(200)], executor)
    sizes = [len(batch) for batch in executor.batches]
    assert sizes[0] == 1, "nothing is known yet"
    assert max(sizes) == 10, "5 seconds at .5 each"
    assert sum(sizes) == 200 and max(sizes) <= MOST_IN_BATCH


def test_a_node_with_other_versions_ends_the_study(cache: StepCache) -> None:
    other = {**deciding_versions(), "numpy": "1.0"}
    with pytest.raises(EngineError, match=r"a node has numpy 1\.0, and here it is"):
        carry_out(DIAMOND, ["top"], Recorded(cache, versions=other))
    assert cache.size().files == 0


def test_how_far_it_is(cache: StepCache) -> None:
    told: list[dict[str, tuple[int, int]]] = []
    wrong = StepFailure("DataError", "is wrong")
    executor = Recorded(cache, lambda step: wrong if step.address == at("left") else None)
    do_steps(DIAMOND, [at("top")], cache, executor, Tally(), lambda kinds: told.append(dict(kinds)))
    assert told[0] == {"ensemble": (0, 1), "judge": (0, 3)}
    assert told[-1] == {"ensemble": (1, 1), "judge": (3, 3)}

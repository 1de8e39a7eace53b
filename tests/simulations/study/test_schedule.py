"""Which steps are done, in which order, how often, and what becomes of those that fail."""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import pytest

from consilium.protocol.errors import ConfigError, EngineError, OutputExists
from consilium.simulations.study.cache import LostStep, StepCache
from consilium.simulations.study.cells import deciding_versions
from consilium.simulations.study.schedule import MOST_ATTEMPTS, Tally, WorkerDied, compute
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
    what: Callable[[StudyStep], StepFailure | WorkerDied | None] = lambda step: None
    workers: int = 2
    room: int = 2
    versions: Mapping[str, str] = field(default_factory=deciding_versions)
    batches: list[list[str]] = field(default_factory=list)

    def submit(self, steps: list[StudyStep]) -> Future[BatchDone]:
        self.batches.append([name(each.address) for each in steps])
        future: Future[BatchDone] = Future()
        done = []
        for each in steps:
            became = self.what(each)
            if isinstance(became, WorkerDied):
                future.set_exception(became)
                return future
            done.append(self._done(each, became))
        future.set_result(BatchDone(done, self.versions))
        return future

    def result(self, future: Future[BatchDone]) -> BatchDone:
        return future.result()

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
    compute(steps, [at(each) for each in targets], executor.cache, executor, tally, lambda kinds: None)
    return tally


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

    def what(each: StudyStep) -> WorkerDied | None:
        if each.address == at("b") and left[0]:
            left[0] -= 1
            return WorkerDied("it ended")
        return None

    steps = graph(*(step(each) for each in "abcd"))
    tally = carry_out(steps, list("abcd"), Recorded(cache, what, workers=1, room=1))
    gone = deaths == MOST_ATTEMPTS
    assert {name(address): failure.message for address, failure in tally.failures.items()} == (
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


def test_a_node_with_other_versions_ends_the_study(cache: StepCache) -> None:
    other = {**deciding_versions(), "numpy": "1.0"}
    with pytest.raises(EngineError, match=r"a node has numpy 1\.0, and here it is"):
        carry_out(DIAMOND, ["top"], Recorded(cache, versions=other))
    assert cache.size().files == 0


ADDRESS = "ab" + "0" * 62


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    cache = StepCache(tmp_path / "cache")
    cache.put(ADDRESS, b"votes", "ensemble", 1.0)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "cache").rglob("*")}
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    assert [path for path, mode in modes.items() if mode & 0o077] == []
    (tmp_path / "cache").chmod(0o755)
    with pytest.raises(ConfigError, match="chmod 700"):
        StepCache(tmp_path / "cache")


def test_a_folder_with_other_files_is_never_taken(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="no cache of studies"):
        StepCache(tmp_path)
    with pytest.raises(OutputExists):
        StepCache(tmp_path / "thesis.tex")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"

"""Actors that come and go, on a Ray that the test plays."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from itertools import count

from consilium.simulations.engines.cluster import MOST_FAILED_STARTS, Crew, Hand


class PlayedRay:
    """Actors are numbers; those in `there` run, those in `dead` never will."""

    def __init__(self) -> None:
        self.numbers = count()
        self.there: set[int] = set()
        self.dead: set[int] = set()
        self.made: list[int] = []
        self._references = count()
        self._of: dict[int, int] = {}

    def create(self) -> int:
        self.made.append(next(self.numbers))
        return self.made[-1]

    def began(self, actor: int) -> int:
        reference = next(self._references)
        self._of[reference] = actor
        return reference

    def settled(self, references: Sequence[int]) -> Sequence[int]:
        return [each for each in references if self._of[each] in self.there | self.dead]

    def runs(self, reference: int) -> bool:
        return self._of[reference] not in self.dead


def crew_of(ray: PlayedRay, size: int) -> Crew:
    crew = Crew(ray.create, ray)
    crew.add([ray.create() for _ in range(size)])
    return crew


def soon() -> float:
    return time.monotonic() + 0.01


def alike(_: Hand) -> int:
    return 0


def test_nobody_is_given_work_before_it_is_there() -> None:
    ray = PlayedRay()
    crew = crew_of(ray, 2)
    assert crew.take(alike, soon()) is None
    ray.there.add(1)
    hand = crew.take(alike, soon())
    assert hand is not None
    assert hand.actor == 1
    assert crew.take(alike, soon()) is None


def test_the_one_that_is_liked_most_is_taken() -> None:
    ray = PlayedRay()
    ray.there |= {0, 1, 2}
    hand = crew_of(ray, 3).take(lambda each: each.actor == 1, soon())
    assert hand is not None
    assert hand.actor == 1


def test_a_node_takes_all_of_its_actors_with_it() -> None:
    """One is found dead in the middle of a message. The others of its node were idle, and get none any more; with
    Flower's pool they would, one after the other, until all messages have failed."""
    ray = PlayedRay()
    ray.there |= {0, 1, 2}
    crew = crew_of(ray, 3)
    hand = crew.take(lambda each: each.actor == 2, soon())
    assert hand is not None
    ray.there -= {1, 2}
    ray.dead |= {1, 2}
    crew.gone()
    again = crew.take(alike, soon())
    assert again is not None
    assert again.actor == 0
    assert crew.take(alike, soon()) is None
    assert crew.lost == 2
    assert ray.made == [0, 1, 2, 3, 4]  # one in the place of each, for when there is room
    ray.there |= {3, 4}
    assert {hand.actor for _ in range(2) if (hand := crew.take(alike, soon())) is not None} == {3, 4}


def test_actors_that_never_start_are_not_tried_for_ever() -> None:
    ray = PlayedRay()
    crew = crew_of(ray, 1)
    for _ in range(2 * MOST_FAILED_STARTS):
        ray.dead |= set(ray.made)
        assert crew.take(alike, soon()) is None
    assert len(ray.made) == MOST_FAILED_STARTS


def test_who_waits_is_woken_when_somebody_is_free() -> None:
    ray = PlayedRay()
    ray.there.add(0)
    crew = crew_of(ray, 1)
    hand = crew.take(alike, soon())
    assert hand is not None
    found: list[Hand | None] = []
    waiting = threading.Thread(target=lambda: found.append(crew.take(alike, time.monotonic() + 60)))
    waiting.start()
    crew.give_back(hand)
    waiting.join(30)
    assert found == [hand]


def test_whoever_leaves_is_the_crews_no_more() -> None:
    ray = PlayedRay()
    ray.there |= {0, 1}
    crew = crew_of(ray, 2)
    assert [hand.actor for hand in crew.leave()] == [0, 1]
    assert crew.take(alike, soon()) is None

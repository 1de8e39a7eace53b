"""Flower's actors on a cluster whose nodes come and go: who is idle, who starts, who is gone.

Flower's own pool takes an actor that died back, and hands it every further message: within a second all parties that
wait have failed. Here one that is gone is replaced, and the new one is given nothing before it is there: Ray starts it
as soon as some node has room.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

PAUSE = 0.1
MOST_FAILED_STARTS = 20


@dataclass(eq=False)
class Hand:
    """One actor. node: where it was when it last answered, Ray's id. ran: it was there once."""

    actor: Any
    node: str = ""
    ran: bool = False


class Waiting(Protocol):
    """What a crew needs of Ray."""

    def began(self, actor: Any) -> Any:
        """A reference that is there once the actor runs."""
        ...

    def settled(self, references: Sequence[Any]) -> Sequence[Any]:
        """Those of the references that are there, or never will be; without waiting."""
        ...

    def runs(self, reference: Any) -> bool:
        """Whether the actor of a settled reference runs."""
        ...


class Crew:
    """Those who compute. create: starts an actor; Ray may let it wait for a node."""

    def __init__(self, create: Callable[[], Any], ray: Waiting) -> None:
        self._create, self._ray = create, ray
        self._changed = threading.Condition()
        self._idle: list[Hand] = []
        self._starting: dict[Any, Hand] = {}
        self._failed = 0
        self.lost = 0

    def add(self, actors: Collection[Any]) -> None:
        """Actors that were started."""
        with self._changed:
            for actor in actors:
                self._await(Hand(actor))

    def take(self, liking: Callable[[Hand], int], until: float) -> Hand | None:
        """The idle one that is liked most; None if nobody is idle until then (`time.monotonic`)."""
        with self._changed:
            while True:
                self._welcome()
                if self._idle:
                    best = max(self._idle, key=liking)
                    self._idle.remove(best)
                    return best
                left = until - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(min(left, PAUSE))

    def give_back(self, hand: Hand) -> None:
        """It is idle again."""
        with self._changed:
            self._idle.append(hand)
            self._changed.notify()

    def gone(self) -> None:
        """One that was taken is gone for good: another is started in its place, and the idle ones are asked whether
        they are still there, since a node takes all of its actors with it."""
        with self._changed:
            self.lost += 1
            idle, self._idle = self._idle, []
            for hand in idle:
                self._await(hand)
            self._await(Hand(self._create()))

    def leave(self) -> list[Hand]:
        """All that are idle; they are the crew's no more."""
        with self._changed:
            self._welcome()
            idle, self._idle = self._idle, []
            return idle

    def _await(self, hand: Hand) -> None:
        self._starting[self._ray.began(hand.actor)] = hand

    def _welcome(self) -> None:
        for reference in self._ray.settled(list(self._starting)):
            hand = self._starting.pop(reference)
            if self._ray.runs(reference):
                hand.ran = True
                self._idle.append(hand)
                continue
            self.lost += hand.ran
            self._failed += not hand.ran
            if self._failed < MOST_FAILED_STARTS:
                self._await(Hand(self._create()))

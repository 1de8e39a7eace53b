"""Flower's Ray backend on a cluster without a common folder, and its actors. What they run is Flower's own.

What is other than in Flower: homes travel with the messages; a message whose actor or node died is done again
elsewhere, from the home as it was; a party that does not answer in its message's time is ended with its actor.

Nodes come and go. Flower's own pool takes an actor that died back, and hands it every further message: within a second
all parties that wait have failed. Here one that is gone is replaced, and the new one is given nothing before it is
there: Ray starts it as soon as some node has room."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import ray
from flwr.app import ConfigRecord, Context, Error, Message
from flwr.server.superlink.fleet.vce.backend.raybackend import RayBackend
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from consilium.protocol.errors import EngineError
from consilium.protocol.files import replace_private
from consilium.simulations.engines.cluster_node import AppOnNode, Forget
from consilium.simulations.engines.ray_spec import ClusterSettings
from consilium.simulations.engines.travelling_homes import RECORD, Brought, Homes, Parcel

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


CLIENT_APP_CRASHED, TOO_LATE = 8, 3
ATTEMPTS = 4
"""A party that ends its own process ends so many; a node that dies costs a party one or two."""
CLEANING_SECONDS = 20.0


class RayWaiting:
    """See `crew.Waiting`."""

    def began(self, actor: Any) -> Any:
        """See `Waiting.began`."""
        return actor.__ray_ready__.remote()

    def settled(self, references: Sequence[Any]) -> Sequence[Any]:
        """See `Waiting.settled`."""
        return ray.wait(list(references), num_returns=len(references), timeout=0)[0] if references else ()

    def runs(self, reference: Any) -> bool:
        """See `Waiting.runs`."""
        try:
            ray.get(reference)
        except RayError:
            return False
        return True


class ClusterBackend(RayBackend):
    """One run on the cluster of these settings."""

    def __init__(self, backend_config: Any, settings: ClusterSettings) -> None:
        self._settings = settings
        super().__init__(backend_config)
        self._homes = Homes(settings.work, settings.run, ray.put, settings.shared)
        self._last: dict[str, Hand] = {}
        self._crew = Crew(lambda: None, RayWaiting())  # nobody, until there are actors

    def init_ray(self, backend_config: Any) -> None:
        """Join the cluster. Its nodes import what is installed there: no path of this machine is set on them."""
        ray.init(
            address=self._settings.address,
            runtime_env={"env_vars": dict(self._settings.environment)},
            **backend_config.get(self.init_args_key, {}),
        )

    def build(self, app_fn: Any) -> None:
        """See RayBackend; its actors are then the crew's."""
        super().build(app_fn)
        pool = self.pool
        if pool is None:
            raise EngineError("Flower made no pool of actors")
        self._crew = Crew(pool.create_actor_fn, RayWaiting())
        self._crew.add(pool.pool)
        pool.pool = []

    def process_message(self, message: Message, context: Context) -> tuple[Message, Context]:
        """The reply of the party's ClientApp; what the party wrote is in its home here before it is returned."""
        party = f"{int(context.node_config['partition-id']):05d}"
        with self._homes.alone(party):
            until = time.monotonic() + message.metadata.created_at + message.metadata.ttl - time.time()
            for _ in range(ATTEMPTS):
                # after its time nobody waits for the answer, and what it would use up must not be
                in_time = time.monotonic() < until
                hand = self._crew.take(lambda hand_at: self._liking(party, hand_at), until) if in_time else None
                if hand is None:
                    return _failed(message, TOO_LATE), context
                parcel = self._homes.parcel(party, message.metadata.message_type)
                done = self._on(hand, parcel, message, context, until)
                if done is not None:
                    self._last[party] = hand
                    return done
        return _failed(message, CLIENT_APP_CRASHED), context

    def terminate(self) -> None:
        """Have the nodes forget the parties, write the figures, and leave the cluster."""
        farewells = [hand.actor.run.remote(Forget(), None, "", None) for hand in self._crew.leave()]
        if farewells:
            ray.wait(farewells, num_returns=len(farewells), timeout=CLEANING_SECONDS)
        driver_node = ray.get_runtime_context().get_node_id()
        figures = {**self._homes.figures(driver_node), "lost": self._crew.lost}
        replace_private(self._settings.figures, json.dumps(figures, indent=2) + "\n")
        super().terminate()

    def _liking(self, party: str, hand: Hand) -> int:
        """Most for the actor that answered for the party last, then for others of its node."""
        last = self._last.get(party)
        return 0 if last is None else 2 if hand is last else int(hand.node == last.node)

    def _on(
        self, hand: Hand, parcel: Parcel, message: Message, context: Context, until: float
    ) -> tuple[Message, Context] | None:
        """What comes of it on this actor; None if it must be done again elsewhere."""
        try:
            _, reply, after = ray.get(
                hand.actor.run.remote(AppOnNode(parcel), message, parcel.party, context),
                timeout=max(0.0, until - time.monotonic()),
            )
        except RayTaskError:
            self._crew.give_back(hand)
            raise
        except GetTimeoutError:
            ray.kill(hand.actor)
            self._crew.gone()
            return _failed(message, TOO_LATE), context
        except RayError:  # the actor, its node, or what it answered is lost
            ray.kill(hand.actor)  # if it lives after all, nothing that it does counts any more
            self._crew.gone()
            return None
        self._crew.give_back(hand)
        brought = Brought.of_record(after.state.pop(RECORD, ConfigRecord()), parcel)
        hand.node = brought.node
        self._homes.receive(parcel.party, brought)
        return reply, after


def _failed(message: Message, code: int) -> Message:
    return Message(Error(code=code, reason="no answer of this party's process"), reply_to=message)

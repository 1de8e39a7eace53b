"""Flower's Ray backend on a cluster without a common folder. Its actors and what they run are Flower's own.

What is other than in Flower: homes travel with the messages; a message whose actor or node died is done again
elsewhere, from the home as it was; a party that does not answer in its message's time is ended with its actor.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import ray
from flwr.app import ConfigRecord, Context, Error, Message
from flwr.server.superlink.fleet.vce.backend.raybackend import RayBackend
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from consilium.protocol.errors import EngineError
from consilium.protocol.files import replace_private
from consilium.simulations.engines.cluster.crew import Crew, Hand
from consilium.simulations.engines.cluster.homes import Homes
from consilium.simulations.engines.cluster.node import AppOnNode, Forget
from consilium.simulations.engines.cluster.parcel import RECORD, Brought, Parcel
from consilium.simulations.engines.cluster.settings import ClusterSettings

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
                hand = self._crew.take(lambda each: self._liking(party, each), until) if in_time else None
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
        asked = [hand.actor.run.remote(Forget(), None, "", None) for hand in self._crew.leave()]
        if asked:
            ray.wait(asked, num_returns=len(asked), timeout=CLEANING_SECONDS)
        here = ray.get_runtime_context().get_node_id()
        figures = {**self._homes.figures(here), "lost": self._crew.lost}
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

"""The party as a node that can be looked at, by its own team: connection, standing, and how much it has given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from consilium.node.kit import Kit
from consilium.node.log import Heard
from consilium.node.monitor import Answer, Lasting, Watched, as_json, refused
from consilium.party.deploy.status import OwnStatus, status
from consilium.protocol.errors import ConsiliumError
from consilium.protocol.refusals import Refused

if TYPE_CHECKING:
    from consilium.node.metrics import MetricFamily


def watched(kit: Kit, heard: Heard, connected: Callable[[], bool]) -> Watched:
    """It is ready while it is connected. Its status is that of `consilium party status`."""
    own = Lasting(lambda: _status(kit))

    def waits_for() -> list[str]:
        return [] if connected() else ["no connection to the coordinator"]

    def metrics() -> Iterator[MetricFamily]:
        from consilium.node.metrics import one

        yield one("connected", "1 while the SuperNode is connected to the coordinator.", connected())
        found = own()
        if found is not None:
            yield one("queries_given", "Queries that this party ever answered, of queries_most.", found.queries)
            yield one("queries_most", "Queries that its policy allows.", found.most_queries)
            yield one("epsilon_most", "Epsilon that its policy allows over all federations.", found.most_epsilon)
            if found.epsilon is not None:
                yield one("epsilon_promised", "Epsilon that this federation may cost it at most.", found.epsilon)
            if found.epsilon_student is not None:
                yield one("epsilon_student", "Of it, towards the student and the public.", found.epsilon_student)

    def page() -> Answer:
        found = own()
        if found is None:
            return refused(503, "The settings of this party cannot be read: consilium doctor.")
        return as_json(found.to_json())

    return Watched(kit, heard, waits_for, (kit.authority,), metrics, {"/status.json": page})


def _status(kit: Kit) -> OwnStatus | None:
    try:
        return status(kit)
    except (ConsiliumError, Refused):  # doctor says why
        return None

"""What Grids on this machine share: nodes without a SuperLink, each with the context that its ClientApp is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid

from consilium.simulations.engines.flower_internals import COORDINATOR_NODE


class NodesGrid(Grid):
    """Nodes `COORDINATOR_NODE` + 1 and so on, each with its `partition-id` in its node_config."""

    def __init__(self, run_id: int, run_config: Mapping[str, Any], partitions: int) -> None:
        self._contexts = {
            partition + COORDINATOR_NODE + 1: Context(
                run_id=run_id,
                node_id=partition + COORDINATOR_NODE + 1,
                node_config={"partition-id": partition, "num-partitions": partitions},
                state=RecordDict(),
                run_config=dict(run_config),
            )
            for partition in range(partitions)
        }

    def set_run(self, run: object) -> None:
        """Not needed: there is one run."""

    @property
    def run(self) -> Any:
        """Flower's Run object; there is none without a SuperLink."""
        raise NotImplementedError("nodes on this machine have no SuperLink run")

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """See flwr.serverapp.Grid."""
        return Message(content, dst_node_id=dst_node_id, message_type=message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> Iterable[int]:
        """See flwr.serverapp.Grid."""
        return list(self._contexts)

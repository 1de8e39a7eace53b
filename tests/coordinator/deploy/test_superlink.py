"""Flower's SuperLink in the coordinator's process, asked as a SuperNode asks it, over the gateway."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto import fleet_pb2 as fleet
from flwr.proto import heartbeat_pb2 as beats
from flwr.proto import message_pb2 as wire
from flwr.proto.node_pb2 import Node
from flwr.supercore.task_identity import TaskIdentity
from starlette.testclient import TestClient

from consilium.coordinator.collection.exchange import Failure, FlowerTransport
from consilium.coordinator.deploy import gateway as module
from consilium.coordinator.deploy.gateway import PREFIX, Gateway, NodeKeys, SuperLink, number_of, pem_of
from consilium.node.checks import signed_headers
from consilium.node.keys import NODE_KEY, NodeKey
from consilium.protocol.errors import ConfigError, EngineError
from tests.federation import hello_of, make_config
from tests.node.folders import PARTIES, Made

FIRST, SECOND = PARTIES[:2]


@pytest.fixture(autouse=True)
def task() -> Iterator[None]:
    """Of the process, which other tests use too."""
    before = TaskIdentity._run_id, TaskIdentity._task_id, TaskIdentity._node_id
    yield
    TaskIdentity._run_id, TaskIdentity._task_id, TaskIdentity._node_id = before


class SuperNode:
    def __init__(self, client: TestClient, made: Made, name: str) -> None:
        self._client, self._key = client, NodeKey.load(made.nodes[name].keys / NODE_KEY)
        self.public = made.file.nodes[name].key
        self.number = number_of(self.public)

    def call(self, path: str, request: Any, reply: type) -> Any:
        headers = {**signed_headers(self._key), "content-type": "application/protobuf"}
        answer = self._client.post(PREFIX + path, content=request.SerializeToString(), headers=headers)
        return reply.FromString(answer.content) if answer.status_code == 200 else answer.status_code

    def activate(self) -> Any:
        request = fleet.ActivateNodeRequest(public_key=pem_of(self.public), heartbeat_interval=30)
        return self.call("activate-node", request, fleet.ActivateNodeResponse)

    def pull(self) -> Any:
        return self.call(
            "pull-messages", fleet.PullMessagesRequest(node=Node(node_id=self.number)), fleet.PullMessagesResponse
        )

    def push(self, object_id: str = "a" * 64, **metadata: Any) -> Any:
        """A message with this metadata, without content that anybody could open."""
        message = wire.Message()
        message.content.SetInParent()
        times = {"message_id": object_id, "created_at": time.time(), "ttl": 5.0, "message_type": "query.vote"}
        for name, value in {**times, **metadata}.items():
            setattr(message.metadata, name, value)
        tree = wire.ObjectTree(object_id=object_id)
        request = fleet.PushMessagesRequest(
            node=Node(node_id=self.number), messages_list=[message], message_object_trees=[tree]
        )
        return self.call("push-messages", request, fleet.PushMessagesResponse)


def served(made: Made) -> tuple[SuperLink, TestClient]:
    superlink = SuperLink(made.file.members)
    return superlink, TestClient(Gateway(superlink.app, NodeKeys(made.file)))


def test_a_coordinator_that_starts_again_knows_who_is_still_connected(made: Made) -> None:
    """A SuperNode that was told another number would end itself."""
    first, client = served(made)
    with client:
        run = first.begin("a federation")[1]
        assert SuperNode(client, made, FIRST).activate().node_id == SuperNode(client, made, FIRST).number
    again, client = served(made)
    with client:
        node = SuperNode(client, made, FIRST)
        grid, number = again.begin("a federation")
        assert number == run
        beat = beats.SendNodeHeartbeatRequest(node=Node(node_id=node.number), heartbeat_interval=30)
        assert node.call("send-node-heartbeat", beat, beats.SendNodeHeartbeatResponse).success
        assert list(grid.get_node_ids()) == [node.number]
        assert len(node.pull().messages_list) == 0


def test_nobody_takes_the_serverapps_part_or_another_nodes(made: Made) -> None:
    """Flower's other APIs are there, in the process, and behind the gateway: the control is the application itself."""
    superlink, client = served(made)
    with client:
        node = SuperNode(client, made, FIRST)
        superlink.begin("a federation")
        node.activate()
        node.number = number_of(made.file.nodes[SECOND].key)
        assert node.pull() == 401  # Flower's own check
        headers = signed_headers(NodeKey.load(made.nodes[FIRST].keys / NODE_KEY))
        for path in ("/v1/control/list-nodes", "/v1/runtime/acquire-task"):
            assert client.post(path, content=b"", headers=headers).status_code == 403
    with TestClient(superlink.app) as bare:
        protobuf = {"content-type": "application/protobuf"}
        assert bare.post("/v1/control/list-nodes", content=b"", headers=protobuf).status_code == 200


def test_a_node_sends_nothing_but_its_own_replies(made: Made) -> None:
    """Flower checks who calls, and not whose message it is: a party could question another, or answer for it."""
    superlink, client = served(made)
    with client:
        node, other = SuperNode(client, made, FIRST), SuperNode(client, made, SECOND)
        grid, run = superlink.begin("a federation")
        node.activate()
        other.activate()
        asked = [
            Message(RecordDict({"asked": ConfigRecord({"x": 1})}), dst_node_id=each.number, message_type="query.vote")
            for each in (node, other)
        ]
        to_node, to_other = grid.push_messages(asked)
        reply = {"run_id": run, "dst_node_id": SUPERLINK_NODE_ID}
        question = {"run_id": run, "src_node_id": SUPERLINK_NODE_ID, "dst_node_id": other.number}
        assert node.push(**question) == 403
        assert node.push(**reply, src_node_id=other.number, reply_to_message_id=to_other) == 403
        assert len(other.pull().messages_list) == 1 and len(other.pull().messages_list) == 0
        assert node.push(**reply, src_node_id=node.number, reply_to_message_id=to_node).objects_to_push == ["a" * 64]
        headers = signed_headers(NodeKey.load(made.nodes[FIRST].keys / NODE_KEY))
        assert client.post(PREFIX + "push-messages", content=b"\xff", headers=headers).status_code == 403


def test_a_reply_that_is_no_message_is_its_nodes_alone(made: Made) -> None:
    superlink, client = served(made)
    with client:
        node = SuperNode(client, made, FIRST)
        grid, run = superlink.begin("a federation")
        node.activate()
        content = b"Message  7\x00garbage"
        object_id = hashlib.sha256(content).hexdigest()
        replies = FlowerTransport(grid, at_once=1).exchange({node.number: hello_of(make_config())}, 20)

        def answer() -> None:
            while not (asked := node.pull().messages_list):
                time.sleep(0.02)
            metadata = {"run_id": run, "src_node_id": node.number, "dst_node_id": SUPERLINK_NODE_ID}
            pushed = node.push(object_id, **metadata, reply_to_message_id=asked[0].metadata.message_id)
            sent = wire.PushObjectRequest(
                node=Node(node_id=node.number), run_id=run, session_id=pushed.session_id,
                object_id=object_id, object_content=content,
            )  # fmt: skip
            assert node.call("push-object", sent, wire.PushObjectResponse).stored

        thread = threading.Thread(target=answer)
        thread.start()
        assert list(replies) == [(node.number, Failure("malformed answer: no message"))]
        thread.join()


def test_another_flower_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, pytest.raises(ConfigError, match="FLWR_DATABASE"):
        patch.setenv("FLWR_DATABASE", "state.db")
        SuperLink({})
    monkeypatch.setitem(module.NAMES, module.STATE, ("gone",))
    with pytest.raises(EngineError, match=r"in_memory_linkstate\.gone"):
        SuperLink({})

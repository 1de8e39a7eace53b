"""Flower's classes as Consilium uses them: Flower's own where it is installed (extra `deploy`), else stand-ins that a
simulation on this machine needs. Nothing goes over a network without Flower: SuperLink, SuperNode and Ray's engine are
its programs, and ask for it (`protocol.extras.require`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

__all__ = (
    "INSTALLED", "Array", "ArrayRecord", "ClientApp", "ConfigRecord", "Context", "Error", "Grid", "Message",
    "RecordDict", "ServerApp",
)  # fmt: skip
DAY = 86_400.0

try:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

    _there = True
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "flwr":
        raise  # Flower is there, and broken
    _there = False
INSTALLED = _there

if not TYPE_CHECKING and not INSTALLED:

    @dataclass
    class Array:
        """See flwr.app.Array."""

        dtype: str
        shape: tuple[int, ...]
        stype: str
        data: bytes = field(repr=False)

    class ArrayRecord(dict):
        """See flwr.app.ArrayRecord."""

    class ConfigRecord(dict):
        """See flwr.app.ConfigRecord."""

    class RecordDict(dict):
        """See flwr.app.RecordDict."""

        @property
        def config_records(self) -> dict[str, ConfigRecord]:
            """Those of that kind, by name."""
            return {name: record for name, record in self.items() if isinstance(record, ConfigRecord)}

    @dataclass
    class Context:
        """See flwr.app.Context."""

        run_id: int
        node_id: int
        node_config: dict[str, Any]
        state: RecordDict
        run_config: dict[str, Any]

    @dataclass
    class Error:
        """See flwr.app.Error."""

        code: int
        reason: str | None = None

    @dataclass
    class Metadata:
        """See flwr.app.Metadata."""

        dst_node_id: int
        message_type: str
        ttl: float
        reply_to_message_id: str = ""
        created_at: float = field(default_factory=time.time)
        _message_id: str = ""

        @property
        def message_id(self) -> str:
            """Which whoever sends it has assigned."""
            return self._message_id

    class Message:
        """See flwr.app.Message: of a content or an error, to a node or as a reply."""

        def __init__(
            self,
            content: RecordDict | Error,
            dst_node_id: int = 0,
            message_type: str = "",
            *,
            ttl: float | None = None,
            group_id: str = "",
            reply_to: Message | None = None,
        ) -> None:
            if reply_to is not None:
                asked = reply_to.metadata
                left = asked.created_at + asked.ttl - time.time()
                self.metadata = Metadata(0, asked.message_type, left, asked.message_id)
            else:
                self.metadata = Metadata(dst_node_id, message_type, DAY if ttl is None else ttl)
            self._content = content

        def has_error(self) -> bool:
            """Whether it is an error."""
            return isinstance(self._content, Error)

        @property
        def content(self) -> RecordDict:
            """Of a message that has no error."""
            if self.has_error():
                raise ValueError("the message is an error")
            return self._content

        @property
        def error(self) -> Error:
            """Of a message that is one."""
            if not self.has_error():
                raise ValueError("the message is no error")
            return self._content

    class ClientApp:
        """See flwr.clientapp.ClientApp."""

        def __init__(self) -> None:
            self._handlers: dict[str, Callable[[Message, Context], Message]] = {}

        def query(self, action: str) -> Callable:
            """Register the handler of such queries."""
            return self._registering(f"query.{action}")

        def train(self, action: str) -> Callable:
            """Register the handler of such training."""
            return self._registering(f"train.{action}")

        def _registering(self, kind: str) -> Callable:
            def register(handler: Callable[[Message, Context], Message]) -> Callable:
                self._handlers[kind] = handler
                return handler

            return register

        def __call__(self, message: Message, context: Context) -> Message:
            """The reply of the handler of this type of message."""
            return self._handlers[message.metadata.message_type](message, context)

    class Grid:
        """See flwr.serverapp.Grid."""

    class ServerApp:
        """See flwr.serverapp.ServerApp."""

        def main(self) -> Callable:
            """Register what runs."""

            def register(run: Callable[[Grid, Context], None]) -> Callable:
                self._run = run
                return run

            return register

        def __call__(self, grid: Grid, context: Context) -> None:
            """Run it."""
            self._run(grid, context)

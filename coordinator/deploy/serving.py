"""The process that serves a federation: gateway, SuperLink and the run. `consilium node start` keeps it.

`python -P -m consilium.coordinator.deploy.serving FOLDER` serves what that coordinator joined last, until it is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from consilium.coordinator.collection.admission import Registered
from consilium.coordinator.collection.exchange import FlowerTransport
from consilium.coordinator.deploy.gateway import HEAD_BYTES, Gateway, NodeKeys, SuperLink, number_of
from consilium.coordinator.events import Event, EventLog
from consilium.coordinator.federation import FederationRun, asked_before, pool_of, run_of, telling_failure
from consilium.coordinator.label_server import Door
from consilium.coordinator.label_server import serve as answer_students
from consilium.coordinator.served import WAYS, ServedFederation
from consilium.node.folder import THE_COORDINATOR, NodeFolder, open_folder
from consilium.node.keys import OwnKeys
from consilium.node.signed import address, joined
from consilium.node.supervisor import end_with_parent, tell_time
from consilium.protocol.errors import ConsiliumError, EngineError
from consilium.protocol.files import more_descriptors, private_folder, writing
from consilium.protocol.tls import TlsFiles

NOT_TOLD = {"failed", "promised", "resumed-session", "session-lost"}
"""Events that the node's log leaves out: they are said otherwise there, or are for the coordinator's operator alone."""
REPEATED = {"not-answered", "waiting"}
"""Events that are news also where the same was told last."""
HEAD_SECONDS = 20.0
"""For a request's head, and between two of a connection: whoever shows no key holds no place for longer than twice."""


def serve(folder: NodeFolder) -> None:
    """Serve until the federation is closed, or the process is ended. Raises ConsiliumError: the run failed."""
    more_descriptors()  # one for each connection
    file = joined(folder, ServedFederation)
    superlink = SuperLink(file.members)
    server = tls_server(
        Gateway(superlink.app, NodeKeys(file)), folder.tls, file.coordinator.listen, file.coordinator.node_port
    )
    threading.Thread(target=_answer, args=(server,), daemon=True).start()
    grid, _ = superlink.begin(file.config.digest())
    run, config, place = run_of(folder, file), file.config, file.coordinator
    log = EventLog(private_folder(run.path) / run.events.name, telling())
    with contextlib.closing(log), telling_failure(run.path, log):
        keys = WAYS[config.collection].of(file.sum_roster(), OwnKeys.load(folder).keys)
        nodes = Registered([*file.parties], {number_of(each.key): name for name, each in file.members.items()})
        door = Door(folder, run.close_file, address(place.listen, place.label_port))
        FederationRun(
            FlowerTransport(grid, at_once=1), config, run.path, log, partial(answer_students, door, config, log), keys,
            run.close_file.exists, pool_of(folder, config), nodes, asked_before(folder, run),
        ).run()  # fmt: skip


def telling() -> Callable[[Event], None]:
    """Tells people of events, each once in a row."""
    last = ""

    def tell(event: Event) -> None:
        nonlocal last
        if event.words and event.kind not in NOT_TOLD:
            if event.words != last or event.kind in REPEATED:
                tell_time("run", event.words)
            last = event.words

    return tell


class Impatient(H11Protocol):
    """Closes a connection on which nothing is asked: uvicorn waits for a head, or the rest of it, for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self.loop.call_later(HEAD_SECONDS, self._look, None)

    def _look(self, before: RequestResponseCycle | None) -> None:
        if self.cycle is before and (before is None or before.response_complete):
            self.transport.close()
        if not self.transport.is_closing():
            self.loop.call_later(HEAD_SECONDS, self._look, self.cycle)


def tls_server(app: ASGIApp, files: TlsFiles, host: str, port: int) -> uvicorn.Server:
    """A server of an ASGI application over TLS."""
    config = uvicorn.Config(
        app, host, port, http=Impatient, ws="none", ssl_certfile=str(files.certificate), ssl_keyfile=str(files.key),
        h11_max_incomplete_event_size=HEAD_BYTES, access_log=False, server_header=False, log_config=None,
    )  # fmt: skip
    return uvicorn.Server(config)


def _answer(server: uvicorn.Server) -> None:
    with contextlib.suppress(BaseException):  # uvicorn logs why
        server.run()
    os._exit(EngineError.exit_code)  # without a gateway nothing is served


def main(folder: str) -> NoReturn:
    """Serve, and end at once: Python would wait for the threads of a question under way until all parties have answered
    or their time is over, and what is charged of it stands in the ledger."""
    try:
        with writing(Path(folder)):
            serve(open_folder(Path(folder), THE_COORDINATOR))
        code = 0
    except ConsiliumError as failure:
        print(failure, file=sys.stderr)
        code = failure.exit_code
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    end_with_parent()
    logging.basicConfig(format="%(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    logging.getLogger("flwr").propagate = False  # it prints by itself
    main(sys.argv[1])

"""One attacked process: `python target.py superlink|gateway|labels FOLDER PORT`.

It is started by its path, so that PYTHONPATH alone says whose code it runs; it may use only what both have.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path


def superlink(folder: Path, port: int) -> None:
    """A stand-in for Flower's: it reads each body whole and answers."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def answer(request: Request) -> Response:
        await request.body()
        return Response(b"done")

    uvicorn.run(
        Starlette(routes=[Route("/{path:path}", answer, methods=["POST"])]),
        port=port,
        ssl_certfile=str(folder / "server.crt"),
        ssl_keyfile=str(folder / "server.key"),
        log_level="error",
    )


def gateway(folder: Path, _: int) -> None:
    """The coordinator's gateway, of its kit."""
    from consilium.coordinator.deploy.gateway import serve
    from consilium.node.kit import open_kit

    serve(open_kit(folder, "coordinator"))


def labels(folder: Path, port: int) -> None:
    """A label service with made-up votes, for the students of a kit."""
    import consilium.coordinator.label_server
    import consilium.protocol.label_wire
    from consilium.coordinator.config import QueryBudget
    from consilium.coordinator.events import EventLog
    from consilium.coordinator.label_server import Door, serving
    from consilium.coordinator.label_service import LabelService
    from consilium.coordinator.ledger import Ledger
    from consilium.node.kit import open_kit
    from consilium.protocol.noise import SeededNoise
    from tests.coordinator.labels.test_service import T, Votes
    from tests.federation import make_config

    for module in (
        consilium.coordinator.label_server,
        consilium.protocol.label_wire,
    ):  # what it is asked in, though the code be older
        vars(module)["PROTOCOL_VERSION"] = int(os.environ["CONSILIUM_SPEAKS"])
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    config = make_config(query_budget=QueryBudget(queries=10_000, answers=10_000))
    ledger = Ledger(folder / f"ledger-{port}.db", config.digest(), "{}")
    log = EventLog(folder / f"events-{port}.jsonl")
    service = LabelService(config, ledger, lambda batch: SeededNoise(batch), Votes(), T, log)
    door = Door(open_kit(folder, "coordinator").server_tls, folder / "students.json", folder / "close")
    with serving(service, f"127.0.0.1:{port}", 10_000, door):
        stop.wait()


if __name__ == "__main__":
    kind, place, number = sys.argv[1:]
    {"superlink": superlink, "gateway": gateway, "labels": labels}[kind](Path(place), int(number))

"""Flower ClientApp of a party: message in, call on a `PartyNode`, message out.

Where the party's home is, only the node says (`home` in node_config). It is opened once in a process, and anew when one
of its files is another one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from flwr.app import Context

from consilium.node.answering import TO_AGGREGATORS, AnsweringNode, home_folder
from consilium.party.expectation import check_is_accepted
from consilium.party.home import STORE, open_home
from consilium.party.node import PartyNode
from consilium.party.store import LastAnswer
from consilium.protocol.messages import HelloRequest, TrainRequest, VoteRequest, WireModel
from consilium.protocol.refusals import Refusal
from consilium.sums.modes import ANSWERS as TO_SUMS

log = logging.getLogger("consilium.party")
_opened: dict[Path, tuple[object, PartyNode]] = {}


def _open(context: Context) -> PartyNode:
    folder = home_folder(context)
    files = [(path.name, _stamp(path)) for path in sorted(folder.glob("*")) if path.is_file()]
    stamp, node = _opened.get(folder, (None, None))
    if node is None or stamp != (files, _place(folder)):
        if node:
            del _opened[folder]
            node.store.close()
        home = open_home(folder)
        check_is_accepted(home)
        node = PartyNode(home.settings(), home.rows(), home.store())
        _opened[folder] = (files, _place(folder)), node
    return node


def _stamp(path: Path) -> object:
    """Another one as soon as the file is."""
    seen = path.stat()
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


def _place(folder: Path) -> object:
    """Which file remembers: one that was put in its place would else never be written to."""
    path = folder / "state" / STORE
    return (path.stat().st_dev, path.stat().st_ino) if path.exists() else None


def _note(context: Context, request: WireModel, refusal: Refusal | None) -> None:
    """Write down, in a kit, what was said last, for `status`. Whatever goes wrong, the answer does not suffer."""
    facts = {name: getattr(request, name) for name in ("federation", "late") if hasattr(request, name)}
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    answer = LastAnswer(moment, "" if refusal is None else f"refused: {refusal}", **facts)
    with suppress(Exception):
        folder = home_folder(context)
        if folder in _opened:
            node = _opened[folder][1]
            if node.settings.pinned is not None:
                node.store.note(request.kind, answer)
        elif (home := open_home(folder)).file.terms:  # nothing was accepted yet, say
            with closing(home.store()) as store:
                store.note(request.kind, answer)


ANSWERS: Mapping[type[WireModel], str] = {
    HelloRequest: "hello",
    TrainRequest: "train",
    VoteRequest: "vote",
    **dict.fromkeys(TO_SUMS, "hidden"),
}
party = AnsweringNode("party", _open, ANSWERS, TO_AGGREGATORS, log, _note)
app = party.app()

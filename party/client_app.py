"""Flower ClientApp of a party: message in, call on a `PartyNode`, message out.

Where the party's home is, only the node says (`home` in node_config). A simulated node (it has a `partition-id`)
has its home in a folder of the run's `party-root`.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from threadpoolctl import ThreadpoolController

from consilium.party import journal
from consilium.party.home import open_home
from consilium.party.node import PartyNode
from consilium.party.secagg.votes import refusal_of
from consilium.party.storage import storage_failed
from consilium.protocol.errors import ConfigError, LedgerError, MalformedMessage
from consilium.protocol.parties.messages import HelloRequest, TrainRequest, VoteRequest, WireModel
from consilium.protocol.parties.records import from_record, refusal_to_record, to_record
from consilium.protocol.parties.refusals import Refusal, Refused, Rule
from consilium.protocol.secagg.errors import SecAggError
from consilium.protocol.secagg.messages import (
    AdvertiseRequest,
    ConsistencyRequest,
    MaskedRequest,
    ShareRequest,
    UnmaskRequest,
)

log = logging.getLogger("consilium.party")
app = ClientApp()

DOCTOR = "Run `consilium doctor` in the kit"

Request = TypeVar("Request", bound=WireModel)


@cache
def thread_pools() -> ThreadpoolController:
    """The thread pools of this process's libraries; looking them up takes longer than a small teacher's training."""
    return ThreadpoolController()


def home_folder(context: Context) -> Path:
    """The folder that node_config names, or the simulated node's folder under the run's `party-root`."""
    if "home" in context.node_config:
        return Path(str(context.node_config["home"]))
    root = str(context.run_config.get("party-root", ""))
    if "partition-id" in context.node_config and root:
        return Path(root) / f"{int(context.node_config['partition-id']):05d}"
    raise ConfigError("this node has no home", "Start the SuperNode with --node-config 'home=\"/path/to/home\"'")


def _answer(
    message: Message,
    context: Context,
    model: type[Request],
    action: Callable[[PartyNode, Request], WireModel],
) -> Message:
    """Run one action; whatever goes wrong becomes a typed refusal, and its text stays in this party's log."""
    node, request, refusal = None, None, None
    try:
        request = from_record(message.content, model)
        node = PartyNode(open_home(home_folder(context), "home" in context.node_config))
        with thread_pools().limit(limits=1):  # many parties may share one machine: a pool each would only thrash
            reply = to_record(action(node, request))
    except Exception as error:  # Flower would send the text of any exception to the coordinator
        refusal = _refusal(model.kind, error)
        reply = refusal_to_record(refusal)
    if node is not None:
        told = (str(getattr(request, "federation", "")), bool(getattr(request, "late", False)))
        journal.note(node.home, model.kind, *told, refusal)
    return Message(reply, reply_to=message)


def _refusal(kind: str, error: Exception) -> Refusal:
    """What travels instead of an answer. The rest stays in the party's own log."""
    if storage_failed(error):
        log.error("%s failed: the disk of this party's state cannot be written: is it full? %s", kind, DOCTOR)
        return Refusal(rule=Rule.STORAGE)
    match error:
        case Refused():
            log.warning("%s refused: %s", kind, error)
            return error.refusal
        case MalformedMessage():
            log.warning("%s refused: %s", kind, error)
            return Refusal(rule=Rule.MALFORMED)
        case SecAggError():
            log.warning("%s refused: %s", kind, error)
            return refusal_of(error)
        case ConfigError() | LedgerError():
            log.error("%s: %s", kind, error)
            return Refusal(rule=Rule.POLICY)
        case _:
            where = traceback.extract_tb(error.__traceback__)[-1]  # no message: it may quote a private value
            log.error("%s failed: %s at %s:%s", kind, type(error).__name__, where.filename, where.lineno)
            return Refusal(rule=Rule.INTERNAL)


@app.query("hello")
def hello(message: Message, context: Context) -> Message:
    """`query.hello`."""
    return _answer(message, context, HelloRequest, PartyNode.hello)


@app.train("teacher")
def train_teacher(message: Message, context: Context) -> Message:
    """`train.teacher`."""
    return _answer(message, context, TrainRequest, PartyNode.train)


@app.query("vote")
def vote(message: Message, context: Context) -> Message:
    """`query.vote`."""
    return _answer(message, context, VoteRequest, PartyNode.vote)


@app.query("sa_advertise")
def secure_advertise(message: Message, context: Context) -> Message:
    """`query.sa_advertise`."""
    return _answer(message, context, AdvertiseRequest, lambda node, request: node.secure.advertise(request))


@app.query("sa_share")
def secure_share(message: Message, context: Context) -> Message:
    """`query.sa_share`."""
    return _answer(message, context, ShareRequest, lambda node, request: node.secure.share(request))


@app.query("sa_masked")
def secure_masked(message: Message, context: Context) -> Message:
    """`query.sa_masked`."""
    return _answer(message, context, MaskedRequest, lambda node, request: node.secure.masked(request))


@app.query("sa_consistency")
def secure_consistency(message: Message, context: Context) -> Message:
    """`query.sa_consistency`."""
    return _answer(message, context, ConsistencyRequest, lambda node, request: node.secure.consistency(request))


@app.query("sa_unmask")
def secure_unmask(message: Message, context: Context) -> Message:
    """`query.sa_unmask`."""
    return _answer(message, context, UnmaskRequest, lambda node, request: node.secure.unmask(request))

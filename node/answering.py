"""What parties and the second aggregator have in common when they answer: where their folder is, what each kind of
node refuses since it is for the other, and what travels instead of an answer when one fails."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from pydantic import ValidationError

from consilium.node.folder import NodeFolder, open_folder
from consilium.protocol.databases import trouble_of
from consilium.protocol.errors import ConfigError, LedgerError, LedgerLocked, MalformedMessage, NotAccepted
from consilium.protocol.messages import (
    NAME_PATTERN,
    PROTOCOL_VERSION,
    HelloRequest,
    Terms,
    TrainRequest,
    VoteRequest,
    WireModel,
)
from consilium.protocol.pool import PoolTerms
from consilium.protocol.records import from_record, refusal_to_record, to_record
from consilium.protocol.refusals import CURES, CURES_OF_SECOND, Refusal, Refused, Rule
from consilium.sums.errors import SecAggError
from consilium.sums.modes import ANSWERS, MODES


def folder_of(context: Context) -> NodeFolder:
    """The node's folder, which node_config names. Raises ConfigError."""
    return open_folder(Path(str(context.node_config["folder"])))


def refusal_of(error: SecAggError) -> Refusal:
    """What travels instead of the error: the rule, and the party at fault that it names."""
    # some errors name the coordinator or several: those are no party's name
    named = getattr(error, "party", None)
    known = isinstance(named, str) and re.fullmatch(NAME_PATTERN, named) is not None
    return Refusal(rule=error.TOLD_AS, party=named if known else None)


TOLD: Sequence[tuple[type[Exception], Rule]] = (
    (LedgerLocked, Rule.LOCKED),
    (LedgerError, Rule.STORAGE),
    (MalformedMessage, Rule.MALFORMED),
    (NotAccepted, Rule.NOT_ACCEPTED),
)
"""What travels instead of an error; the first that fits."""


def refusal_for(kind: str, error: Exception, log: logging.Logger, whose: str) -> Refusal:
    """What travels instead of an answer. The rest stays in the node's own log, with what to do about it. whose:
    "party", as the log calls it."""
    rule, cure = next((rule for wrong, rule in TOLD if isinstance(error, wrong)), None), ""
    if isinstance(error, Refused):
        refusal = error.refusal
        cure = f". {(CURES_OF_SECOND if whose == 'aggregator' else CURES)[refusal.rule]}"
    elif isinstance(error, SecAggError):  # its text has the cure
        refusal = refusal_of(error)
    elif rule is not None:
        refusal = Refusal(rule=rule)
    elif (trouble := trouble_of(error)) is not None:
        log.error("%s refused: a file of this %s: %s. %s", kind, whose, trouble.sentence, trouble.cure)
        return Refusal(rule=Rule.STORAGE)
    elif isinstance(error, ConfigError):
        refusal = Refusal(rule=Rule.POLICY)
    else:
        where = traceback.extract_tb(error.__traceback__)[-1]  # no message: it may quote a private value
        log.error("%s failed: %s at %s:%s", kind, type(error).__name__, where.filename, where.lineno)
        return Refusal(rule=Rule.INTERNAL)
    log.warning("%s refused: %s%s", kind, error, cure)
    return refusal


TO_AGGREGATORS: tuple[str, ...] = tuple(request.kind for mode in MODES.values() for request in mode.second)
TO_PARTIES: tuple[str, ...] = (
    HelloRequest.kind,
    TrainRequest.kind,
    VoteRequest.kind,
    *(request.kind for request in ANSWERS),
)


N = TypeVar("N")


@dataclass(frozen=True)
class AnsweringNode(Generic[N]):
    """How a kind of node answers: message in, call on a node, message out. Whatever goes wrong becomes a typed refusal,
    and its text stays in the node's log.

    whose: "party", as the log calls it. open: the node that the context names, for one message; raises where it cannot
    be used, or its people have not allowed what is asked. answers: by the kind of request, the node's method; others
    are for another kind of node (NODE_KIND)."""

    whose: str
    open: Callable[[Context], AbstractContextManager[N]]
    answers: Mapping[type[WireModel], str]
    log: logging.Logger

    def app(self) -> ClientApp:
        app = ClientApp()
        handlers = {request.kind: self._handler(request) for request in self.answers}
        handlers |= {kind: self._refusal_of(kind) for kind in {*TO_PARTIES, *TO_AGGREGATORS} - {*handlers}}
        for kind, handler in handlers.items():
            category, _, action = kind.partition(".")
            register: Callable[[str], Callable] = {"query": app.query, "train": app.train}[category]
            register(action)(handler)
        return app

    def _handler(self, model: type[WireModel]) -> Callable[[Message, Context], Message]:
        def handle(message: Message, context: Context) -> Message:
            try:
                request = from_record(message.content, model)
                with self.open(context) as node:
                    reply = self.reply(node, request)
            except Exception as error:  # Flower would send the text of any exception to the coordinator
                reply = self._refused(model, error)
            return Message(reply, reply_to=message)

        return handle

    def reply(self, node: N, request: WireModel) -> RecordDict:
        """What this node answers to one request, or its refusal."""
        try:
            return to_record(getattr(node, self.answers[type(request)])(request))
        except Exception as error:
            return self._refused(type(request), error)

    def _refused(self, model: type[WireModel], error: Exception) -> RecordDict:
        return refusal_to_record(refusal_for(model.kind, error, self.log, self.whose))

    def _refusal_of(self, kind: str) -> Callable[[Message, Context], Message]:
        def refuse(message: Message, context: Context) -> Message:
            level = logging.INFO if kind == HelloRequest.kind else logging.WARNING  # all are greeted as parties first
            self.log.log(level, "%s refused: it is for another kind of node", kind)
            return Message(refusal_to_record(Refusal(rule=Rule.NODE_KIND)), reply_to=message)

        return refuse


def check_pinned(pinned: Terms | None, terms: Terms) -> None:
    """Raise Refused (TERMS) where a node pins other terms than these."""
    if pinned is not None and pinned != terms:
        differing = [name for name in Terms.model_fields if getattr(pinned, name) != getattr(terms, name)]
        raise Refused(Rule.TERMS, detail=f"the pinned terms have other {', '.join(differing)}")


def check_protocol(version: int) -> None:
    """Raise Refused (VERSION) for a coordinator that speaks another version of the protocol."""
    if version != PROTOCOL_VERSION:
        raise Refused(Rule.VERSION, limit=PROTOCOL_VERSION, requested=version)


def pool_of(terms: Terms) -> PoolTerms | None:
    """The pool that the terms pin, or None. Refused (MALFORMED) if they pin nonsense."""
    try:
        return PoolTerms.model_validate_json(terms.public) if terms.public else None
    except ValidationError:
        raise Refused(Rule.MALFORMED, detail="terms: pool") from None

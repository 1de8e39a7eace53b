"""What parties and the second aggregator have in common when they answer: where their home is, how large a promise may
be, what each kind of node refuses since it is for the other, and what travels instead of an answer when one fails."""

from __future__ import annotations

import errno
import json
import logging
import re
import sqlite3
import traceback
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from pydantic import ValidationError
from threadpoolctl import ThreadpoolController

from consilium.protocol.errors import ConfigError, LedgerError, MalformedMessage, NotAccepted
from consilium.protocol.messages import (
    MOST_CANDIDATES,
    MOST_RELEASES,
    MOST_TEACHERS,
    MOST_WEIGHT,
    NAME_PATTERN,
    HelloRequest,
    Terms,
    TrainRequest,
    VoteRequest,
)
from consilium.protocol.records import refusal_to_record
from consilium.protocol.refusals import Refusal, Refused, Rule
from consilium.protocol.rows.pool import PoolTerms
from consilium.sums import errors
from consilium.sums.aggregators.wire import AggregatorRequest, LinkRequest, OpenRequest, UploadRequest
from consilium.sums.errors import AggregatorsDisagree, BadLink, OtherVersion, SecAggError, SumTooLarge
from consilium.sums.masks.messages import REQUESTS
from consilium.sums.roster import MOST_PARTIES

MOST_QUERIES = 10_000_000
MOST_VOTES = MOST_TEACHERS * MOST_WEIGHT * MOST_PARTIES
MOST: dict[str, float] = {
    "asked": MOST_QUERIES,
    "answered": MOST_QUERIES,
    "teachers_per_party": MOST_TEACHERS,
    "weight": MOST_WEIGHT,
    "candidates": MOST_CANDIDATES,
    "slack": 1,
    "threshold": MOST_VOTES,
    "constant": MOST_VOTES,
    "noise_shares": MOST_PARTIES,
    "unstable_cap": MOST_QUERIES,
    "gamma": 1e3,
    "sigma": 1e5,
    "sigma1": 1e5,
    "sigma2": 1e5,
    "scale": 1e5,
    "beta": 10,
    "sigma_ss": 1e6,
    "log_scale_sigma": 1e6,
    "version": 1000,
}
"""The largest number that each field of an event may hold: what it costs to compute an epsilon grows with them."""
LEAST: dict[str, float] = {"gamma": 1e-12, "sigma": 0.01, "sigma1": 0.01, "sigma2": 0.01, "scale": 1e-3}


def bounded_events(text: str) -> list[dict[str, Any]]:
    """The JSON of a promise -> one table for each event, whose numbers are all within `MOST` and `LEAST`.

    Raises
    ------
    Refused (MALFORMED) : no list of so many tables, or a number out of bounds. ValueError, RecursionError : no JSON.
    """
    listed = json.loads(text)
    if not isinstance(listed, list) or not 1 <= len(listed) <= MOST_RELEASES:
        raise Refused(Rule.MALFORMED, detail=f"a promise lists 1 to {MOST_RELEASES} events")
    for item in listed:
        _check_bounds(item)
    return listed


def _check_bounds(item: object) -> None:
    """Raise Refused (MALFORMED) unless every number of an event's JSON is within `MOST` and `LEAST`."""
    if not isinstance(item, dict):
        raise Refused(Rule.MALFORMED, detail="promise: an event is a table")
    for key, value in item.items():
        if isinstance(value, str):
            continue
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or key not in MOST or not LEAST.get(key, 0) <= value <= MOST[key]:
            raise Refused(Rule.MALFORMED, detail=f"promise: {str(key)[:40]} is out of bounds")


DOCTOR = "Run `consilium doctor` in the kit"

ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}
SQLITE_CODES = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}
RULES: dict[type[errors.SecAggError], Rule] = {
    errors.RosterMismatch: Rule.ROSTER_MISMATCH,
    errors.UnsafeSession: Rule.UNSAFE_SESSION,
    errors.OverflowRisk: Rule.OVERFLOW_RISK,
    errors.BadSignature: Rule.BAD_SIGNATURE,
    errors.BadKey: Rule.BAD_KEY,
    errors.InconsistentView: Rule.INCONSISTENT_VIEW,
    errors.Replay: Rule.REPLAY,
    errors.AlreadyAnswered: Rule.ALREADY_ANSWERED,
    errors.BrokenBlock: Rule.BROKEN_BLOCK,
    errors.StageOrder: Rule.STAGE_ORDER,
    errors.ThresholdNotMet: Rule.THRESHOLD,
    SumTooLarge: Rule.OVERFLOW_RISK,
    BadLink: Rule.BAD_SIGNATURE,
    AggregatorsDisagree: Rule.INCONSISTENT_VIEW,
    OtherVersion: Rule.VERSION,
}
"""The rule that the coordinator learns of an error; the text stays in the node's log."""


def storage_failed(error: BaseException | None) -> bool:
    """Full, over quota, read-only or broken: of the error itself or of one that it was raised for.

    >>> storage_failed(OSError(28, "No space left on device"))
    True
    >>> storage_failed(FileNotFoundError(2, "No such file or directory"))
    False
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno in ERRNOS:
            return True
        # the lowest byte is the primary code; extended ones, as for a full disk while writing the journal, add to it
        if isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in SQLITE_CODES:
            return True
        error = error.__cause__ or error.__context__
    return False


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


def refusal_of(error: errors.SecAggError) -> Refusal:
    """What travels instead of the error: the rule, and the counts or the party at fault that it names."""
    # some errors name the coordinator or several: those are no party's name
    named = getattr(error, "party", None)
    known = isinstance(named, str) and re.fullmatch(NAME_PATTERN, named) is not None
    counts = error if isinstance(error, errors.AlreadyAnswered) else None
    return Refusal(
        rule=RULES.get(type(error), Rule.INTERNAL),
        limit=counts.limit if counts else None,
        requested=counts.requested if counts else None,
        party=named if known else None,
    )


def refusal_for(kind: str, error: Exception, log: logging.Logger, whose: str) -> Refusal:
    """What travels instead of an answer. The rest stays in the node's own log. whose: "party", as the log calls it."""
    if storage_failed(error):
        log.error("%s failed: the disk of this %s's state cannot be written: is it full? %s", kind, whose, DOCTOR)
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
        case NotAccepted():
            log.warning("%s refused: %s", kind, error)
            return Refusal(rule=Rule.NOT_ACCEPTED)
        case ConfigError() | LedgerError():
            log.error("%s: %s", kind, error)
            return Refusal(rule=Rule.POLICY)
        case _:
            where = traceback.extract_tb(error.__traceback__)[-1]  # no message: it may quote a private value
            log.error("%s failed: %s at %s:%s", kind, type(error).__name__, where.filename, where.lineno)
            return Refusal(rule=Rule.INTERNAL)


TO_AGGREGATORS: tuple[str, ...] = (AggregatorRequest.kind, OpenRequest.kind, LinkRequest.kind)
TO_PARTIES: tuple[str, ...] = (
    HelloRequest.kind,
    TrainRequest.kind,
    VoteRequest.kind,
    UploadRequest.kind,
    *(request.kind for request in REQUESTS.values()),
)


def refusing(app: ClientApp, kinds: Iterable[str], log: logging.Logger) -> None:
    """Have the app refuse messages of these kinds (NODE_KIND): they are for another kind of node."""
    for kind in kinds:
        category, _, action = kind.partition(".")
        register: Callable[[str], Callable] = {"query": app.query, "train": app.train}[category]
        register(action)(_refusal_of(kind, log))


def _refusal_of(kind: str, log: logging.Logger) -> Callable[[Message, Context], Message]:
    def refuse(message: Message, context: Context) -> Message:
        level = logging.INFO if kind == HelloRequest.kind else logging.WARNING  # all nodes are greeted as parties first
        log.log(level, "%s refused: it is for another kind of node", kind)
        return Message(refusal_to_record(Refusal(rule=Rule.NODE_KIND)), reply_to=message)

    return refuse


def pool_of(terms: Terms) -> PoolTerms | None:
    """The pool that the terms pin, or None. Refused (MALFORMED) if they pin nonsense."""
    try:
        return PoolTerms.model_validate_json(terms.public) if terms.public else None
    except ValidationError:
        raise Refused(Rule.MALFORMED, detail="terms: pool") from None

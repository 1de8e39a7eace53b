"""At the edge of a node that answers: where its home is, and what travels instead of an answer when that fails."""

from __future__ import annotations

import errno
import logging
import re
import sqlite3
import traceback
from functools import cache
from pathlib import Path

from flwr.app import Context
from threadpoolctl import ThreadpoolController

from consilium.protocol.errors import ConfigError, LedgerError, MalformedMessage, NotAccepted
from consilium.protocol.parties.messages import NAME_PATTERN
from consilium.protocol.parties.refusals import Refusal, Refused, Rule
from consilium.protocol.secagg import errors
from consilium.protocol.secagg.errors import SecAggError
from consilium.protocol.verified.errors import AggregatorsDisagree, BadLink, OtherVersion, SumTooLarge

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

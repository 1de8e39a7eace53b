"""One exchange with the parties: a request to each, a checked answer or a named failure from each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from flwr.app import RecordDict

from consilium.protocol.errors import MalformedMessage
from consilium.protocol.parties.messages import WireModel
from consilium.protocol.parties.records import from_record, refusal_from_record
from consilium.protocol.parties.refusals import FOR_DATA, Rule

Reply = TypeVar("Reply", bound=WireModel)


SILENT = ("no answer within ", "node ")
"""How the reasons begin that a transport gives: "node is not connected"."""


@dataclass(frozen=True)
class Failure:
    """Why a party is left out of a stage. `reason` is the coordinator's own words, never text of the party.

    rule: by which it refused; None where it did not. accused: the party that it names as the cause, or nobody.
    """

    reason: str
    rule: Rule | None = None
    accused: str | None = None

    @property
    def for_data(self) -> bool:
        """Whether the cause is what its data hold."""
        return self.rule in FOR_DATA

    @property
    def silent(self) -> bool:
        """Whether the party said nothing: it is busy, or away, and may answer the next time.

        >>> Failure("no answer within 60 s").silent, Failure("refused: data").silent
        (True, False)
        """
        return self.reason.startswith(SILENT)


class Transport(Protocol):
    """How requests reach nodes. A reply that is missing when the time is up is a `Failure`."""

    def nodes(self) -> list[int]:
        """Ids of the nodes that are connected now."""
        ...

    def exchange(
        self, requests: Mapping[int, WireModel], timeout: float, on_reply: Callable[[int, int], None]
    ) -> Iterator[tuple[int, RecordDict | Failure]]:
        """Send, wait at most `timeout` seconds; each node's reply as it comes, those that are missing at the end.

        `on_reply(done, total)` is called as replies come in. A reply is held by nobody once the next is asked for, and
        a bounded number of them is there before.
        """
        ...


@dataclass(frozen=True)
class Replies(Generic[Reply]):
    """Checked answers and failures, by node id."""

    answers: dict[int, Reply]
    failures: dict[int, Failure]


def exchange(
    transport: Transport,
    requests: Mapping[int, WireModel],
    model: type[Reply],
    timeout: float,
    on_reply: Callable[[int, int], None],
) -> Replies[Reply]:
    """Send the requests, and all that comes back, as `stream` gives it."""
    answers: dict[int, Reply] = {}
    failures: dict[int, Failure] = {}
    for node, reply in stream(transport, requests, model, timeout, on_reply):
        if isinstance(reply, Failure):
            failures[node] = reply
        else:
            answers[node] = reply
    return Replies(answers, failures)


def stream(
    transport: Transport,
    requests: Mapping[int, WireModel],
    model: type[Reply],
    timeout: float,
    on_reply: Callable[[int, int], None],
    most_bytes: int | None = None,
) -> Iterator[tuple[int, Reply | Failure]]:
    """Send the requests and parse what comes back, one after the other as it comes; nothing that a party sends can
    raise here. most_bytes: in an answer's arrays; those of more are not looked into."""
    for node, record in transport.exchange(requests, timeout, on_reply):
        yield node, record if isinstance(record, Failure) else _parsed(record, model, most_bytes)


def _parsed(record: RecordDict, model: type[Reply], most_bytes: int | None) -> Reply | Failure:
    try:
        refusal = refusal_from_record(record)
        if refusal is not None:
            return Failure(f"refused: {refusal}", refusal.rule, refusal.party)
        return from_record(record, model, most_bytes)
    except MalformedMessage as error:
        return Failure(f"malformed answer: {error.what}")

"""`consilium party status`: where this party stands, from its own files; it asks nobody."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from consilium.node.kit import Kit
from consilium.node.supernode import read_connection
from consilium.party import journal
from consilium.party.acceptance import check_is_accepted
from consilium.party.expectation import own_share, student_epsilon, towards_whom
from consilium.party.home import Home, open_home
from consilium.party.journal import LastAnswer
from consilium.party.spend import SpendStore
from consilium.protocol.errors import ConfigError, NotAccepted
from consilium.protocol.files import is_held
from consilium.protocol.messages import Terms
from consilium.protocol.refusals import Refused, cure_of


@dataclass(frozen=True)
class OwnStatus:
    """For the party's own eyes.

    federation: digest of the one that it takes part in, as far as people compare it. connection, standing: in words.
    since: of the standing. queries: that it ever answered, of `most_queries`. epsilon: of this federation, by the
    party's own unit; None where its policy does not allow it. problem: why, and what to do. epsilon_student: the same
    towards the student and the public; None where no noise is in the sums. towards: whom each holds towards, in words.
    """

    party: str
    federation: str
    running: bool
    connection: str
    standing: str
    since: str
    queries: int
    most_queries: int
    epsilon: float | None
    most_epsilon: float
    problem: str
    epsilon_student: float | None = None
    towards: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def terms_of(home: Home) -> Terms:
    """The terms of the one federation that a kit takes part in. Raises ConfigError."""
    pinned = home.pinned_terms()
    if pinned is None:
        raise ConfigError(
            "party.toml pins no terms, so the party would take part in whatever a coordinator asks",
            'Set terms = "terms.json" in party.toml',
        )
    return pinned


def status(kit: Kit) -> OwnStatus:
    """Raises ConfigError if the party's settings or terms cannot be read, or nothing was accepted yet."""
    home = open_home(kit.folder)
    terms = terms_of(home)
    running = is_held(kit.folder / "state" / "lock")
    last = journal.read(kit.folder)
    standing, since = standing_of(last)
    epsilon, problem, student, towards = None, "", None, ""
    try:
        check_is_accepted(home)
        share = own_share(home, terms)
        epsilon, student = share.epsilon, student_epsilon(terms, home.policy, share.weight)
        towards = towards_whom(terms, share.epsilon, student)
    except NotAccepted as error:
        problem = str(error)
    except Refused as error:
        problem = f"its own policy refuses this federation: {error}. {cure_of(f'refused: {error.refusal}')}"
    return OwnStatus(
        party=kit.name,
        federation=terms.federation[:12],
        running=running,
        connection=read_connection(kit) if running else "not started",
        standing=standing,
        since=since,
        queries=SpendStore(home.spend_file).answered(),
        most_queries=home.policy.most_queries,
        epsilon=epsilon,
        most_epsilon=home.policy.most_epsilon,
        problem=problem,
        epsilon_student=student,
        towards=towards,
    )


def standing_now(kit: Kit) -> str:
    """In words, by the journal as it is now."""
    return standing_of(journal.read(kit.folder))[0]


def standing_of(last: dict[str, LastAnswer]) -> tuple[str, str]:
    """In words, and since when, by what was asked last.

    >>> standing_of({})
    ('not asked yet', '')
    """
    hello, train = last.get(journal.HELLO), last.get(journal.TRAIN)
    if hello is None:
        return "not asked yet", ""
    if hello.refused:
        return _refusal(hello, "")
    if train is None or train.at < hello.at or train.federation != hello.federation:
        return f"enrolled{' late' if hello.late else ''}, to be trained", hello.at
    if train.refused:
        return _refusal(train, "in training, ")
    voted = [last[kind] for kind in journal.VOTES if kind in last and last[kind].at >= train.at]
    if voted:
        newest = max(voted, key=lambda answer: answer.at)
        return _refusal(newest, "of votes, ") if newest.refused else ("takes part, and has voted", newest.at)
    if hello.late:
        return "takes part; it came late, and votes from the next questions on", train.at
    return "takes part, and was not asked for votes yet", train.at


def _refusal(answer: LastAnswer, where: str) -> tuple[str, str]:
    cure = cure_of(answer.refused)
    return f"{where}{answer.refused}{f'. {cure}' if cure else ''}", answer.at

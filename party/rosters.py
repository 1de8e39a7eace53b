"""The weight that this party's own copy of a roster gives it, by how votes are collected."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from consilium.party.home import Home
from consilium.party.promise import promise_of
from consilium.party.secagg import once
from consilium.party.secagg import votes as secure
from consilium.party.verified import votes as verified
from consilium.protocol.parties.messages import Terms, VotesMode


def _of_clear(home: Home, terms: Terms) -> None:
    """Clear votes have no roster."""


def _of_secure(home: Home, terms: Terms) -> int:
    roster = secure.check_roster(home, terms)
    place = roster.index(home.name)
    once.check_exact(home.state, promise_of(terms), roster, place)
    return roster.weights[place]


def _of_verified(home: Home, terms: Terms) -> int:
    roster = verified.check_roster(home, terms)
    once.check_exact(home.state, promise_of(terms), roster, roster.place(home.name))
    return 1


WEIGHTS: Mapping[VotesMode, Callable[[Home, Terms], int | None]] = {
    "clear": _of_clear,
    "secure": _of_secure,
    "distributed": _of_secure,
    "verified": _of_verified,
}


def agreed_weight(home: Home, terms: Terms) -> int | None:
    """This party's weight in the roster of the terms; None for clear votes, which have no roster.

    Raises
    ------
    Refused, ConfigError : as `check_roster` of that way to collect votes. RosterMismatch : the party is not in it.
    BrokenBlock : sums are exact, and the party stands in no block, or in another than before.
    """
    return WEIGHTS[terms.votes](home, terms)

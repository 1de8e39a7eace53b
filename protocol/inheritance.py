"""What was promised to the rows of a party before they came under another name: a kit's `account.json`.

A party that lost its keys or its state comes back under a new name. Its account would begin at nothing, though the
patients are the same, so the operator, who knows all federations that the old name was in, writes what these may have
cost at most. The authority signs it with the rest of the kit, and the party charges it before it answers anything.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from consilium.protocol.digests import Hash
from consilium.protocol.messages import PartyName, PromiseText
from consilium.protocol.models import Frozen

ACCOUNT_FILE = "account.json"


class InheritedFederation(Frozen):
    """One federation. promise: as in its `Terms`. queries: of its query budget, the most that were answered."""

    federation: Hash
    promise: PromiseText
    queries: int = Field(ge=0)


class Inheritance(Frozen):
    """succeeds: names that the party's patients had before. others: parties that left, whose patients are none of this
    party's, as the operator was told; the party's people confirm it."""

    succeeds: tuple[PartyName, ...] = ()
    others: tuple[PartyName, ...] = ()
    federations: Annotated[tuple[InheritedFederation, ...], Field(max_length=10_000)] = ()

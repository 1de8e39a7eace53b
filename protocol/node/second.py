"""second.json: which node is the second aggregator of verified votes, and who made its keys, as the operator says.

It is the operator's word. What cannot be made up is the fingerprint of the keys in the roster, which the second
aggregator reads out over the telephone.
"""

from __future__ import annotations

from typing import Literal

from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.models import Frozen
from consilium.protocol.node.checks import Advice
from consilium.protocol.node.kit import Kit
from consilium.protocol.node.rosters import PinnedRoster
from consilium.protocol.parties.messages import PartyName

SECOND_FILE = "second.json"


class SecondFile(Frozen):
    """The file `second.json`."""

    name: PartyName
    made_by: Literal["operator", "aggregator"]


def check_second(kit: Kit, roster: PinnedRoster | None) -> str:
    """For the doctor of a party or the coordinator: that there are two aggregators, with keys of two makers.

    Raises
    ------
    ConfigError : the roster has none, or one for both. Advice : the operator made the keys of both.
    """
    if roster is None or roster.second is None:
        return "none: only verified votes have one"
    second = roster.second
    if second.ed25519_pk == roster.coordinator or second.x25519_pk == roster.coordinator_sealing:
        raise ConfigError("both aggregators have one key: whoever has it could open every vote", "Ask the operator")
    found = load(kit / SECOND_FILE, SecondFile)
    if found.made_by == "operator":
        raise Advice(
            f"{found.name}: the operator made both aggregators' keys: it could open every vote",
            "Let the aggregator make its own: consilium aggregator keys",
        )
    return f"{found.name} made its own keys; have it read out {roster.second_fingerprint}"

"""What a node's own policy would refuse, as a finding of its doctor."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from consilium.protocol.errors import ConfigError
from consilium.protocol.parties.refusals import CURES, Refused, Rule


def refused_is_wrong(
    allows: Callable[[], object], what: str, action: str = "", cures: Mapping[Rule, str] = CURES
) -> None:
    """What the node would refuse, with the cure that the coordinator is told too; cures: of its kind of node. Raises
    ConfigError."""
    try:
        allows()
    except Refused as error:
        cure = cures[error.refusal.rule]
        raise ConfigError(f"{what}: {error}", f"{cure}. {action}" if action else cure) from None

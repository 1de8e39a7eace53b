"""The signed folder's `federation.json` as its two writers and readers of the whole have it: operator and coordinator."""

from __future__ import annotations

from consilium.coordinator.config import FederationConfig
from consilium.node.signed import FederationFile


class ServedFederation(FederationFile):
    """See `FederationFile`: with all that the coordinator runs."""

    config: FederationConfig  # pyright: ignore[reportIncompatibleVariableOverride] - of the same table, more of it

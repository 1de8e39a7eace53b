"""The signed folder's `federation.json`, as those read it who need the whole of it: operator and coordinator."""

from __future__ import annotations

from consilium.coordinator.config import FederationConfig
from consilium.node.signed import FederationFile


class ServedFederation(FederationFile):
    """See `FederationFile`: with all that the coordinator runs."""

    config: FederationConfig  # pyright: ignore[reportIncompatibleVariableOverride] - of the same table, more of it

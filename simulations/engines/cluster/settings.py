"""What Flower's process is told of a run on a cluster: a file, named in its environment."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from consilium.protocol.models import Frozen

VARIABLE = "CONSILIUM_CLUSTER"
FIGURES = "cluster.json"


class ClusterSettings(Frozen):
    """Of one run.

    work: folder with the parties' homes. run: a name that no other run has. shared: files in `work` that all parties
    read. environment: of the processes on the nodes. figures: where it is written what was computed where.
    """

    address: str
    work: Path
    figures: Path
    environment: Mapping[str, str]
    shared: tuple[str, ...] = ("roster.json",)
    run: str = Field(default_factory=lambda: secrets.token_hex(8))

    def save(self, path: Path) -> dict[str, str]:
        """Write the file; returns what to set in the environment of whoever is to read it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.model_dump_json() + "\n", encoding="utf-8")
        return {VARIABLE: str(path)}

    @classmethod
    def told(cls) -> ClusterSettings:
        """As this process's environment says."""
        return cls.model_validate_json(Path(os.environ[VARIABLE]).read_bytes())

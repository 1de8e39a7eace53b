"""What a party reads of the federation's file before it takes part: the rest is the coordinator's."""

from __future__ import annotations

from pathlib import Path

from pydantic import ConfigDict, Field

from consilium.accounting.units import Unit
from consilium.protocol.config_files import read_table, validate
from consilium.protocol.models import Frozen
from consilium.protocol.parties.messages import MOST_TEACHERS, TeacherSpec, VotesMode
from consilium.protocol.rows.pool import PoolTerms
from consilium.protocol.rows.schema import Schema


class _Part(Frozen):
    """Other keys than these are the coordinator's, and left alone."""

    model_config = ConfigDict(extra="ignore")


class _Caps(_Part):
    queries: int = Field(ge=1)


class _Privacy(_Part):
    unit: Unit


class FederationFile(_Part):
    """The part of `federation.json` that says what is trained on what."""

    name: str
    rows: Schema
    caps: _Caps
    teachers_per_party: int = Field(default=1, ge=1, le=MOST_TEACHERS)
    teacher: TeacherSpec = TeacherSpec()
    privacy: _Privacy | None = None
    votes: VotesMode = "clear"
    pool: PoolTerms | None = None
    simulation: bool = False
    seed: int = -1


def load_federation(path: Path) -> FederationFile:
    """Read it. Raises ConfigError."""
    return validate(read_table(path), FederationFile, str(path))

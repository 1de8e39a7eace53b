"""What a party reads of the federation's file before it takes part: the rest is the coordinator's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import ConfigDict, Field, model_validator

from consilium.accounting.units import Unit
from consilium.protocol.config_files import read_table, validate
from consilium.protocol.messages import MOST_TEACHERS, StatedMode
from consilium.protocol.models import Frozen
from consilium.protocol.old_names import Outgrown
from consilium.protocol.rows.pool import PoolTerms
from consilium.protocol.rows.queries import reference_of
from consilium.protocol.rows.schema import Schema
from consilium.protocol.teachers import TeacherSpec
from consilium.protocol.voting_rule import TopRule, VotingRuleSpec


class _Part(Outgrown, Frozen):
    """Other keys than these are the coordinator's, and left alone."""

    model_config = ConfigDict(extra="ignore")


class _QueryBudget(_Part):
    queries: int = Field(ge=1)


class _Privacy(_Part):
    unit: Unit


class _Mechanism(_Part):
    name: str = ""


class FederationFile(_Part):
    """The part of `federation.json` that says what is trained on what."""

    name: str
    rows: Schema
    query_budget: _QueryBudget = Field(serialization_alias="caps")
    teachers_per_party: int = Field(default=1, ge=1, le=MOST_TEACHERS)
    teacher: TeacherSpec
    voting_rule: VotingRuleSpec = Field(default=TopRule(), serialization_alias="ballot")
    reference: str = ""
    privacy: _Privacy | None = None
    collection: StatedMode = Field(serialization_alias="votes")
    public: PoolTerms | None = Field(default=None, serialization_alias="pool")
    mechanism: _Mechanism = _Mechanism()
    noise_shares: int = 0
    simulation: bool = False
    seed: int = -1

    @model_validator(mode="after")
    def _reference_is_rows(self) -> FederationFile:
        self.reference_rows()
        return self

    @property
    def exact_sums(self) -> bool:
        """Whether sums leave without noise: verified ones where neither aggregators nor mechanism add it."""
        noisy = self.noise_shares > 0 or self.mechanism.name.startswith("distributed")
        return self.collection == "secure" or (self.collection == "verified" and not noisy)

    def reference_rows(self) -> np.ndarray:
        """By which teachers vote, float32 (rows, features); none where the voting rule needs none."""
        return reference_of(self.reference, len(self.rows.features))


def load_federation(path: Path) -> FederationFile:
    """Read it. Raises ConfigError."""
    return validate(read_table(path), FederationFile, str(path))

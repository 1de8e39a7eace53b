"""The party's own policy: what it enforces itself, whatever the coordinator asks."""

from __future__ import annotations

from pydantic import Field

from protocol.config_files import Frozen
from protocol.messages import PROTOCOL_VERSION, HelloRequest, PartyName
from protocol.refusals import Refused, Rule


class Policy(Frozen):
    """The `[policy]` table of `party.toml`; every limit has a safe default.

    allowed_classes: class names the party is willing to vote on, in any order; a request must ask exactly these.
    least_rows_per_teacher: no teacher is trained on fewer rows.
    most_teachers: the most teachers, and so votes, that the party gives for one query.
    most_epsilon, delta: the largest worst-case epsilon at that delta, over all federations ever served on these data.
        Federations count with what their caps allow, whether it was used or not.
    most_queries: the most queries ever answered on these data, over all runs.
    allow_simulation: serve in a federation whose noise is seeded, that is, one without privacy. Never on real data.
    """

    allowed_classes: tuple[str, ...] = Field(min_length=2)
    least_rows_per_teacher: int = Field(default=20, ge=1)
    most_teachers: int = Field(default=1, ge=1)
    most_queries: int = Field(default=10_000, ge=0)
    most_epsilon: float = Field(default=3.0, ge=0)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    allow_simulation: bool = False


class PartyFile(Frozen):
    """The file `party.toml` in a party's home."""

    name: PartyName
    data: str = Field(default="data.npz", min_length=1)
    policy: Policy


def check_hello(policy: Policy, request: HelloRequest) -> None:
    """Raise Refused if the policy does not let the party serve in the federation that `request` describes."""
    if request.protocol_version != PROTOCOL_VERSION:
        raise Refused(Rule.VERSION, limit=PROTOCOL_VERSION, requested=request.protocol_version)
    if request.simulation and not policy.allow_simulation:
        raise Refused(Rule.SIMULATION)
    if sorted(request.classes) != sorted(policy.allowed_classes):
        raise Refused(Rule.CLASSES, limit=len(policy.allowed_classes), requested=len(request.classes))
    check_teachers(policy, request.teachers)


def check_teachers(policy: Policy, teachers: int) -> None:
    """Raise Refused if more teachers are asked for than the policy allows."""
    if teachers > policy.most_teachers:
        raise Refused(Rule.MOST_TEACHERS, limit=policy.most_teachers, requested=teachers)


def check_shards(policy: Policy, smallest_shard: int) -> None:
    """Raise Refused if a shard would be too small. The number of rows itself is not told."""
    if smallest_shard < policy.least_rows_per_teacher:
        raise Refused(Rule.LEAST_ROWS, limit=policy.least_rows_per_teacher)

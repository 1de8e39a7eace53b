"""What a party allows: the limits of its policy.toml, and of what they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import gt, lt

from pydantic import Field

from consilium.node.answering import pool_of
from consilium.node.home import LIMITS as COMMON
from consilium.node.home import Limit, others
from consilium.node.limits import NodePolicy
from consilium.protocol.messages import CollectionMode, Terms
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.schema import Schema
from consilium.sums.modes import MODES


class Policy(NodePolicy):
    """The limits of a party; see `NodePolicy` for those that other nodes have too.

    allowed_columns: columns of its rows that may be read, held against the federation's when the party's folder is
        opened, and against what is to be trained; none are named in a simulation.
    allowed_classes: class names the party is willing to vote on, in any order; a request must ask exactly these.
    least_rows_per_teacher: no teacher is trained on fewer rows; 0 allows an empty shard, whose teacher is constant.
    most_teachers: the most teachers, and so votes, that the party gives for one query.
    collection: the least secret way in which its votes may be collected: "plaintext" (the coordinator sees them),
        or "secure" (it sees sums with noise of the parties' own). Or "verified" and nothing else: single votes are
        hidden as long as coordinator and second aggregator do not work together, where "secure" relies on the other
        parties, so that a party that wants it says so.
    """

    allowed_classes: tuple[str, ...] = Field(default=(), min_length=2)
    allowed_columns: tuple[str, ...] = ()
    least_rows_per_teacher: int = Field(default=20, ge=0)
    most_teachers: int = Field(default=1, ge=1)
    collection: CollectionMode = "secure"


def _less_secret(collection: CollectionMode, than: CollectionMode) -> bool:
    """Whether a policy that names `than` forbids this one; hidden sums stand for themselves alone."""
    return than in MODES and collection != than


LIMITS: Mapping[str, Limit] = {
    "collection": Limit("how votes are collected", _less_secret),
    **{key: COMMON[key] for key in ("unit", "neighbouring", "delta", "most_epsilon", "most_queries")},
    "most_teachers": Limit("teachers, each with a vote", gt),
    "least_rows_per_teacher": Limit("rows that a teacher has at least", lt),
    **{key: COMMON[key] for key in ("least_parties", "allow_simulation")},
    "allowed_classes": Limit("classes that are voted on", others),
    "allowed_columns": Limit("columns of the rows that are read", others),
}
"""By key, in the order in which people read them."""


def check_terms(policy: Policy, terms: Terms) -> None:
    """Raise Refused if the policy does not let the party serve in a federation with these terms."""
    policy.check_simulation(terms)
    if sorted(terms.classes) != sorted(policy.allowed_classes):
        raise Refused(Rule.CLASSES, limit=len(policy.allowed_classes), requested=len(terms.classes))
    if terms.teachers > policy.most_teachers:
        raise Refused(Rule.MOST_TEACHERS, limit=policy.most_teachers, requested=terms.teachers)
    if _less_secret(terms.collection, policy.collection):
        detail = f"{terms.collection} votes asked, the policy asks for {policy.collection}"
        raise Refused(Rule.VOTES, detail=detail)
    pool_of(terms)


def check_columns(policy: Policy, schema: Schema, lacks: Collection[str]) -> None:
    """Raise Refused if columns would be read that the policy does not name. What is trained is pinned by its digest
    alone: that it reads the columns which the signed folder lists is the coordinator's word."""
    read = {*schema.columns_read} - {*lacks}
    if policy.allowed_columns and (other := read - {*policy.allowed_columns}):
        raise Refused(Rule.SCHEMA, detail=f"{len(other)} columns would be read that allowed_columns does not name")


def check_shards(policy: Policy, smallest_shard: int) -> None:
    """Raise Refused if a shard would be too small. The number of rows itself is not told."""
    if smallest_shard < policy.least_rows_per_teacher:
        raise Refused(Rule.LEAST_ROWS, limit=policy.least_rows_per_teacher)

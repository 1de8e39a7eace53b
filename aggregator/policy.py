"""The second aggregator's own policy: what it gives its half of a sum for, whatever the coordinator asks."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, ValidationError, model_validator

from consilium.accounting.units import Neighbouring, Unit
from consilium.aggregator.promise import events_of, within
from consilium.protocol.messages import PartyName, Terms
from consilium.protocol.models import Frozen
from consilium.protocol.old_names import Outgrown
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.rows.pool import PoolTerms
from consilium.sums.roster import VerifiedRoster


class AggregatorPolicy(Outgrown, Frozen):
    """The `[policy]` table of `policy.toml` in a kit, of `aggregator.toml` elsewhere; every limit has a safe default.

    most_queries: the most queries ever given, over all federations.
    most_epsilon, delta, unit, neighbouring: the largest worst-case epsilon that the federations served may promise
        together; as in a party's policy.
    exact_sums: give a half without noise, so that the coordinator has exact sums. False: only with noise of its own.
    open_pool: serve though the queries were not fixed beforehand.
    least_parties: parties other than assumed colluders that must be in every sum.
    allow_simulation: serve in a federation whose noise is seeded, that is, one without privacy.
    """

    GONE: ClassVar[frozenset[str]] = frozenset({"least_difference"})

    most_queries: int = Field(default=10_000, ge=0)
    most_epsilon: float = Field(default=3.0, ge=0)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    unit: Unit = Unit.PARTY
    neighbouring: Neighbouring = Neighbouring.REPLACE
    exact_sums: bool = False
    open_pool: bool = False
    least_parties: int = Field(default=2, ge=2)
    allow_simulation: bool = False


class AggregatorFile(Frozen):
    """The file `aggregator.toml` in the home of a second aggregator.

    identity, sealing: its keys, Ed25519 to sign and X25519 of its link to the coordinator. roster: parties and both
    aggregators. terms: file with the terms of the one federation that it serves (`terms.json` of a kit); without it,
    any that the policy allows. policy: None in a kit whose people have accepted nothing yet. simulated_noise_seed: of
    its noise in simulations, which must be allowed.
    """

    name: PartyName
    identity: str = Field(default="identity.pem", min_length=1)
    sealing: str = Field(default="sealing.pem", min_length=1)
    roster: str = Field(default="roster.json", min_length=1)
    terms: str = ""
    policy: AggregatorPolicy | None = None
    simulated_noise_seed: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _seed_only_in_simulations(self) -> AggregatorFile:
        simulates = self.policy is not None and self.policy.allow_simulation
        if self.simulated_noise_seed is not None and not simulates:
            raise ValueError("simulated_noise_seed needs policy.allow_simulation: seeded noise protects nobody")
        return self


def check_terms(policy: AggregatorPolicy, terms: Terms, roster: VerifiedRoster, earlier: list[str]) -> None:
    """Raise Refused if the policy does not let this aggregator serve in a federation with these terms.

    earlier: the promises of the other federations that it has served.
    """
    if terms.simulation and not policy.allow_simulation:
        raise Refused(Rule.SIMULATION)
    if terms.votes != "verified":
        raise Refused(Rule.VOTES, detail=f"{terms.votes} votes need no second aggregator")
    if terms.roster != roster.digest:
        raise Refused(
            Rule.ROSTER_MISMATCH, detail=f"the coordinator has {terms.roster[:12]}, this node {roster.digest[:12]}"
        )
    if pool_of(terms) is None and not policy.open_pool:
        raise Refused(Rule.POOL, detail="verified votes on queries that were not fixed beforehand")
    sure = roster.sure
    if sure < policy.least_parties:
        raise Refused(Rule.LEAST_PARTIES, limit=policy.least_parties, requested=sure)
    events = events_of(terms.promise)
    if not policy.exact_sums and not all(event.noise_by_parties for event in events):
        raise Refused(Rule.EXACT_SUMS, detail="exact sums are asked for, and policy.exact_sums is false")
    listed = [*(event for text in earlier for event in events_of(text)), *events]
    fits, cost = within(listed, policy.unit, policy.neighbouring, policy.delta, policy.most_epsilon)
    if not fits:
        raise Refused(Rule.MOST_EPSILON, limit=policy.most_epsilon, requested=round(cost, 4))


def pool_of(terms: Terms) -> PoolTerms | None:
    """The pool that the terms pin, or None. Refused (MALFORMED) if they pin nonsense."""
    try:
        return PoolTerms.model_validate_json(terms.pool) if terms.pool else None
    except ValidationError:
        raise Refused(Rule.MALFORMED, detail="terms: pool") from None

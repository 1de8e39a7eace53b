"""The phases of a federation: a mechanism with the caps within which it is used, and what can be wrong with them."""

from __future__ import annotations

from pydantic import Field, model_validator

from consilium.coordinator.mechanisms import AnyMechanism
from consilium.protocol.models import Frozen
from consilium.protocol.parties.messages import VotesMode


class Caps(Frozen):
    """Most queries ever asked and most answers ever given, fixed before the run: they alone fix the worst case."""

    queries: int = Field(ge=1, description="most queries ever asked")
    answers: int = Field(
        ge=1,
        description="most answers ever given; must equal `queries` for mechanisms that answer every query, and for"
        " `distributed`",
    )

    @model_validator(mode="after")
    def _answers_within_queries(self) -> Caps:
        if self.answers > self.queries:
            raise ValueError(f"answers {self.answers} exceeds queries {self.queries}")
        return self


class Phase(Frozen):
    """One phase of a federation's schedule: how a label comes from the votes, and how often."""

    mechanism: AnyMechanism = Field(description="how a label comes from the votes in this phase")
    caps: Caps = Field(description="how much is asked and answered at most in this phase")

    @model_validator(mode="after")
    def _answers_what_it_must(self) -> Phase:
        check_caps(self.mechanism, self.caps, "distributed")  # the federation checks it for how its votes are collected
        return self

    def describe(self) -> str:
        """Mechanism and caps, for people."""
        return f"{self.mechanism.describe()}, at most {self.caps.queries} queries and {self.caps.answers} answers"


NOISY_SUMS: frozenset[VotesMode] = frozenset({"distributed", "verified"})
"""Where sums may come with noise in them: of the parties, or of each aggregator."""


def check_caps(mechanism: AnyMechanism, caps: Caps, votes: VotesMode) -> None:
    """Raise ValueError where the caps cannot be those of the mechanism."""
    two_phases = mechanism.phases == 2 and votes in NOISY_SUMS
    if mechanism.noise_by_parties and caps.answers != caps.queries and not two_phases:
        # what the parties have sent is seen, whether its label is released or not
        raise ValueError(
            f"{mechanism.name} charges for all it sees: caps.answers {caps.answers} must equal queries {caps.queries}"
        )
    if mechanism.answers_all and caps.answers != caps.queries:
        raise ValueError(
            f"{mechanism.name} answers every query: caps.answers {caps.answers} must equal queries {caps.queries}"
        )


def check_votes(mechanism: AnyMechanism, votes: VotesMode, noise_in_sums: bool, simulation: bool) -> None:
    """Raise ValueError where votes that are collected in this way cannot feed the mechanism."""
    if noise_in_sums and mechanism.sums_sigma(1) is None:
        raise ValueError(
            f"{mechanism.name} is not private, and {votes} votes have the noise in their sums: collect them in clear,"
            " or as exact sums (votes secure, or verified with exact_sums)"
        )
    if mechanism.noise_by_parties and not noise_in_sums and not (simulation and votes == "clear"):
        raise ValueError(f"{mechanism.name} needs noise that is in the sums already: set votes to distributed")
    if votes == "verified" and (noise := mechanism.shares_of_noise) > 1:
        raise ValueError(
            f"of verified votes each of the two aggregators adds the whole noise: set mechanism.noise_shares {noise} to"
            " 1"
        )


def check_schedule(
    phases: tuple[Phase, ...], votes: VotesMode, noise_in_sums: bool, sanitised: bool, simulation: bool
) -> None:
    """Raise ValueError where a federation of several phases cannot have these, see docs/decisions/schedule.md."""
    if len(phases) == 1:
        return
    if sanitised:
        raise ValueError("privacy.sanitised is planned for one mechanism: leave it out, or leave the schedule out")
    for number, phase in enumerate(phases, 1):
        mechanism = phase.mechanism
        if mechanism.count_sigma(1) > 0 or not mechanism.private:
            raise ValueError(
                f"phase {number}: {mechanism.name} cannot be in a schedule: choose a mechanism that is private and that"
                " releases labels"
            )
        if mechanism.noise_by_parties != phases[0].mechanism.noise_by_parties:
            raise ValueError(
                f"phase {number}: {mechanism.name} and {phases[0].mechanism.name} cannot be in one schedule: in one of"
                " them the parties add the noise"
            )
        try:
            check_votes(mechanism, votes, noise_in_sums, simulation)
            check_caps(mechanism, phase.caps, votes)
        except ValueError as error:
            raise ValueError(f"phase {number}: {error}") from None

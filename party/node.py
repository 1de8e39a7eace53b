"""A party's answers, on plain objects: hello, train, vote, and those of hidden votes. Flower is only at the edge
(`client_app`).

The coordinator is not trusted: what a message says of a federation is held against the terms of the enrolment, which
the party's own people have allowed."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import lru_cache
from typing import TypeVar

import numpy as np
from pydantic import ValidationError

from consilium.data.private_rows import PrivateRows
from consilium.models.keys import TeacherKind, teacher_from_json
from consilium.models.table import check_teacher, fit_teachers
from consilium.node.answering import check_pinned, check_protocol
from consilium.party.home import PartySettings, own
from consilium.party.policy import check_shards
from consilium.party.store import Agreed, Store, check_position
from consilium.party.voting import (
    Lot,
    TeacherSet,
    check_reference,
    checked_queries,
    not_fitted,
    query_inputs,
    simulated_secret,
    simulated_seeds,
    split,
    thresholds_of,
    unanswered,
    votes_of_teachers,
)
from consilium.protocol.choices import counted, packed
from consilium.protocol.digests import canonical_digest
from consilium.protocol.identity import Identity
from consilium.protocol.messages import (
    VOTE_DTYPE,
    HelloReply,
    HelloRequest,
    LedgerPosition,
    Terms,
    TrainReply,
    TrainRequest,
    VoteReply,
    VoteRequest,
    WireModel,
)
from consilium.protocol.noise import NoiseSource, SeededNoise, SystemNoise
from consilium.protocol.pool import proves
from consilium.protocol.queries import QUERY_DTYPE
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.schema import Schema
from consilium.protocol.versions import program_versions
from consilium.protocol.voting_rule import VotingRule, voting_rule_from_json
from consilium.sums.modes import ANSWERS, MODES
from consilium.sums.roster import SumRoster
from consilium.sums.terms import QuerySet, SumTerms

R = TypeVar("R", bound=SumRoster)
log = logging.getLogger("consilium.party")


class PartyNode:
    """One party, open for as long as its settings stay: what they allow of a federation is looked at once. It is the
    `sums.terms.Voter` of hidden sums, whichever protocol runs."""

    def __init__(self, settings: PartySettings, rows: PrivateRows, store: Store) -> None:
        self.settings, self.rows, self.store = settings, rows, store
        self._agreed: dict[str, Agreed] = {}

    def hello(self, request: HelloRequest) -> HelloReply:
        """Name and number of teachers, if the policy lets the party serve; Refused otherwise.

        From here on the federation is what these terms say: whatever a later message says otherwise is refused."""
        check_protocol(request.protocol_version)
        self._check_agreed(request.terms)
        seen = self.store.enrol(request, self.settings.policy)
        program = program_versions()
        if request.program != program:
            log.warning("another version: the coordinator runs %s, this party %s", request.program or "none", program)
        return HelloReply(party=self.name, teachers=request.teachers, seen=seen, program=program)

    def train(self, request: TrainRequest) -> TrainReply:
        """Train the teachers and keep them; a repeated request finds them there and trains nothing.

        Where the party's rows, its mapping or its own kind of teacher have changed since, all are trained anew. Raises
        Refused: policy, data or schema do not allow it, the request is malformed, or the federation asked for other
        teachers before."""
        terms = self.agreed(request.federation).terms
        if terms.request != request.digest():
            raise Refused(Rule.PROMISE, detail="other teachers are asked for than this federation came with")
        if request.seed >= 0 and not terms.simulation:
            # whoever chooses the seed knows shards and the estimators' random choices
            raise Refused(Rule.SIMULATION, detail="a seed for the teachers is chosen outside a simulation")
        schema, stated, voting_rule = parsed(request.rows_json, request.spec_json, request.voting_rule_json)
        spec = self.settings.teacher or stated
        if list(schema.classes) != terms.classes or request.teachers != terms.teachers:
            raise Refused(Rule.PROMISE, detail="the rows or the number of teachers are not those of the terms")
        # what is trained is pinned by its digest: that it reads the columns of the folder is the coordinator's word
        allowed, read = self.settings.policy.allowed_columns, {*schema.columns_read} - {*self.settings.rules.lacks}
        if allowed and (other := read - {*allowed}):
            raise Refused(Rule.SCHEMA, detail=f"{len(other)} columns would be read that allowed_columns does not name")
        check_teacher(spec, schema)
        check_reference(voting_rule, schema, request.reference)
        rules = self.settings.rules.model_dump(mode="json")
        # of all that decides what teachers come out, but the party's own random choices
        origin = canonical_digest([request.digest(), self.rows.digest(), rules, spec.model_dump(mode="json")])
        with suppress(Refused):  # there are none yet
            if self.teachers(request.federation).made_from == origin:
                return TrainReply(party=self.name, teachers=request.teachers)
        rows = self.rows.read(schema)
        # in simulations shards and seeds are derived from run seed and name; never from the data
        seeded, name = request.seed >= 0, self.name
        secret = simulated_secret(request.seed, name) if seeded else self.store.own_secret()
        sequence = simulated_seeds(request.seed, name) if seeded else np.random.SeedSequence()
        parts = split(rows.identities, request.teachers, secret)
        check_shards(self.settings.policy, min(len(part) for part in parts))
        seeds = [int(seed.generate_state(1)[0]) for seed in sequence.spawn(len(parts))]
        teachers = fit_teachers(spec, rows.represented(schema, parts), parts, seeds, len(schema.classes))
        limits = thresholds_of(teachers, schema, voting_rule, request.reference)
        if failed := not_fitted(teachers):
            log.warning("[teacher] %s cannot be fitted to %d of %d shards", spec.title, failed, len(parts))
        self.store.keep_teachers(request.federation, TeacherSet(schema, origin, "", teachers, limits))
        return TrainReply(party=self.name, teachers=request.teachers)

    def vote(self, request: VoteRequest) -> VoteReply:
        """Votes of the party's teachers, counted against its own limits before they leave. Raises Refused: nothing
        trained, another ledger than before, queries that are not of the pool, a limit would be passed, or the request
        is malformed."""
        agreed = self.agreed(request.federation)
        if agreed.terms.collection in MODES:
            detail = f"plaintext votes asked in a federation of {agreed.terms.collection} ones"
            raise Refused(Rule.VOTES, detail=detail)
        if request.queries.dtype != QUERY_DTYPE or request.queries.ndim != 2:
            raise Refused(Rule.MALFORMED)
        query_set = QuerySet(request.queries, request.query_set, request.places, request.proof)
        votes = self.charged(query_set, agreed, 1, request.position, start=request.start)
        choices = packed(votes, len(agreed.terms.classes))
        return VoteReply(party=self.name, query_set=request.query_set, choices=choices)

    def hidden(self, request: WireModel) -> WireModel:
        """The answer to a request of the federation's hidden sums, whichever protocol it is of. Raises as that does."""
        return ANSWERS[type(request)](self, request)

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def identity(self) -> Identity:
        return own(self.settings.identity, Identity, "signing key")

    def roster(self, kind: type[R]) -> R:
        """See `Voter`, also for what follows."""
        return own(self.settings.roster, kind, "roster")

    def check(self, terms: SumTerms) -> None:
        agreed = self.agreed(terms.federation)
        enrolled, promise = agreed.terms, agreed.promise
        if terms.collection != enrolled.collection:
            detail = f"a {terms.collection} session in a federation of {enrolled.collection} votes"
            raise Refused(Rule.VOTES, detail=detail)
        if terms.roster != enrolled.roster:
            raise Refused(Rule.ROSTER_MISMATCH, detail="the session has another roster than the terms")
        if (terms.teachers, terms.classes) != (enrolled.teachers, len(enrolled.classes)):
            raise Refused(Rule.PROMISE, limit=enrolled.teachers, requested=terms.teachers)
        if terms.noise != promise.noise(terms.round):
            raise Refused(Rule.PROMISE, detail="the noise of the sum is not that of the promise")
        check_position(self.store.federation(terms.federation), terms.position)

    def votes(self, terms: SumTerms, query_set: QuerySet, again: bool) -> np.ndarray:
        self.check(terms)
        chosen = self.charged(query_set, self.agreed(terms.federation), terms.round, terms.position, again=again)
        return counted(chosen.T, terms.classes).astype(VOTE_DTYPE)

    def noise(self, terms: SumTerms) -> NoiseSource:
        seed = self.settings.noise_seed
        if seed is None or not self.agreed(terms.federation).terms.simulation:
            return SystemNoise()
        return SeededNoise(int(canonical_digest([seed, self.name, terms.query_set, terms.round]), 16))

    def agreed(self, federation: str) -> Agreed:
        """The terms of the enrolment, which the policy allows as it stands. Raises Refused."""
        agreed = self._agreed.get(federation)
        if agreed is None:
            agreed = self.store.agreed(federation)
            self._check_agreed(agreed.terms)
            self._agreed[federation] = agreed
        return agreed

    def teachers(self, federation: str) -> TeacherSet:
        return self.store.teachers(federation)

    def _check_agreed(self, terms: Terms) -> None:
        check_pinned(self.settings.pinned, terms)
        self.settings.check_terms(terms)

    def charged(
        self,
        query_set: QuerySet,
        agreed: Agreed,
        round: int,
        position: LedgerPosition,
        *,
        start: str = "",
        again: bool = False,
    ) -> np.ndarray:
        """The class that each teacher votes for, int64 (teachers, queries), after it was charged. Secret. round to
        again: see `Store.charge`. Raises Refused: nothing trained, a limit would be passed, or the queries are not
        those of their hash or of the pool."""
        policy, federation = self.settings.policy, agreed.terms.federation
        for rule, most in ((Rule.PROMISE, agreed.promise.most(round)), (Rule.MOST_QUERIES, policy.most_queries)):
            if len(query_set.queries) > most:
                raise Refused(rule, limit=most, requested=len(query_set.queries))
        trained = self.store.teachers(federation)
        queries, ids = checked_queries(query_set.queries, query_set.query_set, len(trained.schema.features))
        if agreed.pool is not None and not proves(agreed.pool, ids, query_set.places, query_set.proof):
            raise Refused(Rule.POOL, detail="a query is not proved to be a public row")
        self.store.charge(agreed, trained.digest, ids, policy, round, position, start=start, again=again)
        inputs = query_inputs(trained.schema, queries, query_set.query_set)
        votes = votes_of_teachers(trained, inputs, Lot(self.name, federation, ids))
        if silent := unanswered(trained.teachers):
            why = ", ".join(sorted(silent))
            log.warning("[teacher] teachers had no answer of their own to %d questions: %s", silent.total(), why)
        return votes


@lru_cache(maxsize=4)  # many simulated parties are asked the same
def parsed(rows: str, spec: str, voting_rule: str) -> tuple[Schema, TeacherKind, VotingRule]:
    """What a `TrainRequest` holds as JSON. Raises Refused (MALFORMED), naming fields and never their values."""
    try:
        return Schema.model_validate_json(rows), teacher_from_json(spec), voting_rule_from_json(voting_rule)
    except ValidationError as error:
        fields = sorted({str(item["loc"][0]) if item["loc"] else "json" for item in error.errors()})
        raise Refused(Rule.MALFORMED, detail=f"train request: {', '.join(fields)}") from None

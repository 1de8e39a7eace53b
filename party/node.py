"""A party's three answers, on plain objects: hello, train, vote. Flower is only at the edge (`client_app`)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from pydantic import ValidationError

from consilium.data.private_rows import Rows, digest_of, load_rows
from consilium.models.keys import TeacherKind, teacher_from_json
from consilium.models.table import check_teacher
from consilium.node.answering import check_pinned, check_protocol, pool_of
from consilium.party.expectation import check_own_roster
from consilium.party.hidden_votes import QuerySet, SecureVotes, VerifiedVotes
from consilium.party.home import Home, check_shards, check_terms
from consilium.party.promise import check_promised_unit, promise_of
from consilium.party.spend import SpendStore
from consilium.party.sum_store import Uploads, UploadStore
from consilium.party.teach import make, not_fitted, own_secret, simulated_secret, simulated_seeds, split, unanswered
from consilium.party.voting import (
    Lot,
    TeacherSet,
    check_reference,
    checked_queries,
    load_teachers,
    query_inputs,
    save_teachers,
    votes_of_teachers,
)
from consilium.protocol.choices import counted, packed
from consilium.protocol.digests import canonical_digest
from consilium.protocol.messages import (
    VOTE_DTYPE,
    HelloReply,
    HelloRequest,
    Terms,
    TrainReply,
    TrainRequest,
    VoteReply,
    VoteRequest,
)
from consilium.protocol.pool import proves
from consilium.protocol.queries import QUERY_DTYPE, query_set_hash
from consilium.protocol.refusals import Refused, Rule
from consilium.protocol.schema import Schema
from consilium.protocol.versions import program_versions
from consilium.protocol.voting_rule import VotingRule, voting_rule_from_json

log = logging.getLogger("consilium.party")


class PartyStore(Protocol):
    """A party's rows, and what it remembers from message to message."""

    @property
    def spend(self) -> SpendStore:
        """What the party has given."""
        ...

    @property
    def uploads(self) -> Uploads:
        """The verified votes that the party gave."""
        ...

    def rows(self, schema: Schema) -> Rows:
        """The party's rows. Refused (DATA) if they are not of the schema."""
        ...

    def origin(self, request: TrainRequest, schema: Schema, spec: TeacherKind) -> str:
        """Digest of all that decides what teachers come out, but the party's own random choices. Stays at the party."""
        ...

    def teachers(self, federation: str) -> TeacherSet:
        """Of an earlier lesson. Refused (NOT_TRAINED) if there are none."""
        ...

    def keep_teachers(self, federation: str, trained: TeacherSet) -> None:
        """For `teachers`, which gives them their digest. made_from: their origin."""
        ...


@dataclass(frozen=True)
class FolderStore:
    """See `PartyStore`: all is in the party's home, on its own disk, so that a new process can go on at any message."""

    home: Home

    @property
    def spend(self) -> SpendStore:
        """See `PartyStore`."""
        return SpendStore(self.home.spend_file, self.home.durable)

    @property
    def uploads(self) -> Uploads:
        """See `PartyStore`."""
        return UploadStore(self.home.state / "uploads.db")

    def rows(self, schema: Schema) -> Rows:
        """See `PartyStore`."""
        return load_rows(self.home.data_file, schema, self.home.rules)

    def origin(self, request: TrainRequest, schema: Schema, spec: TeacherKind) -> str:
        """See `PartyStore`."""
        return canonical_digest(
            {
                "data": digest_of(self.home.data_file),
                "rules": self.home.rules.model_dump(mode="json"),
                "schema": schema.model_dump(mode="json"),
                "spec": spec.model_dump(mode="json"),
                "ballot": request.voting_rule_json,
                "reference": query_set_hash(request.reference),
                "teachers": request.teachers,
                "seed": request.seed,
            }
        )

    def teachers(self, federation: str) -> TeacherSet:
        """See `PartyStore`."""
        return load_teachers(self.home.teachers(federation), federation)

    def keep_teachers(self, federation: str, trained: TeacherSet) -> None:
        """See `PartyStore`."""
        folder = self.home.teachers(federation)
        folder.mkdir(mode=0o700, exist_ok=True)
        save_teachers(folder, federation, trained.made_from, trained.schema, trained.teachers, trained.thresholds)


@dataclass(frozen=True)
class PartyNode:
    """One party. shelf: where it has its rows and what it remembers; None: in its home."""

    home: Home
    shelf: PartyStore | None = None

    @property
    def store(self) -> PartyStore:
        """Where the party has its rows and what it remembers."""
        return self.shelf or FolderStore(self.home)

    def hello(self, request: HelloRequest) -> HelloReply:
        """Name and number of teachers, if the policy lets the party serve; Refused otherwise.

        From here on the federation is what these terms say: whatever a later message says otherwise is refused.
        """
        check_protocol(request.protocol_version)
        check_terms(self.home.policy, request.terms)
        check_promised_unit(request.terms, self.home.rules)
        check_pinned(self.home.pinned_terms(), request.terms)
        check_own_roster(self.home, request.terms)
        self.spend.enrol(request.terms, request.ledger, self.home.policy)
        seen = self.spend.seen(request.federation, request.position)
        self.spend.greet(request.federation, request.starts)
        program = program_versions()
        if request.program != program:
            log.warning("another version: the coordinator runs %s, this party %s", request.program or "none", program)
        return HelloReply(party=self.home.name, teachers=request.teachers, seen=seen, program=program)

    def train(self, request: TrainRequest) -> TrainReply:
        """Train the teachers and keep them; a repeated request finds them there and trains nothing.

        Where the party's file, its mapping or its own kind of teacher have changed since, all are trained anew.

        Raises
        ------
        Refused : policy, data or schema do not allow it, the request is malformed, or the federation asked for other
            teachers before.
        """
        terms = self.spend.terms(request.federation)
        if terms.request != request.digest():
            raise Refused(Rule.PROMISE, detail="other teachers are asked for than this federation came with")
        check_terms(self.home.policy, terms)
        if request.seed >= 0 and not terms.simulation:
            # whoever chooses the seed knows shards and the estimators' random choices
            raise Refused(Rule.SIMULATION, detail="a seed for the teachers is chosen outside a simulation")
        check_promised_unit(terms, self.home.rules)  # party.toml may have changed since
        schema, stated, voting_rule = parsed(request.rows_json, request.spec_json, request.voting_rule_json)
        spec = self.home.teacher or stated
        if list(schema.classes) != terms.classes or request.teachers != terms.teachers:
            raise Refused(Rule.PROMISE, detail="the rows or the number of teachers are not those of the terms")
        check_teacher(spec, schema)
        check_reference(voting_rule, schema, request.reference)
        origin = self.store.origin(request, schema, spec)
        if not self._trained(request.federation, origin):
            rows = self.store.rows(schema)
            parts = split(rows.identities, request.teachers, self._secret(request.seed))
            check_shards(self.home.policy, min(len(part) for part in parts))
            seeds = self._seeds(request.seed)
            teachers, limits = make(rows, schema, spec, voting_rule, request.reference, parts, seeds)
            if failed := not_fitted(teachers):
                log.warning("[teacher] %s cannot be fitted to %d of %d shards", spec.title, failed, len(parts))
            self.store.keep_teachers(request.federation, TeacherSet(schema, origin, "", teachers, limits))
        return TrainReply(party=self.home.name, teachers=request.teachers)

    def vote(self, request: VoteRequest) -> VoteReply:
        """Votes of the party's teachers, counted against its own limits before they leave.

        Raises
        ------
        Refused : nothing trained, another ledger than before, queries that are not of the pool, a limit would be
            passed, or the request is malformed.
        """
        terms = self.spend.terms(request.federation)
        check_terms(self.home.policy, terms)
        if terms.collection != "plaintext":
            raise Refused(Rule.VOTES, detail=f"plaintext votes asked in a federation of {terms.collection} ones")
        if request.queries.dtype != QUERY_DTYPE or request.queries.ndim != 2:
            raise Refused(Rule.MALFORMED)
        query_set = QuerySet(request.queries, request.query_set, request.places, request.proof)
        self.spend.follow(request.federation, request.position, request.start)
        votes = self._charged(query_set, terms, 1)
        return VoteReply(party=self.home.name, query_set=request.query_set, choices=packed(votes, len(terms.classes)))

    def charged_votes(self, query_set: QuerySet, agreed: Terms, phase: int = 1) -> np.ndarray:
        """Votes uint16 (queries, classes), after they were charged. Secret.

        Raises
        ------
        Refused : as `_charged`.
        """
        votes = self._charged(query_set, agreed, phase)
        return counted(votes.T, len(agreed.classes)).astype(VOTE_DTYPE)

    def _charged(self, query_set: QuerySet, agreed: Terms, phase: int) -> np.ndarray:
        """The class that each teacher votes for, int64 (teachers, queries), after it was charged. Secret.

        Raises
        ------
        Refused : nothing trained, a limit would be passed, or the queries are not those of their hash or of the pool.
        """
        check_promised_unit(agreed, self.home.rules)
        for rule, most in (
            (Rule.PROMISE, promise_of(agreed).most(phase)),
            (Rule.MOST_QUERIES, self.home.policy.most_queries),
        ):
            if len(query_set.queries) > most:
                raise Refused(rule, limit=most, requested=len(query_set.queries))
        trained = self.store.teachers(agreed.federation)
        schema = trained.schema
        queries, ids = checked_queries(query_set.queries, query_set.query_set, len(schema.features))
        pool = pool_of(agreed)
        if pool is not None and not proves(pool, ids, query_set.places, query_set.proof):
            raise Refused(Rule.POOL, detail="a query is not proved to be a public row")
        self.spend.charge(agreed, trained.digest, ids, self.home.policy, phase)
        lot = Lot(self.home.name, agreed.federation, ids)
        votes = votes_of_teachers(trained, query_inputs(schema, queries, query_set.query_set), lot)
        if silent := unanswered(trained.teachers):
            why = ", ".join(sorted(silent))
            log.warning("[teacher] teachers had no answer of their own to %d questions: %s", silent.total(), why)
        return votes

    @property
    def secure(self) -> SecureVotes:
        """The stages of secure and distributed votes."""
        return SecureVotes(self.home, self.spend, self.charged_votes)

    @property
    def verified(self) -> VerifiedVotes:
        """The one stage of verified votes."""
        return VerifiedVotes(self.home, self.spend, self.store.uploads, self.charged_votes)

    @property
    def spend(self) -> SpendStore:
        """What the party has given."""
        return self.store.spend

    def _trained(self, federation: str, origin: str) -> bool:
        try:
            return self.store.teachers(federation).made_from == origin
        except Refused:
            return False

    def _secret(self, seed: int) -> bytes:
        """What decides over shards: the party's own secret, in simulations one derived from run seed and name."""
        return own_secret(self.home.state) if seed < 0 else simulated_secret(seed, self.home.name)

    def _seeds(self, seed: int) -> np.random.SeedSequence:
        """Of the estimators; in simulations derived from run seed and party name. Never from the data."""
        return np.random.SeedSequence() if seed < 0 else simulated_seeds(seed, self.home.name)


@lru_cache(maxsize=4)  # many simulated parties are asked the same
def parsed(rows: str, spec: str, voting_rule: str) -> tuple[Schema, TeacherKind, VotingRule]:
    """What a `TrainRequest` holds as JSON. Raises Refused (MALFORMED), naming fields and never their values."""
    try:
        return Schema.model_validate_json(rows), teacher_from_json(spec), voting_rule_from_json(voting_rule)
    except ValidationError as error:
        fields = sorted({str(item["loc"][0]) if item["loc"] else "json" for item in error.errors()})
        raise Refused(Rule.MALFORMED, detail=f"train request: {', '.join(fields)}") from None

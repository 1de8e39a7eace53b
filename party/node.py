"""A party's three answers, on plain objects: hello, train, vote. Flower is only at the edge (`client_app`)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from party import shards, spend, store
from party.data import load_rows
from party.home import Home
from party.inputs import query_inputs
from party.own_teacher import SklearnSpec
from party.policy import check_hello, check_shards, check_teachers, check_votes_mode
from party.secure_votes import SecureVotes, check_roster
from party.teachers import check_rows, train_all, vote
from party.units import check_promised_unit
from protocol.errors import DataError
from protocol.messages import (
    VOTE_DTYPE,
    HelloReply,
    HelloRequest,
    TeacherSpec,
    TrainReply,
    TrainRequest,
    VoteReply,
    VoteRequest,
)
from protocol.queries import QUERY_DTYPE, canonical_queries, query_set_hash
from protocol.refusals import Refused, Rule
from protocol.schema import Schema, canonical_digest


@dataclass(frozen=True)
class PartyNode:
    """One party. Everything it remembers is on its own disk, so a new process can go on at any message."""

    home: Home

    def hello(self, request: HelloRequest) -> HelloReply:
        """Name and number of teachers, if the policy lets the party serve; Refused otherwise."""
        check_hello(self.home.policy, request)
        check_promised_unit(request.promise, self.home.rules)
        spend.check_promise(self.spend_file, request.federation, request.promise, self.home.policy)
        if request.votes != "clear":
            check_roster(self.home, request.roster)
        terms = spend.FederationTerms(
            promise=request.promise, votes=request.votes, roster=request.roster, simulation=request.simulation
        )
        spend.remember_terms(self.spend_file, request.federation, terms)
        return HelloReply(party=self.home.name, teachers=request.teachers)

    def train(self, request: TrainRequest) -> TrainReply:
        """Train the teachers and keep them; a repeated request finds them there and trains nothing.

        Where the party's file, its mapping or its own kind of teacher have changed since, all are trained anew.

        Raises
        ------
        Refused : policy, data or schema do not allow it, the request is malformed, or the federation asked for other
            teachers before.
        """
        schema, asked = self._parse(request)
        spec = self.home.teacher or asked
        check_teachers(self.home.policy, request.teachers)
        if request.seed >= 0 and not self.home.policy.allow_simulation:
            raise Refused(Rule.SIMULATION)  # whoever chooses the seed knows shards and estimators' random choices
        if set(schema.classes) != set(self.home.policy.allowed_classes):
            raise Refused(Rule.CLASSES, limit=len(self.home.policy.allowed_classes), requested=len(schema.classes))
        check_rows(spec, schema)
        if (told := spend.told_terms(self.spend_file, request.federation)) is not None:
            check_promised_unit(told.promise, self.home.rules)  # party.toml may have changed since
        spend.remember_request(self.spend_file, request.federation, canonical_digest(request.model_dump()))
        folder = self.home.teachers(request.federation)
        made_from = self._made_from(schema, spec, request)
        if not self._trained(request.federation, made_from):
            rows = load_rows(self.home.data_file, schema, self.home.rules)
            parts = shards.split(rows.identities, request.teachers, self._secret(request.seed))
            check_shards(self.home.policy, min(len(part) for part in parts))
            seeds = [int(seed.generate_state(1)[0]) for seed in self._seed(request.seed).spawn(request.teachers)]
            teachers = train_all(rows.represented(schema, parts), spec, parts, seeds, len(schema.classes))
            folder.mkdir(mode=0o700, exist_ok=True)
            store.save(folder, request.federation, made_from, schema, teachers)
        return TrainReply(party=self.home.name, teachers=request.teachers)

    def vote(self, request: VoteRequest) -> VoteReply:
        """Votes of the party's teachers, counted against its own limit before they leave.

        Raises
        ------
        Refused : nothing trained, the limit on queries would be passed, or the request is malformed.
        """
        told = spend.told_terms(self.spend_file, request.federation)
        check_votes_mode(self.home.policy, "clear")
        if told is not None and told.votes != "clear":
            raise Refused(Rule.VOTES, detail=f"clear votes asked in a federation of {told.votes} ones")
        if request.queries.dtype != QUERY_DTYPE:
            raise Refused(Rule.MALFORMED)
        votes = self.charged_votes(request.queries, request.query_set, request.federation, request.promise)
        return VoteReply(party=self.home.name, query_set=request.query_set, votes=votes)

    def charged_votes(
        self, queries: np.ndarray, query_set: str, federation: str, promise: str, phase: int = 1
    ) -> np.ndarray:
        """Votes uint16 (queries, classes) on float32 (queries, features), after they were counted. Secret.

        Raises
        ------
        Refused : nothing trained, a limit would be passed, or the queries are not those of the hash `query_set`.
        """
        check_promised_unit(promise, self.home.rules)
        trained = store.load(self.home.teachers(federation), federation)
        schema = trained.schema
        try:
            queries = canonical_queries(queries, len(schema.features))
        except DataError:
            raise Refused(Rule.MALFORMED) from None
        if query_set_hash(queries) != query_set:
            raise Refused(Rule.MALFORMED)
        spend.charge(
            self.spend_file, trained.digest, federation, promise, query_set, len(queries), self.home.policy, phase
        )
        return vote(trained.teachers, query_inputs(schema, queries, query_set), len(schema.classes)).astype(VOTE_DTYPE)

    @property
    def secure(self) -> SecureVotes:
        """The stages of secure and distributed votes."""
        return SecureVotes(self.home, self.spend_file, self.charged_votes)

    @property
    def spend_file(self) -> Path:
        """Where the party keeps what it has given."""
        return self.home.state / "spend.db"

    def _trained(self, federation: str, made_from: str) -> bool:
        try:
            return store.load(self.home.teachers(federation), federation).made_from == made_from
        except Refused:
            return False

    def _made_from(self, schema: Schema, spec: TeacherSpec | SklearnSpec, request: TrainRequest) -> str:
        """Digest of all that decides what teachers come out, but the party's own random choices. Stays at the party."""
        try:
            with open(self.home.data_file, "rb") as file:
                data = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            data = ""  # loading it says what is wrong
        return canonical_digest(
            {
                "data": data,
                "rules": self.home.rules.model_dump(mode="json"),
                "schema": schema.model_dump(mode="json"),
                "spec": spec.model_dump(mode="json"),
                "teachers": request.teachers,
                "seed": request.seed,
            }
        )

    def _parse(self, request: TrainRequest) -> tuple[Schema, TeacherSpec]:
        try:
            return Schema.model_validate_json(request.rows_json), TeacherSpec.model_validate_json(request.spec_json)
        except ValidationError as error:
            fields = sorted({str(item["loc"][0]) if item["loc"] else "json" for item in error.errors()})
            raise Refused(Rule.MALFORMED, detail=f"train request: {', '.join(fields)}") from None

    def _secret(self, seed: int) -> bytes:
        """What decides over shards: the party's own secret, in simulations one derived from run seed and name."""
        return shards.own_secret(self.home.state) if seed < 0 else shards.simulated_secret(seed, self.home.name)

    def _seed(self, seed: int) -> np.random.SeedSequence:
        """Of the estimators; in simulations derived from run seed and party name. Never from the data."""
        if seed < 0:
            return np.random.SeedSequence()
        name = int(canonical_digest(json.dumps([self.home.name, "teacher"])), 16)
        return np.random.SeedSequence([seed, name]).spawn(2)[1]

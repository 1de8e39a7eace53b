"""A small federation with two aggregators, and the way of its messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from consilium.protocol.identity import Identity
from consilium.protocol.noise import NoiseSource
from consilium.sums.aggregators.half import AggregatorRule, VerifiedSum
from consilium.sums.aggregators.helper import Helper
from consilium.sums.aggregators.leader import Leader
from consilium.sums.aggregators.proof import Prover
from consilium.sums.aggregators.sealing import HelperKeys, Link, link_key
from consilium.sums.aggregators.terms import VerifiedTerms
from consilium.sums.aggregators.uploads import VoteClient
from consilium.sums.agreement import new_private, public_of
from consilium.sums.roster import AggregatorEntry, VerifiedRoster

FEDERATION = "f" * 64


def make_queries(count: int, seed: int = 0) -> np.ndarray:
    """float32 (count, 4), no two alike."""
    rows = np.random.default_rng(seed).normal(size=(count, 4)).astype(np.float32)
    rows[:, 0] = np.arange(count)
    return rows


def make_votes(seed: int, queries: int, classes: int, teachers: int) -> np.ndarray:
    """int64 (queries, classes), rows sum to `teachers`."""
    return np.random.default_rng(seed).multinomial(teachers, np.full(classes, 1 / classes), size=queries)


@dataclass
class VerifiedFederation:
    """Identities, roster, one session and everybody's votes."""

    n: int
    queries: int = 12
    classes: int = 3
    teachers: int = 1
    least_accepted: int = 2
    terms: dict = field(default_factory=dict)
    no_votes: bool = False
    _keys: dict[bytes, HelperKeys] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.names = [f"h{place}" for place in range(self.n)]
        self.identities = {name: Identity.generate() for name in self.names}
        self.leader_identity, self.helper_identity = Identity.generate(), Identity.generate()
        self.leader_key, self.helper_key = new_private(), new_private()
        self.leader_fresh, self.helper_seed = new_private(), new_private()
        self.roster = VerifiedRoster.build(
            {name: identity.public.hex() for name, identity in self.identities.items()},
            AggregatorEntry(ed25519_pk=self.leader_identity.public.hex(), x25519_pk=public_of(self.leader_key).hex()),
            AggregatorEntry(ed25519_pk=self.helper_identity.public.hex(), x25519_pk=public_of(self.helper_key).hex()),
            least_accepted=self.least_accepted,
        )
        self.session = self.new_session()
        self.votes = {
            name: make_votes(place, self.queries, self.classes, self.teachers)
            for place, name in enumerate([] if self.no_votes else self.names)
        }

    def new_session(self, seed: int = 0, **terms) -> VerifiedTerms:
        """Terms of a session of this roster, on queries of this seed."""
        rows = make_queries(self.queries, seed)
        return VerifiedTerms.create(
            self.roster,
            FEDERATION,
            rows,
            self.classes,
            self.teachers,
            leader_key=public_of(self.leader_fresh).hex(),
            **{**self.terms, **terms},
        )

    def keys(self, session: VerifiedTerms | None = None) -> HelperKeys:
        """The helper's of a session, as any helper of this federation gives them."""
        ctx = (session or self.session).ctx
        if ctx not in self._keys:
            self._keys[ctx] = HelperKeys.make(self.helper_seed, ctx, self.roster.n, self.helper_identity)
        return self._keys[ctx]

    def client(self, name: str, **more) -> VoteClient:
        session = more.pop("session", self.session)
        key = self.keys(session).place(self.roster.place(name))
        return VoteClient(session, self.roster, name, self.identities[name], more.pop("helper_key", key), **more)

    def uploads(self, names: Sequence[str] | None = None) -> dict[str, bytes]:
        """Honest uploads."""
        prover = Prover(self.session.grid)
        return {name: self.client(name, prover=prover).upload(self.votes[name]) for name in names or self.names}

    def leader(self, rules: Sequence[AggregatorRule] = (), noise: NoiseSource | None = None, **more) -> Leader:
        session = more.pop("session", self.session)
        fresh, keys = self.leader_fresh, self.keys(session)
        return Leader(session, self.roster, self.leader_key, fresh, keys, rules, noise, **more)

    def helper(self, rules: Sequence[AggregatorRule] = (), noise: NoiseSource | None = None, **more) -> Helper:
        session = more.pop("session", self.session)
        return Helper(session, self.roster, self.helper_key, rules, noise, lambda _: self.helper_seed, **more)

    def total(self, names: Sequence[str]) -> np.ndarray:
        """The clear sum of these parties' votes."""
        return np.sum([self.votes[name] for name in names], axis=0)


def leader_link(federation: VerifiedFederation) -> Link:
    """The leader's end of its line to the helper, for whoever has its keys and speaks for itself."""
    other, keys = bytes.fromhex(federation.roster.helper.x25519_pk), federation.keys()
    return Link(federation.leader_key, other, federation.leader_fresh, keys.link, federation.session.ctx)


def helper_link(federation: VerifiedFederation) -> Link:
    """The helper's end of it."""
    other, ctx = bytes.fromhex(federation.roster.leader.x25519_pk), federation.session.ctx
    fresh = link_key(federation.helper_seed, ctx), bytes.fromhex(federation.session.leader_key)
    return Link(federation.helper_key, other, *fresh, ctx)


def settle_all(leader: Leader, helper: Helper) -> None:
    """Until nothing waits."""
    while (batch := leader.batch()) is not None:
        leader.settle(helper.check(batch))


def collect(
    leader: Leader, helper: Helper, uploads: dict[str, bytes], after: Callable[[str], None] = lambda name: None
) -> VerifiedSum:
    """A whole session of these uploads."""
    for name, upload in uploads.items():
        leader.accept(name, upload)
        after(name)
        if leader.waiting >= 4:
            settle_all(leader, helper)
    settle_all(leader, helper)
    return leader.finish(helper.give(leader.ask()))

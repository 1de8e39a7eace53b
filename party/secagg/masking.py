"""Votes and noise under the masks: y = votes + noise share + PRG(b) + sum over peers of +-PRG(pair), in the ring
(Bonawitz et al. 2017, figure 4, round 2)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from consilium.protocol.parties.messages import VOTE_DTYPE
from consilium.protocol.parties.refusals import Refused, Rule
from consilium.protocol.secagg.masks import MaskAdder, pair_key, self_key
from consilium.protocol.secagg.ring import encode
from consilium.protocol.secagg.session import SessionDescriptor

VotesOn = Callable[[np.ndarray], np.ndarray]
"""Canonical queries, float32 (queries, features) -> votes, uint16 (queries, classes). Charges the party's budget."""

NoiseOf = Callable[[float, tuple[int, int]], np.ndarray]
"""Standard deviation and shape -> discrete Gaussian noise, int64, from the system's entropy."""


def no_noise(sigma: float, shape: tuple[int, int]) -> np.ndarray:
    """The noise of a party that has no sampler: it refuses sessions that need one."""
    raise Refused(Rule.POLICY, detail="this party was given no sampler, and the session asks for noise")


def checked_votes(votes: np.ndarray, terms: SessionDescriptor, weight: int = 1) -> np.ndarray:
    """The votes as int64 (queries, classes). weight : of this party in the roster.

    Raises
    ------
    Refused : they are not uint16 of the session's shape with `teachers` times `weight` in each row; the fault is the
        party's own.
    """
    if votes.dtype != VOTE_DTYPE or votes.shape != terms.shape:
        raise Refused(Rule.INTERNAL, detail=f"teachers gave {votes.dtype} {votes.shape}, not uint16 {terms.shape}")
    wide = votes.astype(np.int64)
    if (wide.sum(axis=1) != terms.teachers * weight).any():
        raise Refused(Rule.INTERNAL, detail="votes of a query do not sum to teachers times weight")
    return wide


def noise_share(noise: NoiseOf, terms: SessionDescriptor) -> np.ndarray:
    """This party's share of the noise, int64 (queries, classes). Raises Refused where the sampler gives another."""
    share = noise(terms.sigma_share, terms.shape)
    if share.dtype != np.int64 or share.shape != terms.shape:
        raise Refused(Rule.INTERNAL, detail=f"noise is {share.dtype} {share.shape}, not int64 {terms.shape}")
    return share


def mask(values: np.ndarray, terms: SessionDescriptor, party: int, b: bytes, secrets: dict[int, bytes]) -> np.ndarray:
    """y in the ring, uint16 or uint32 (queries, classes).

    Parameters
    ----------
    values : int64 (queries, classes), votes and noise.
    party : own place in the roster.
    b : secret of the own mask.
    secrets : X25519 secret by peer, for each of U2 but oneself.
    """
    ctx = terms.ctx()
    y = encode(values, terms.ring)
    adder = MaskAdder(terms.shape, terms.ring)
    adder.add(y, self_key(b, ctx, party))
    for peer, secret in secrets.items():
        adder.add_pair(y, pair_key(secret, ctx, party, peer), party, peer)
    return y

"""What the checks of secure sums are for: without one of them the attack succeeds. And keys that nobody deals to."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.sums import roster
from consilium.sums.errors import BadKey, StageOrder, UnsafeSession
from consilium.sums.secure import messages
from consilium.sums.secure.masks import Masks, decode
from consilium.sums.secure.messages import ConsistencyRequest, Stage, UnmaskRequest
from consilium.sums.secure.pairs import KEY_BYTES, list_key, unseal
from consilium.sums.secure.shamir import rebuild
from consilium.sums.terms import LIFETIME
from tests.sums.secure.network import Federation, Network, altered, run_until

VICTIM = 5
VIEWS = {(0, 1, 2): (0, 1, 2, 3, 4), (3, 4, 5): (0, 1, 2, 3, 4, 5)}
"""Whom the coordinator asks -> whom it says to be in the sum: to one half of the parties, the victim is lost."""


def test_where_half_of_the_parties_are_enough_two_views_open_a_vote(tmp_path: Path, monkeypatch) -> None:
    """2t > n + c is against it (`test_two_views_of_who_survived_are_unmasked_in_neither`). Here t is n / 2."""
    monkeypatch.setattr(roster, "least_rebuilders", lambda parties, colluders: parties // 2)
    federation = Federation(tmp_path, 6, least=3)
    network = Network(federation)
    session = run_until(federation, Stage.CONSISTENCY, network)
    state, terms, secrets = session.state, session.state.sum, []
    assert terms is not None
    for group, view in VIEWS.items():
        asked = {"sid": terms.sid_bytes, "round": 1, "survivors": np.array(view, dtype=np.uint16)}
        names = [federation.names[place] for place in group]
        signed = [federation.serve(name, ConsistencyRequest(**asked)).signature for name in names]
        unmask = UnmaskRequest(
            **asked,
            dropped=np.setdiff1d(np.arange(6), view).astype(np.uint16),
            signers=np.array(group, dtype=np.uint16),
            signatures=np.array([list(signature) for signature in signed], dtype=np.uint8),
        )
        shares = [federation.serve(name, unmask).shares[VICTIM] for name in names]
        secrets.append(rebuild(group, np.stack(shares)[:, None])[0].tobytes())
    k, b = secrets
    seeds = unseal(list_key(k, state.terms.ctx, VICTIM, 1), state.lists[VICTIM][0].tobytes(), session._view()[0])
    assert seeds is not None
    y = next(reply.y.copy() for stage, name, reply in network.seen if (stage, name) == (Stage.MASKED, "party-005"))
    masks = Masks(y, terms.ctx)
    masks.subtract(b)
    for peer in range(VICTIM):
        masks.add_pair(seeds[peer * KEY_BYTES :][:KEY_BYTES], peer, VICTIM)
    assert np.array_equal(decode(y, terms.ring(federation.roster)), federation.votes["party-005"])


@pytest.mark.parametrize("key", [bytes(32), (1).to_bytes(32, "little"), None], ids=["zero", "one", "another's"])
def test_a_party_deals_to_no_key_that_gives_a_known_secret_or_two_have(tmp_path: Path, key: bytes | None) -> None:
    """A coordinator that works with the key's owner shows it, signed."""
    federation = Federation(tmp_path, 7)
    session = run_until(federation, Stage.SHARE)
    request: Any = session.requests()["party-000"]
    adverts, signatures = request.adverts.copy(), request.signatures.copy()
    adverts[2, :KEY_BYTES] = adverts[3, :KEY_BYTES] if key is None else list(key)
    signer, ctx = federation.identities["party-002"], session.state.terms.ctx
    signatures[2] = list(messages.sign(signer, Stage.ADVERTISE, ctx, 2, adverts[2].tobytes()))
    with pytest.raises(BadKey):
        federation.serve("party-000", altered(request, adverts=adverts, signatures=signatures))


def test_a_query_stands_once_in_a_sum(tmp_path: Path) -> None:
    federation = Federation(tmp_path, 3)
    with pytest.raises(UnsafeSession, match="twice"):
        federation.sum_terms(federation.session(), np.concatenate([federation.queries, federation.queries[:1]]))


def test_after_its_lifetime_a_session_gives_nothing_and_is_erased(tmp_path: Path, monkeypatch) -> None:
    federation = Federation(tmp_path, 3)
    session = run_until(federation, Stage.MASKED)
    request, later = session.requests()["party-000"], time.time() + LIFETIME + 1
    monkeypatch.setattr("consilium.sums.secure.party.time.time", lambda: later)
    with pytest.raises(StageOrder, match="lifetime"):
        federation.serve("party-000", request)
    assert not federation.memory("party-000", session) and not federation.charged

"""What the checks of verified sums are for: without one of them the attack succeeds."""

from __future__ import annotations

import numpy as np

from consilium.protocol.identity import SealingKey
from consilium.sums.verified.field import PRIME, elements
from consilium.sums.verified.proof import seed_key
from consilium.sums.verified.uploads import Upload, make_upload
from tests.sums.verified.network import VerifiedFederation


def test_a_leader_whose_own_key_stands_for_the_helpers_reads_every_vote() -> None:
    """Parties seal for a key that the helper has signed (`sealing.check_key`), and for no other."""
    federation, mine = VerifiedFederation(3), SealingKey.generate()
    terms, votes = federation.terms, federation.votes[0]
    content = make_upload(terms, 0, federation.identities[0], mine.public, votes)
    upload = Upload.read(content, terms.grid)
    assert upload is not None
    seed = upload.part.opened(mine)
    assert isinstance(seed, bytes)
    (other,) = elements([seed_key(terms.ctx, 0, seed, "votes")], terms.grid.cells)
    assert np.array_equal((upload.share.astype(np.int64) + other).reshape(votes.shape) % PRIME, votes)

"""A tenth of the parties away and one that lies: every sum comes out, and the liar is named or changes labels alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.availability import LIES, SUMS, play

pytestmark = pytest.mark.slow
N = 10


@pytest.mark.parametrize("votes", ["distributed", "verified"])
def test_of_ten_parties_one_is_away_and_one_lies_in_every_way(tmp_path: Path, votes: str) -> None:
    """Whoever spoils its own part is left out of it: eight to ten are summed, where seven are enough."""
    found = play(tmp_path, votes, N, list(LIES[votes]))
    assert len(found.summed) == SUMS and not found.failed
    assert {len(parties) for parties in found.summed} <= {8, 9, 10}
    assert len(found.excluded) == (votes == "verified")

"""A tenth of the parties away and one that lies: every sum comes out, and the liar is named or changes nothing but
labels. The table of more parties is that of `benchmarks.availability`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.availability import LIES, NOBODY, SUMS, play

pytestmark = pytest.mark.slow
N = 10


@pytest.mark.parametrize("lie", LIES["distributed"])
def test_of_ten_parties_one_is_away_and_one_lies(tmp_path: Path, lie: str) -> None:
    """Noise in the sums: whoever spoils its own part is left out of it, nine or eight are summed, seven are enough."""
    found = play(tmp_path, "distributed", N, lie)
    assert len(found.summed) == SUMS and not found.failed and not found.excluded
    in_sum = 9 if lie in (NOBODY, "false votes", "false shares at the end") else 8
    assert {len(parties) for parties in found.summed} == {in_sum}

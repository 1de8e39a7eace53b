"""Two decisions about a masked session, at their borders: whom accusers are believed about, and when it is given up."""

from __future__ import annotations

import pytest

from consilium.coordinator.collection.secure import believed, can_be_unmasked
from consilium.sums.roster import least_rebuilders


@pytest.mark.parametrize("colluders", [0, 1, 3])
def test_colluders_and_one_more_are_not_believed(colluders: int) -> None:
    """One more than collude may be a liar among them and an honest party that was lied to."""
    names = [f"p{place:02d}" for place in range(9)]
    accusers = {"few": {*names[: colluders + 1]}, "enough": {*names[: colluders + 2]}, "all": {*names}}
    assert believed(accusers, colluders) == ["enough", "all"]


@pytest.mark.parametrize("parties", [4, 9, 20])
def test_a_session_is_kept_as_long_as_as_many_remember_it_as_rebuild_a_secret(parties: int) -> None:
    least = least_rebuilders(parties, 0)
    kept = [over for over in range(parties + 1) if can_be_unmasked(parties, over, least)]
    assert kept == list(range(parties - least + 1))

"""Every refusal has a cure."""

from __future__ import annotations

import pytest

from consilium.protocol.refusals import CURES, CURES_OF_SECOND, Rule


@pytest.mark.parametrize("rule", Rule)
def test_every_rule_has_cures_of_which_a_sentence_is_made(rule: Rule) -> None:
    for cures in (CURES, CURES_OF_SECOND):
        assert cures[rule] and not cures[rule].endswith(".")

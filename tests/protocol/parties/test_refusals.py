"""Every refusal has a cure, and none quotes what the party has."""

from __future__ import annotations

import pytest

from consilium.protocol.refusals import CURES, Refusal, Rule, cure_of


@pytest.mark.parametrize("rule", Rule)
def test_every_rule_has_a_cure_that_its_refusal_leads_to(rule: Rule) -> None:
    told = cure_of(f"refused: {Refusal(rule=rule, limit=3, requested=5, party='ward-b')}")
    assert told == CURES[rule]
    assert not told.endswith(".")  # a sentence is made of it


@pytest.mark.parametrize("reason", ["", "no answer within 9 s", "refused: because", "vote: refused", "storage"])
def test_of_other_reasons_nothing_is_made_up(reason: str) -> None:
    assert cure_of(reason) == ""


def test_a_stage_before_the_refusal_does_not_hide_it() -> None:
    assert (
        cure_of("secure sum: masked: refused: already-answered, requested 9, limit 4") == CURES[Rule.ALREADY_ANSWERED]
    )

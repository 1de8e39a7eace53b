"""Every refusal has a cure, and what a party wrote of one leads to it."""

from __future__ import annotations

import pytest

from consilium.party.store import LastAnswer
from consilium.protocol.refusals import CURES, CURES_OF_SECOND, Refusal, Rule


@pytest.mark.parametrize("rule", Rule)
def test_every_rule_has_cures_of_which_a_sentence_is_made(rule: Rule) -> None:
    for cures in (CURES, CURES_OF_SECOND):
        assert cures[rule] and not cures[rule].endswith(".")


@pytest.mark.parametrize("rule", Rule)
def test_the_rule_of_an_answer_that_was_written_down_is_found(rule: Rule) -> None:
    for refusal in (Refusal(rule=rule), Refusal(rule=rule, limit=3, requested=5, party="ward-b")):
        assert LastAnswer(moment="", refused=f"refused: {refusal}").rule is rule


@pytest.mark.parametrize("words", ["", "refused: because", "vote: refused", "refused: of-a-later-version, limit 3"])
def test_of_other_words_nothing_is_made_up(words: str) -> None:
    assert LastAnswer(moment="", refused=words).rule is None

"""Who is chosen for a sum: never too close to an earlier one, never too few, and as long as the rule leaves room."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consilium.coordinator.secagg.sets import Chooser, WeightedChooser
from consilium.protocol.secagg.errors import SetTooClose
from consilium.protocol.secagg.sets import allowed, by_weight, difference, nearest


@st.composite
def situations(draw):
    """n, u_min, least_difference, spare, and who answers in each of some sessions."""
    n = draw(st.integers(4, 30))
    u_min = draw(st.integers(2 * n // 3 + 1, n))
    least = draw(st.integers(2, 6))
    spare = draw(st.integers(0, 6))
    answers = draw(st.lists(st.sets(st.integers(0, n - 1), min_size=u_min, max_size=n), min_size=1, max_size=8))
    return n, u_min, least, spare, answers


@given(situations())
@settings(deadline=None, max_examples=300)
def test_whatever_is_chosen_keeps_the_rule(situation) -> None:
    n, u_min, least, spare, answers = situation
    earlier: list[frozenset[int]] = []
    for seed, answered in enumerate(answers):
        chooser = Chooser(n, u_min, least, tuple(earlier), spare, seed)
        try:
            chosen = chooser(answered)
        except SetTooClose as error:
            assert error.limit == least
            assert earlier, "the first sum is never refused"
            assert not any(answered >= old for old in earlier), "those of an earlier sum are there"
            assert spare or not allowed(answered, earlier, least)
            continue
        assert chosen <= answered and len(chosen) >= u_min
        assert allowed(chosen, earlier, least)
        assert chooser(sorted(answered)) == chosen, "the same again"
        earlier.append(chosen)
    for one, other in itertools.combinations(set(earlier), 2):
        assert (difference(one, other) or 0) >= least


@given(situations())
@settings(deadline=None)
def test_spare_parties_are_left_out_of_a_new_set(situation) -> None:
    n, u_min, least, spare, answers = situation
    chosen = Chooser(n, u_min, least, (), spare)(answers[0])
    assert len(chosen) == min(len(answers[0]), max(u_min, n - spare))


ALL = frozenset(range(10))


def test_all_who_answered_come_first() -> None:
    assert Chooser(10, 7, 2)(ALL) == ALL
    assert Chooser(10, 7, 2, (ALL,))(ALL) == ALL
    assert Chooser(10, 7, 2, (ALL - {0, 1},))(ALL - {2, 3}) == ALL - {2, 3}


def test_then_the_parties_of_an_earlier_sum() -> None:
    old = ALL - {0, 1}
    assert Chooser(10, 7, 2, (old,))(ALL) == old
    assert Chooser(10, 7, 2, (old,))(ALL - {0}) == old


def test_then_a_choice_that_leaves_more_out() -> None:
    chosen = Chooser(10, 7, 2, (ALL - {0, 1},))(ALL - {2})
    assert 2 not in chosen and {0, 1} <= chosen and len(chosen) == 8


def test_after_a_sum_over_all_any_absence_is_the_end() -> None:
    for away in ({3}, {3, 4}, {3, 4, 5}):
        with pytest.raises(SetTooClose):
            Chooser(10, 7, 2, (ALL,))(ALL - away)


def test_a_choice_never_goes_below_u_min() -> None:
    assert len(Chooser(10, 8, 2, (ALL - {0, 1},))(ALL - {2})) == 8
    with pytest.raises(SetTooClose):
        Chooser(10, 9, 2, (ALL - {0},))(ALL - {1})


def test_greedy_against_every_choice() -> None:
    """Eight parties, u_min 6: where any allowed set exists it is found, in all but a few of the situations."""
    n, u_min = 8, 6
    everybody = range(n)
    sets = [frozenset(s) for size in range(u_min, n + 1) for s in itertools.combinations(everybody, size)]
    pairs = [pair for pair in itertools.combinations(sets, 2) if allowed(pair[0], [pair[1]], 2)]
    missed = tried = 0
    for earlier in pairs:
        for answered in sets:
            exists = any(chosen <= answered and allowed(chosen, earlier, 2) for chosen in sets)
            try:
                Chooser(n, u_min, 2, earlier)(answered)
                assert exists
            except SetTooClose:
                missed += exists
            tried += exists
    assert tried > 1000 and missed == 0


ONES, TWOS = frozenset({0, 1, 2}), frozenset({3, 4, 5, 6})


@pytest.mark.parametrize(
    ("chosen", "earlier", "found"),
    [
        (ONES | TWOS, [], 3),  # as many as are of the rarer weight
        (TWOS, [], 4),
        (ONES | TWOS, [ONES | TWOS], 3),
        ({0} | TWOS, [], 1),  # an odd count is the vote of party 0
        ({0, 1, 3, 4}, [{0, 1, 5, 6}], 2),
        ({0, 1, 3, 4}, [{0, 2, 5, 6}], 1),  # of those of weight 1 one is exchanged, of those of weight 2 two
        (TWOS, [ONES | TWOS], 0),  # the difference is the sum of those of weight 1
    ],
)
def test_the_rule_holds_for_the_parties_of_each_weight(chosen, earlier, found) -> None:
    assert by_weight((1, 1, 1, 2, 2, 2, 2)) == (ONES, TWOS)
    assert nearest(chosen, earlier, (ONES, TWOS)) == found


def test_where_all_have_one_weight_the_rule_is_the_old_one() -> None:
    for chosen, earlier in (({1, 2, 3}, [{3, 4, 5}]), ({1}, []), ({1, 2}, [{1, 2}])):
        assert nearest(chosen, earlier, by_weight([2] * 6)) == nearest(chosen, earlier)


@given(situations(), st.integers(1, 3), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=300)
def test_whatever_is_chosen_of_parties_with_weights_keeps_the_rule(situation, kinds: int, random) -> None:
    n, u_min, least, spare, answers = situation
    weights = [random.randint(1, kinds) for _ in range(n)]
    groups = by_weight(weights)
    earlier: list[frozenset[int]] = []
    for seed, answered in enumerate(answers):
        try:
            chosen = WeightedChooser(weights, Chooser(n, u_min, least, tuple(earlier), spare, seed))(answered)
        except SetTooClose as error:
            assert error.limit == least
            continue
        assert chosen <= answered and len(chosen) >= u_min
        assert all(len(chosen & group) >= least for group in groups if chosen & group)
        found = nearest(chosen, earlier, groups)
        assert found is None or found >= least
        earlier.append(chosen)


def test_those_of_a_rare_weight_are_left_out_and_the_sum_goes_on() -> None:
    weights = [2] * 8 + [1]
    choose = WeightedChooser(weights, Chooser(9, 6, 2))
    assert choose(range(9)) == frozenset(range(8))
    with pytest.raises(SetTooClose):
        WeightedChooser([2] * 5 + [1] * 1, Chooser(6, 6, 2))(range(6))  # too few are left


@pytest.mark.parametrize("spare", [0, 4, 8, 12])
def test_parties_that_are_spared_leave_the_least_of_each_weight(spare: int) -> None:
    """Two of the three that count twice stay, however many may be spared: one alone would be the sum's only one."""
    chosen = WeightedChooser([1] * 9 + [2] * 3, Chooser(12, 4, 2, spare=spare))(range(12))
    assert len(chosen & {9, 10, 11}) == max(2, 3 - spare // 4)


def test_a_weight_that_was_left_out_once_stays_out() -> None:
    weights = [2] * 8 + [1] * 2
    first = WeightedChooser(weights, Chooser(10, 6, 2))({*range(9)})
    assert first == frozenset(range(8))
    assert WeightedChooser(weights, Chooser(10, 6, 2, [first]))(range(10)) == first  # else the difference is those two

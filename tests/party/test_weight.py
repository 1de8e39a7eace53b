"""A party's weight: the largest that its policy allows, kept from the first enrolment on, never a matter of data."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from consilium.coordinator.config import QueryBudget
from consilium.coordinator.mechanisms import Confident, NoisyHistogram
from consilium.coordinator.privacy import promised, promised_at
from consilium.node.limits import events_of
from consilium.party import sum_store
from consilium.party.expectation import own_share, party_warnings, told_share
from consilium.party.hidden_votes import QuerySet
from consilium.party.home import open_home
from consilium.party.node import PartyNode
from consilium.party.promise import epsilon, largest_weight, promise_of
from consilium.protocol.queries import canonical_queries
from consilium.protocol.refusals import Refusal, Refused, Rule
from consilium.report.disclosure import epsilon_text
from tests.federation import hello_of, make_config, make_home, make_rows, make_secure, vote_request
from tests.marks import third

MOST = 6
NOISE = NoisyHistogram(sigma=60.0)
"""Its cost has a closed form."""
CONFIG = make_config(mechanism=NOISE, most_weight=MOST)
QUERIES = canonical_queries(make_rows(8, 5)[0], 3)


def party(folder: Path, **policy) -> PartyNode:
    return PartyNode(open_home(make_home(folder, "p", **policy)))


def own(weight: int, config=CONFIG) -> float:
    """What the federation means for a party of this weight, as the coordinator computes it."""
    return promised_at(config, weight).epsilon


def refusal(action, request) -> Refusal:
    with pytest.raises(Refused) as caught:
        action(request)
    return caught.value.refusal


@pytest.mark.parametrize(
    ("weight", "slack", "lower"),
    third([(weight, *slack) for weight in range(1, MOST + 1) for slack in ((1.001, 0), (0.999, 1))], first=1),
)
def test_the_largest_weight_whose_own_epsilon_fits_is_taken(
    tmp_path: Path, weight: int, slack: float, lower: int
) -> None:
    member = party(tmp_path / "p", most_epsilon=own(weight) * slack)
    if weight == lower:  # not even weight 1 fits
        found = refusal(member.hello, hello_of(CONFIG))
        assert found.rule is Rule.MOST_EPSILON
        assert found.requested == round(own(1), 4)
        return
    assert member.hello(hello_of(CONFIG)).weight == weight - lower


def test_it_is_the_one_that_trying_all_of_them_finds(tmp_path: Path) -> None:
    promise = promise_of(CONFIG.terms())
    for limit in (own(1), own(1) * 1.5, own(4) * 1.01, own(MOST) * 3):
        policy = party(tmp_path / str(limit), most_epsilon=limit * 1.0001).home.policy
        fitting = [w for w in range(1, MOST + 1) if epsilon(promise.of_weight(w).events, policy) <= policy.most_epsilon]
        assert largest_weight(promise, policy) == max(fitting)


def test_a_party_of_a_weight_spends_what_a_federation_does_in_which_all_have_it() -> None:
    for weight in (1, 2, 5):
        alike = make_config(mechanism=NOISE, most_weight=weight)
        assert own(weight) == promised(alike).epsilon


def test_where_nobody_has_a_weight_a_party_has_none(tmp_path: Path) -> None:
    assert party(tmp_path / "p").hello(hello_of(make_config())).weight == 1


def test_weight_is_a_function_of_policy_and_terms_and_not_of_data(tmp_path: Path) -> None:
    limit = own(3) * 1.01
    weights = {
        party(tmp_path / str(rows), rows=rows, seed=rows, most_epsilon=limit).hello(hello_of(CONFIG)).weight
        for rows in (6, 40, 400)
    }
    assert weights == {3}


def test_every_vote_counts_as_often_as_the_weight_says(tmp_path: Path) -> None:
    """Under masks the party counts, in plaintext the coordinator."""
    votes, said = {}, {}
    asked, told = vote_request(CONFIG, QUERIES), CONFIG.terms()
    queries = QuerySet(asked.queries, asked.query_set, asked.places, asked.proof)
    for limit, weight in ((own(1), 1), (own(4), 4)):
        member = party(tmp_path / str(weight), most_epsilon=limit * 1.01)
        member.hello(hello_of(CONFIG))
        member.train(CONFIG.train_request())
        said[weight] = member.vote(asked).choices
        votes[weight] = member.charged_votes(queries, told)
    assert votes[1].sum(axis=1).tolist() == [1] * len(QUERIES)
    assert votes[4].tolist() == (4 * votes[1]).tolist()
    assert said[4].tolist() == said[1].tolist() == votes[1].argmax(axis=1)[:, None].tolist()


def with_limit(member: PartyNode, limit: float) -> PartyNode:
    policy = member.home.policy.model_copy(update={"most_epsilon": limit})
    return PartyNode(dataclasses.replace(member.home, own_policy=policy))


def test_the_weight_of_the_first_enrolment_stays(tmp_path: Path) -> None:
    """Otherwise the same question would get other votes, and two sums would differ by this party's alone."""
    member = party(tmp_path / "p", most_epsilon=own(2) * 1.01)
    assert member.hello(hello_of(CONFIG)).weight == 2
    assert with_limit(member, own(5)).hello(hello_of(CONFIG)).weight == 2
    assert refusal(with_limit(member, own(1) * 1.01).hello, hello_of(CONFIG)).rule is Rule.MOST_EPSILON


def test_earlier_federations_count_at_the_weight_that_the_party_has_in_them(tmp_path: Path) -> None:
    member = party(tmp_path / "p", most_epsilon=own(2) * 1.01)
    member.hello(hello_of(CONFIG))
    member.train(CONFIG.train_request())
    member.vote(vote_request(CONFIG, QUERIES))
    second = make_config(mechanism=NOISE, most_weight=MOST, name="second")
    first = promise_of(CONFIG.terms()).of_weight(2).events
    both = epsilon([*first, *promise_of(second.terms()).of_weight(3).events], member.home.policy)
    assert refusal(member.hello, hello_of(second)).rule is Rule.MOST_EPSILON
    assert with_limit(member, both * 1.001).hello(hello_of(second)).weight == 3


def test_the_weight_of_a_roster_is_the_one_and_must_fit(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sum_store, "check_exact", lambda *_: None)  # a weight of one's own is in no block
    homes = [make_home(tmp_path / name, name, most_epsilon=own(3) * 1.01, seed=at) for at, name in enumerate("pqr")]
    keys = make_secure(homes, tmp_path, weights={"p": 2, "q": 3, "r": 4})
    config = make_config(mechanism=NOISE, most_weight=MOST, collection="secure", roster=keys.roster.digest)
    p, q, r = (PartyNode(open_home(home)) for home in homes)
    assert (p.hello(hello_of(config)).weight, q.hello(hello_of(config)).weight) == (2, 3)
    assert refusal(r.hello, hello_of(config)).rule is Rule.MOST_EPSILON
    smaller = make_config(mechanism=NOISE, most_weight=2, collection="secure", roster=keys.roster.digest)
    assert refusal(q.hello, hello_of(smaller)) == Refusal(rule=Rule.PROMISE, limit=2, requested=3)


@pytest.mark.parametrize("weight", [0, 51, -3, 2.5])
def test_a_promise_for_no_weight_is_malformed(weight: float) -> None:
    text = CONFIG.promise().replace('"weight": 6', f'"weight": {weight}')
    assert text != CONFIG.promise()
    with pytest.raises(Refused) as caught:
        events_of(text)
    assert caught.value.refusal.rule is Rule.MALFORMED


def test_a_closing_for_a_smaller_weight_than_the_release_is_no_promise() -> None:
    sanitised = {"order": 2.5, "beta": 0.05, "sigma_ss": 6.0}
    privacy = {"unit": "party", "delta": 1e-5, "sanitised": sanitised}
    config = make_config(most_weight=3, privacy=privacy, mechanism=Confident(threshold=7, sigma1=12.0, sigma2=8.0))
    release, closing = json.loads(config.promise())
    del closing["weight"]
    told = config.terms().model_copy(update={"promise": json.dumps([release, closing])})
    with pytest.raises(Refused) as caught:
        promise_of(told)
    assert caught.value.refusal.rule is Rule.PROMISE


def test_a_partys_own_words_say_its_weight_and_epsilon(tmp_path: Path) -> None:
    home = party(tmp_path / "p", most_epsilon=own(2) * 1.01).home
    share = own_share(home, CONFIG.terms())
    assert share == (2, pytest.approx(own(2)))
    assert told_share(home, CONFIG.terms()) == (
        share,
        [
            "weight     2 of at most 6: each of your answers counts as 2 votes; your own epsilon is at most"
            f" {epsilon_text(share.epsilon)} at delta 1e-05 for a party"
        ],
    )
    assert told_share(home, make_config().terms()) == (None, [])
    tight = dataclasses.replace(home, own_policy=home.policy.model_copy(update={"most_epsilon": 0.01}))
    (line,) = told_share(tight, CONFIG.terms())[1]
    assert line.startswith("weight     none: this federation would be refused: most-epsilon")


def test_warnings_are_of_the_partys_own_weight(tmp_path: Path) -> None:
    config = make_config(mechanism=NOISE, most_weight=MOST, query_budget=QueryBudget(queries=400, answers=400))
    policy = party(tmp_path / "p").home.policy
    codes = {weight: {each.code for each in party_warnings(config.terms(), policy, weight)} for weight in (1, MOST)}
    assert codes[1] < codes[MOST]


def test_records_from_before_there_were_weights_read_as_weight_one(tmp_path: Path) -> None:
    config = make_config()
    member = party(tmp_path / "p")
    member.hello(hello_of(config))
    with closing(sqlite3.connect(member.home.spend_file)) as connection:
        connection.execute("DROP TABLE weights")
    assert member.spend.weight(config.digest()) == 1
    member.train(config.train_request())
    assert member.vote(vote_request(config, QUERIES)).choices.shape == (len(QUERIES), 1)

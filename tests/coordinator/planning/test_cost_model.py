"""The model of cost: every constant has its term, it grows as the theory says, and every caution fires and does not."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from consilium.coordinator.planning.cost.cautions import cautions_of
from consilium.coordinator.planning.cost.constants import MEASURED, MEMORY, SECONDS
from consilium.coordinator.planning.cost.load import COSTED_MODES, CostedMode, Load
from consilium.coordinator.planning.cost.model import all_costs, costs
from consilium.coordinator.planning.cost.terms import MEMORY_TERMS, SECONDS_TERMS, NodeKind

USUAL = Load(200, 1000, 10)


@pytest.mark.parametrize(("constants", "terms"), [(SECONDS, SECONDS_TERMS), (MEMORY, MEMORY_TERMS)])
def test_each_constant_has_its_term_and_none_is_negative(constants: dict, terms: dict) -> None:
    assert constants.keys() == terms.keys()
    for key, row in constants.items():
        assert len(row) == len(terms[key])
        assert min(row) >= 0
        assert sum(row) > 0
    assert set(MEASURED) == set(COSTED_MODES)


@pytest.mark.parametrize("mode", COSTED_MODES)
@pytest.mark.parametrize("more", [{"parties": 400}, {"queries": 2000}, {"classes": 20}, {"teachers": 3}])
def test_more_of_anything_is_never_cheaper(mode: CostedMode, more: dict) -> None:
    one, other = costs(mode, USUAL), costs(mode, replace(USUAL, **more))
    for kind, node in one.nodes.items():
        assert node.seconds <= other.nodes[kind].seconds
        assert node.memory <= other.nodes[kind].memory


@pytest.mark.parametrize(("mode", "power"), [("clear", 1), ("verified", 1), ("secure", 2), ("distributed", 2)])
def test_work_of_the_coordinator_grows_with_this_power_of_the_parties(mode: CostedMode, power: int) -> None:
    few, many = (costs(mode, Load(n, 1000, 10)).nodes[NodeKind.COORDINATOR] for n in (10_000, 40_000))
    assert math.log(many.seconds / few.seconds, 4) == pytest.approx(power, abs=0.1)
    assert math.log(many.down / few.down, 4) == pytest.approx(1 if power == 1 else 2, abs=0.3)


def test_only_verified_votes_have_a_second_aggregator_and_its_bytes_are_on_both_sides() -> None:
    found = all_costs(USUAL)
    assert [mode for mode in COSTED_MODES if NodeKind.SECOND in found[mode].nodes] == ["verified"]
    nodes = found["verified"].nodes
    party, coordinator, second = nodes[NodeKind.PARTY], nodes[NodeKind.COORDINATOR], nodes[NodeKind.SECOND]
    assert coordinator.up == 200 * party.down + second.down
    assert coordinator.down == 200 * party.up + second.up


def test_noise_of_the_parties_is_no_matter_of_other_modes() -> None:
    with_noise = replace(USUAL, sigma=5000.0)
    assert costs("secure", with_noise) == costs("secure", USUAL)
    assert costs("distributed", with_noise) != costs("distributed", USUAL)


def test_what_is_beyond_the_measured_is_said() -> None:
    for mode, (parties, votes, cells) in MEASURED.items():
        within = Load(parties, votes, cells // votes)
        assert costs(mode, within).measured
        for more in ({"parties": parties + 1}, {"queries": votes + 1}, {"classes": within.classes + 1}):
            assert costs(mode, replace(within, **more)).to_json()["extrapolated"] is True


@pytest.mark.parametrize(
    ("mode", "load", "reached", "said"),
    [
        ("secure", Load(300, 10, 2), None, ""),
        ("secure", Load(301, 10, 2), True, "above 300"),
        ("distributed", Load(301, 10, 2, sigma=50.0), True, "above 300"),
        ("secure", Load(1001, 10, 2), False, "above 1000"),
        ("clear", Load(100_000, 10, 2), None, ""),
        ("verified", Load(32_760, 10, 2), None, ""),
        ("verified", Load(32_761, 10, 2), False, "above 32760"),
        ("verified", Load(30_000, 10, 2, teachers=3), False, "half of the field"),
        ("verified", Load(3, 2**24, 2), None, ""),
        ("verified", Load(3, 2**24 + 1, 2), False, "elements"),
        ("secure", Load(3, 200_000, 1001, 1), False, "counts are above"),
        ("clear", Load(3, 200_000, 2, 1001), False, "numbers of the queries"),
        ("clear", Load(3, 3000, 2, 1, 70_000), False, "votes of a party"),
    ],
)
def test_cautions(mode: CostedMode, load: Load, reached: bool | None, said: str) -> None:
    found = cautions_of(mode, load, all_costs(load))
    if reached is None:
        assert not found
        return
    assert any(caution.reached is reached and said in caution.text for caution in found)
    assert all(caution.mode == mode for caution in found)


def test_a_message_above_the_limit_of_grpc_is_told() -> None:
    one, other = Load(3, 2**20, 2, 190), Load(3, 2**29, 2, 1)
    assert not cautions_of("clear", one, all_costs(one))
    assert any("gRPC" in each.text for each in cautions_of("clear", other, all_costs(other)))

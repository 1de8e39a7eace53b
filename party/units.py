"""Whether a party can keep a promise about the unit that it names."""

from __future__ import annotations

from consilium.accounting.units import Unit
from consilium.party.data.rules import DataRules
from consilium.party.promise import promise_of
from consilium.protocol.parties.messages import Terms
from consilium.protocol.parties.refusals import Refused, Rule


def check_unit(unit: Unit, rules: DataRules) -> None:
    """Raise Refused (UNIT) for a promise to patients by a party that does not know which rows are of one patient.

    Its rows would be divided one by one, so that a patient with several rows could be in all shards and move all votes.
    """
    if unit is Unit.PATIENT and not rules.patient.known:
        what = "the federation promises for patients, and party.toml does not say which rows are of one"
        action = "name the column under [patient], or set rows_are_patients = true there if no patient has two rows"
        raise Refused(Rule.UNIT, detail=f"{what}: {action}")


def check_promised_unit(terms: Terms, rules: DataRules) -> None:
    """The same for the promise of these terms. Raises Refused as `party.promise.parse_promise`, too."""
    for event in promise_of(terms).events:
        check_unit(event.unit, rules)

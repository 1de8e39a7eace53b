"""What the coordinator's team can do about a party that is left out, by the rule that the party named.

The texts of `reason` in the event log are the coordinator's own; a refusal begins with `refused: RULE`.
"""

from __future__ import annotations

from consilium.protocol.parties.refusals import Rule

_OLD_KIT = (
    "The kits differ: have both sides run `consilium doctor .`, and unpack the newest update where it is missing."
)
_POLICY = "Its own policy says no. Agree with its team on its party.toml, or provision a federation that fits it."
_DATA = "Its own rows do not fit. Its team runs `consilium party check . federation.json`, which shows every problem."
_LOG = "The reason is in that party's state/logs/supernode.log, and only there: ask its team."
_SECURE = "A secure sum went wrong there. The next one starts anew; if it comes again, compare kits and versions."
_SUMS = "That sum could tell too much about a party, so it was refused. Wait until the parties that were away are back."
_ASKED = "Those rows cannot be asked again in this federation. Ask other rows of the pool; what was answered is kept."

CURES: dict[Rule, str] = {
    Rule.CLASSES: _POLICY,
    Rule.LEAST_ROWS: _DATA,
    Rule.MOST_QUERIES: _POLICY,
    Rule.MOST_EPSILON: _POLICY,
    Rule.PROMISE: _OLD_KIT,
    Rule.MOST_TEACHERS: _POLICY,
    Rule.SIMULATION: _POLICY,
    Rule.VOTES: _POLICY,
    Rule.UNIT: _POLICY,
    Rule.LEAST_PARTIES: _POLICY,
    Rule.VERSION: "Install the same version of Consilium on both machines.",
    Rule.SCHEMA: _DATA,
    Rule.TERMS: _OLD_KIT,
    Rule.POOL: "Ask only rows of the pool that was fixed when the federation was provisioned: pool.npz of the kit.",
    Rule.NEAR_QUERY: _ASKED,
    Rule.LEDGER: "This ledger is not the one that the party knows, or an old backup of it. Restore the newest one.",
    Rule.NOT_TRAINED: "Restart the coordinator: the party trains again at the next enrolment.",
    Rule.MALFORMED: _OLD_KIT,
    Rule.DATA: _DATA,
    Rule.POLICY: _LOG,
    Rule.STORAGE: "Its disk is full or cannot be written. Its team makes room; nothing has to be restarted.",
    Rule.INTERNAL: _LOG,
    Rule.ROSTER_MISMATCH: _OLD_KIT,
    Rule.UNSAFE_SESSION: _POLICY,
    Rule.OVERFLOW_RISK: _OLD_KIT,
    Rule.BAD_SIGNATURE: _SECURE,
    Rule.BAD_KEY: _SECURE,
    Rule.INCONSISTENT_VIEW: _SECURE,
    Rule.REPLAY: _ASKED,
    Rule.ALREADY_ANSWERED: _ASKED,
    Rule.SET_TOO_CLOSE: _SUMS,
    Rule.LEAST_DIFFERENCE: _POLICY,
    Rule.STAGE_ORDER: _SECURE,
    Rule.THRESHOLD: "Too few parties were left in a secure sum. See which are away, and ask again when they are back.",
}
"""By rule; every rule has one."""

NO_ANSWER = "It did not answer in time. Its team looks at `consilium doctor .` and whether the node runs."
UNKNOWN = "Run `consilium doctor .` at both ends; the event log of the run has what the coordinator saw."


def cure_of(reason: str) -> str:
    """For a `reason` of the event log.

    >>> cure_of("refused: protocol-version, requested 3, limit 2")
    'Install the same version of Consilium on both machines.'
    """
    if reason.startswith("refused: "):
        rule = reason.removeprefix("refused: ").partition(",")[0]
        return CURES[Rule(rule)] if rule in set(Rule) else UNKNOWN
    return NO_ANSWER if reason.startswith(("no answer", "node ")) else UNKNOWN

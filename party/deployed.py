"""A party on a machine of its own: what is particular to it among nodes, see `node.members`."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import tomli_w

from consilium.node.checks import Check
from consilium.node.folder import NodeFolder
from consilium.node.home import disclosed, refused_is_wrong, towards_whom
from consilium.node.kinds import NodeOutcome
from consilium.node.members import MemberKind
from consilium.party.home import SETTINGS, STORE, PartyHome, open_home
from consilium.party.policy import promise_of
from consilium.party.store import Store
from consilium.protocol.databases import LOOK_SECONDS
from consilium.protocol.errors import ConfigError, ConsiliumError, DataError, PathError
from consilium.protocol.files import replace_text
from consilium.report.disclosure import in_plain_words

NEW_SETTINGS = """# Where this party's rows are, and how they are read. See docs/deploy.md for what else can stand here:
# [columns] where a name differs from the federation's, [label], [missing], [csv], [patient], [teacher].
"""


class Party(MemberKind):
    """See `MemberKind`."""

    name = "party"
    app = "consilium.party.client_app"
    memory = STORE

    def open_home(self, folder: NodeFolder) -> PartyHome:
        return open_home(folder)

    def joined(self, folder: NodeFolder) -> NodeOutcome:
        """What is wrong with the rows, all at once; mended in party.toml, and the same folder joined again."""
        from consilium.party.check import check  # half a second, which no start and no status needs

        try:
            home = open_home(folder)
            found = check(home)
        except ConsiliumError as error:
            return NodeOutcome({}, (), DataError(error.what, error.action))
        if found.error is not None:
            again = DataError(found.error.what, f"Correct {folder / SETTINGS}, and join again")
            return NodeOutcome(found.values, found.lines, again)
        fit = f"The data fit federation {home.federation.config.name!r}. Next: consilium node start {folder.path}"
        return NodeOutcome(found.values, [*found.lines, fit])

    def further_checks(self, folder: NodeFolder, running: bool) -> list[Check]:
        def data() -> str:
            from consilium.party.check import check

            found = check(home := open_home(folder))
            if found.error is not None:
                raise DataError(found.error.what, f"Run: consilium party rows {folder.path}")
            return (
                f"{home.data_file.name}: {found.values['data']['used']} rows fit the federation's columns and classes"
            )

        return [("data", data), *super().further_checks(folder, running)]

    def allowed(self, home: PartyHome) -> str:
        roster = home.federation.sum_roster()
        if roster is not None and home.name not in roster.places:
            raise ConfigError(
                "this federation's roster does not list this party, which joined later",
                "Join the folder of the next one, when the operator sends it",
            )
        refused_is_wrong(lambda: home.settings().check_terms(home.terms), "its own policy")
        terms, policy = home.terms, home.policy
        with closing(home.store(LOOK_SECONDS)) as store:  # which keeps it, for the messages that come
            epsilon = _epsilon(home, store)
        closes = promise_of(terms).closing is not None
        words = in_plain_words(epsilon, policy.delta, policy.unit.value, policy.neighbouring.value, closes)
        kind, whom = disclosed(terms).release, towards_whom(terms, policy, epsilon)
        return f"Released for each query is at most {kind.leaves}. {kind.stays} {words} Towards whom: {whom}."

    def given(self, home: PartyHome) -> tuple[int, float]:
        with closing(home.remembered()) as store:
            return store.answered(), _epsilon(home, store)


PARTY = Party()


def name_data(folder: NodeFolder, data: Path) -> None:
    """Write into party.toml where the rows are; what else stands there stays. Raises PathError: no such file."""
    if not data.exists():
        raise PathError(f"{data} is not there", "Correct --data")
    place, path = data.resolve(), folder / SETTINGS
    inside = place.is_relative_to(folder.path)  # then it stays right where the folder moves
    line = tomli_w.dumps({"data": str(place.relative_to(folder.path) if inside else place)})
    text = path.read_text(encoding="utf-8") if path.exists() else NEW_SETTINGS
    top = re.split(r"(?m)^(?=\s*\[)", text, maxsplit=1)[0]  # a key below a table's head would be that table's
    others = re.sub(r"(?m)^\s*data\s*=.*\n?", "", top).rstrip()
    replace_text(path, f"{others}\n{line}{text[len(top) :]}")


def _epsilon(home: PartyHome, store: Store) -> float:
    """Of this federation alone, by this party's own unit. Raises ConfigError: its policy does not allow it."""
    return refused_is_wrong(lambda: store.epsilon(home.terms, home.policy), "its own policy")

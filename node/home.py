"""The opened site folder of a party or second aggregator: what the federation that it joined asks, compared with what
the node's own people allow.

What they allow stands in `policy.toml`, which no signed folder brings: a flat table of limits, all of them optional.
What is asked beyond a line is refused. A missing line is asked for at the next start, and written after a yes with the
value that is asked; terms that ask for no more are then served without a question."""

from __future__ import annotations

import math
import sys
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from operator import gt, lt
from typing import Any, ClassVar, TypeVar

import tomli_w

from consilium.accounting.events import ReleaseEvent
from consilium.node.folder import POLICY_FILE, NodeFolder
from consilium.node.keys import IDENTITY, grouped
from consilium.node.limits import NodePolicy, epsilon, events_of
from consilium.node.signed import FederationFile
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError, NotAccepted
from consilium.protocol.files import replace_private
from consilium.protocol.identity import Identity
from consilium.protocol.messages import CollectionMode, Terms
from consilium.protocol.models import Frozen
from consilium.protocol.output import plain
from consilium.protocol.refusals import CURES, Refused, Rule
from consilium.protocol.releases import AT_MOST
from consilium.report.disclosure import Bound, Disclosure, ReleaseKind, epsilon_text, in_plain_words
from consilium.sums.modes import MODES

Result = TypeVar("Result")
YES = "yes"
COUNTED_BY = ("unit", "neighbouring", "delta")
"""Lines by which a node counts its epsilon, whatever the federation counts by: nothing that is asked is beyond them."""
MOST_SHOWN, WIDTH = 48, 118
"""Characters of a list in the table, and of a line."""


def _others(value: Any, than: Any) -> bool:
    """Whether some of these names are none of the others."""
    return not set(value) <= set(than)


def _in_order(order: Sequence[str], value: Any, than: Any) -> bool:
    return order.index(value) > order.index(than)


def is_other_collection(collection: CollectionMode, than: CollectionMode) -> bool:
    """Whether a policy that names `than` forbids this collection: one that names hidden sums allows those alone."""
    return than in MODES and collection != than


@dataclass(frozen=True)
class Limit:
    """A key of a policy. looser(value, than): whether the value allows more than `than`, or something else."""

    title: str
    looser: Callable[[Any, Any], bool]


LIMITS: Mapping[str, Limit] = {
    "collection": Limit("how votes are collected", is_other_collection),
    "unit": Limit("whom the guarantee protects", partial(_in_order, ("party", "patient", "record"))),
    "neighbouring": Limit("what may happen to it", partial(_in_order, ("replace", "add_or_remove"))),
    "delta": Limit("delta", gt),
    "most_epsilon": Limit("epsilon, over all federations", gt),
    "most_queries": Limit("questions answered ever", gt),
    "most_teachers": Limit("teachers, each with a vote", gt),
    "least_parties": Limit("honest parties in each sum", lt),
    "allow_simulation": Limit("noise from a seed, which protects nothing", gt),
    "allowed_classes": Limit("classes that are voted on", _others),
    "allowed_columns": Limit("columns of the rows that are read", _others),
}
"""By key of a policy, in the order in which people read them; a second aggregator has some of them."""


@dataclass(frozen=True)
class Home(ABC):
    """lines: those of policy.toml, as in JSON. model: the class of such a policy."""

    folder: NodeFolder
    federation: FederationFile
    lines: Mapping[str, Any]

    model: ClassVar[type[NodePolicy]]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def terms(self) -> Terms:
        return self.federation.terms

    def identity(self) -> Identity:
        """The node's signing key. Raises ConfigError, PathError."""
        return Identity.load(self.folder.keys / IDENTITY)

    @property
    @abstractmethod
    def release(self) -> ReleaseEvent:
        """The release that is promised."""

    def asked(self) -> dict[str, Any]:
        """What these terms ask, by key of the policy; None for queries and epsilon, which `request` adds up."""
        release, roster = self.release, self.federation.sum_roster()
        asked = {
            "unit": release.unit.value,
            "neighbouring": release.neighbouring.value,
            "delta": self.federation.config.privacy.delta,
            "most_epsilon": None,
            "most_queries": None,
            **({"least_parties": roster.sure} if roster else {}),
            **({"allow_simulation": True} if self.terms.simulation else {}),
            **self.further_asked(),
        }
        return {key: asked[key] for key in LIMITS if key in asked}

    def further_asked(self) -> dict[str, Any]:
        return {}

    @abstractmethod
    def past(self) -> tuple[tuple[str, ...], int]:
        """What this node was charged in other federations: their promises, and queries answered in them. Raises
        ConfigError, LedgerError: its state cannot be read."""

    def facts(self) -> dict[str, str]:
        """What the node's people should know besides, in words, by title."""
        return {}

    @cached_property
    def policy(self) -> Any:
        """What the node enforces, of `model`. Raises NotAccepted: more is asked, or nobody has said yes yet."""
        self.check_beyond(asked := self.asked())
        if missing := [key for key in asked if key not in self.lines]:
            raise NotAccepted(
                f"not accepted yet: {POLICY_FILE} has no line for {', '.join(missing)}",
                f"Run: consilium node start {self.folder.path}, which shows what is asked",
            )
        return self.model.model_validate(self.lines)

    @property
    def presumed(self) -> Any:
        """The policy that there would be if its people allowed what is asked of missing lines."""
        asked = {key: value for key, value in self.asked().items() if value is not None}
        return self.model.model_validate({**asked, **self.lines})

    def check_beyond(self, asked: Mapping[str, Any]) -> None:
        """Raise NotAccepted where something is asked beyond a line. asked: None for what is compared elsewhere:
        queries and epsilon, when they are charged."""
        beyond = {
            key: f"{key}: {shown(value)} is asked, {POLICY_FILE} allows {shown(limit)}"
            for key, value in asked.items()
            if None not in (value, limit := self.lines.get(key))
            and key not in COUNTED_BY
            and LIMITS[key].looser(value, limit)
        }
        if beyond:
            change = f"change {', '.join(beyond)} in {self.folder.policy_file}"
            raise NotAccepted("; ".join(beyond.values()), f"Do not take part; or {change} if you agree to that much")

    def request(self) -> Request:
        """All that these terms ask. Raises LedgerError: the node's state cannot be read."""
        counted, terms, release, privacy = self.presumed, self.terms, self.release, self.federation.config.privacy
        (promises, queries), roster = self.past(), self.federation.sum_roster()
        stated = {"unit": release.unit, "neighbouring": release.neighbouring, "delta": privacy.delta}
        theirs = counted.model_copy(update=stated)
        nodes, student = (epsilon((promise,), theirs) for promise in (terms.promise, terms.student or terms.promise))
        by = f"at delta {privacy.delta:g} for a {privacy.unit}"
        epsilons = {Bound.STUDENT: student, Bound.NODES: nodes, Bound.LARGER: max(student, nodes)}
        at_most = {bound: f"epsilon at most {epsilon_text(value)} {by}" for bound, value in epsilons.items()}
        at_most[Bound.TRUSTED] = "none: it learns every vote"
        audiences = Disclosure(ReleaseKind.COUNTS, terms.collection).audiences()
        towards = {f"towards {seer.who}": at_most[seer.bound] for seer in audiences}
        words = in_plain_words(student, privacy.delta, privacy.unit, release.neighbouring.value)
        towards["towards the student"] += f". {words}"
        earlier, together = epsilon(promises, counted), epsilon((*promises, terms.promise), counted)
        by = f"at delta {counted.delta:g} for a {counted.unit}"
        so_far = f"{len(promises)}; {queries} questions answered, epsilon at most {epsilon_text(earlier)} {by}"
        about = {
            **towards,
            "earlier federations": so_far if promises else "none",
            "with this one": f"epsilon at most {epsilon_text(together)} {by}",
            **self.facts(),
            **({"roster": f"{grouped(roster.digest)}, {roster.n} parties"} if roster else {}),
        }
        enough = math.ceil(together * 100) / 100 if math.isfinite(together) else math.inf  # to two digits
        counts = {"most_epsilon": enough, "most_queries": queries + release.queries_in(1)}
        return Request(self, {**self.asked(), **counts}, about)


@dataclass(frozen=True)
class Request:
    """What a federation asks of a node. asked: by key of the policy, as in JSON. about: guarantees, by towards whom,
    and facts, in words."""

    home: Home
    asked: Mapping[str, Any]
    about: Mapping[str, str]

    @property
    def new(self) -> dict[str, Any]:
        return {key: value for key, value in self.asked.items() if key not in self.home.lines}

    def allow(self, tell: Callable[[str], object]) -> bool:
        """Where lines are missing, ask a person to type a yes, and write them with the values that are asked. Returns
        whether any were missing. Raises NotAccepted, with nothing written: something is asked beyond a line, or the
        answer is no yes."""
        self.home.check_beyond(self.asked)
        if not self.new:
            return False
        for line in self.screen():
            tell(line)
        print(f"Type {YES} to allow this: ", end="", flush=True)
        path, terms = self.home.folder.policy_file, self.home.terms
        if sys.stdin.readline().strip() != YES:
            tell("")
            raise NotAccepted(
                f"not accepted: only the word {YES} is a yes; nothing was written",
                f"Do not take part; or run this again, or write your own limits into {path}",
            )
        name, digest = self.home.federation.config.name, terms.digest()[:12]
        head = f"# Allowed on {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, for {name!r}, terms {digest}"
        written = path.read_text(encoding="utf-8") if path.exists() else ""
        replace_private(path, f"{written.rstrip()}\n\n{head}\n{tomli_w.dumps(self.new)}".lstrip())
        return True

    def screen(self) -> list[str]:
        home, fields = self.home, self.home.model.model_fields
        federation = f"{home.name}, federation {home.federation.config.name!r} ({home.terms.federation[:12]})"
        about = {home.folder.kind: federation, **self.about}
        wide = max(map(len, about))
        lines = [line for head, words in about.items() for line in _wrapped(f"{head:{wide}}  ", words)]
        rows = [["line", "in words", "asked", "default", "your line"]]
        for key, value in self.asked.items():
            limit, default, own = LIMITS[key], fields[key].get_default(), home.lines.get(key)
            rows.append([key, limit.title, *map(shown, (value, default, own))])
            if own is None and default not in (None, ()) and limit.looser(value, default):
                rows[-1][-1] = "NOT WITHIN THE DEFAULT"
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        yes = f"A yes writes into {POLICY_FILE}, as they are asked: {', '.join(self.new)}."
        return [plain(line).replace("\n", "?") for line in (*lines, "", *table, "", *_wrapped("", yes))]


def read_lines(folder: NodeFolder, model: type[Frozen]) -> dict[str, Any]:
    """The lines of policy.toml, as in JSON; none where there is no such file. Raises ConfigError, PathError."""
    path = folder.policy_file
    return load(path, model).model_dump(mode="json", exclude_unset=True) if path.exists() else {}


def _wrapped(head: str, words: str) -> list[str]:
    return textwrap.wrap(words, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))


def shown(value: Any) -> str:
    """A value as the table on the screen shows it.

    >>> shown(None), shown(True), shown(4.04), shown(["well", "ill"]), shown(float("inf"))
    ('-', 'yes', '4.04', 'well, ill', 'no limit')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "no limit" if math.isinf(value) else f"{value:g}"
    if isinstance(value, list | tuple):
        text = ", ".join(map(str, value))
        return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 12].rpartition(', ')[0]}, ... ({len(value)})"
    return str(value)


def disclosed(terms: Terms) -> Disclosure:
    """What these terms disclose, and to whom: what the student gets, else what the node is charged for."""
    release = events_of(terms.student or terms.promise)[0]
    return Disclosure(AT_MOST[release.mechanism.name], terms.collection)


def towards_whom(terms: Terms, policy: NodePolicy, charged: float) -> str:
    """Each epsilon of a node, by its own unit and delta, and towards whom it holds. charged: for this federation."""
    to_student = epsilon((terms.student,), policy) if terms.student else charged  # one epsilon to all
    nodes = disclosed(terms).towards_nodes(charged)
    return f"epsilon at most {epsilon_text(to_student)} towards the student and the public; {nodes}"


def refused_is_wrong(
    allows: Callable[[], Result], what: str, action: str = "", cures: Mapping[Rule, str] = CURES
) -> Result:
    """The result of `allows`. Raises ConfigError for what the node would refuse, with the cure of that rule. cures:
    those of this kind of node."""
    try:
        return allows()
    except Refused as error:
        cure = cures[error.refusal.rule]
        raise ConfigError(f"{what}: {error}", f"{cure}. {action}" if action else cure) from None

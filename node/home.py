"""A party's or second aggregator's folder as it is opened: the federation that it joined, and what it allows of it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from consilium.accounting.events import ReleaseEvent
from consilium.node.folder import NodeFolder
from consilium.node.keys import IDENTITY, grouped
from consilium.node.limits import NodePolicy, epsilon, events_of
from consilium.node.policy import LIMITS, Limit, Request, check
from consilium.node.signed import FederationFile
from consilium.protocol.errors import ConfigError
from consilium.protocol.identity import Identity
from consilium.protocol.messages import Terms
from consilium.protocol.refusals import CURES, Refused, Rule
from consilium.protocol.releases import AT_MOST, widest
from consilium.report.disclosure import Bound, Disclosure, ReleaseKind, epsilon_text, in_plain_words

Result = TypeVar("Result")


@dataclass(frozen=True)
class Home(ABC):
    """lines: of policy.toml, see `node.policy`."""

    folder: NodeFolder
    federation: FederationFile
    lines: Mapping[str, Any]

    model: ClassVar[type[NodePolicy]]
    limits: ClassVar[Mapping[str, Limit]] = LIMITS

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def terms(self) -> Terms:
        """Of the one federation that it takes part in."""
        return self.federation.terms

    def identity(self) -> Identity:
        """Its signing key. Raises ConfigError, PathError."""
        return Identity.load(self.folder.keys / IDENTITY)

    @property
    @abstractmethod
    def release(self) -> ReleaseEvent:
        """What is promised."""

    def asked(self) -> dict[str, Any]:
        """What these terms ask, by key of the policy; None for queries and epsilon, of which the account knows."""
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
        return {key: asked[key] for key in self.limits if key in asked}

    def further_asked(self) -> dict[str, Any]:
        """What else, of this kind of node."""
        return {}

    @abstractmethod
    def past(self) -> tuple[tuple[str, ...], int]:
        """What other federations were charged: their promises, and queries answered in them. Raises ConfigError,
        LedgerError where its state cannot be read."""

    def facts(self) -> dict[str, str]:
        """What its people should know beside that, in words."""
        return {}

    @cached_property
    def policy(self) -> Any:
        """What the node enforces, of `model`. Raises NotAccepted: more is asked, or nobody has said yes yet."""
        check(self.lines, self.asked(), self.limits, self.folder)
        return self.model.model_validate(self.lines)

    @property
    def presumed(self) -> Any:
        """The policy if its people allow what is asked, where they have said nothing of it."""
        asked = {key: value for key, value in self.asked().items() if value is not None}
        return self.model.model_validate({**asked, **self.lines})

    def request(self) -> Request:
        """All that these terms ask. Raises LedgerError: its state cannot be read."""
        asked, counted, terms, release = self.asked(), self.presumed, self.terms, self.release
        promises, queries = self.past()
        privacy = self.federation.config.privacy
        theirs = counted.model_copy(
            update={"unit": release.unit, "neighbouring": release.neighbouring, "delta": privacy.delta}
        )
        nodes, student = (epsilon((promise,), theirs) for promise in (terms.promise, terms.student or terms.promise))
        earlier, together = epsilon(promises, counted), epsilon((*promises, terms.promise), counted)
        asked |= {"most_epsilon": rounded_up(together), "most_queries": queries + release.queries_in(1)}
        by = f"at delta {counted.delta:g} for a {counted.unit}"
        so_far = f"{len(promises)}; {queries} questions answered, epsilon at most {epsilon_text(earlier)} {by}"
        roster = self.federation.sum_roster()
        about = {
            **{f"towards {whom}": words for whom, words in self._guarantees(student, nodes).items()},
            "earlier federations": so_far if promises else "none",
            "with this one": f"epsilon at most {epsilon_text(together)} {by}",
            **self.facts(),
            **({"roster": f"{grouped(roster.digest)}, {roster.n} parties"} if roster else {}),
        }
        return Request(
            self.folder, self.federation.config.name, terms, self.model, self.limits, self.lines, asked, about
        )

    def _guarantees(self, student: float, nodes: float) -> dict[str, str]:
        """Towards whom which guarantee holds, in words. student, nodes: epsilon of this federation, at its own delta
        and for its own unit, of what is released, and of the sums that nodes see."""
        privacy, collection = self.federation.config.privacy, self.terms.collection
        by = f"at delta {privacy.delta:g} for a {privacy.unit}"
        words = in_plain_words(student, privacy.delta, privacy.unit, self.release.neighbouring.value)
        epsilons = {Bound.STUDENT: student, Bound.NODES: nodes, Bound.LARGER: max(student, nodes)}
        at_most = {bound: f"epsilon at most {epsilon_text(value)} {by}" for bound, value in epsilons.items()}
        at_most[Bound.TRUSTED] = "none: it learns every vote"
        towards = {seer.who: at_most[seer.bound] for seer in Disclosure(ReleaseKind.COUNTS, collection).audiences()}
        return {**towards, "the student": f"{towards['the student']}. {words}"}


def disclosed(terms: Terms) -> Disclosure:
    """What these terms disclose, and to whom: what the student gets, else what the node is charged for."""
    events = events_of(terms.student or terms.promise)
    kind = widest(AT_MOST[event.mechanism.name] for event in events if not event.mechanism.closing)
    return Disclosure(kind, terms.collection)


def towards_whom(terms: Terms, policy: NodePolicy, charged: float) -> str:
    """Of a node's epsilons by its own unit and delta, whom each holds towards. charged: for this federation."""
    to_student = epsilon((terms.student,), policy) if terms.student else charged  # one epsilon to all
    nodes = disclosed(terms).towards_nodes(charged)
    return f"epsilon at most {epsilon_text(to_student)} towards the student and the public; {nodes}"


def rounded_up(value: float) -> float:
    """The `most_epsilon` that is just enough, to two digits.

    >>> rounded_up(3.998), rounded_up(4.0)
    (4.0, 4.0)
    """
    return math.ceil(value * 100) / 100 if math.isfinite(value) else math.inf


def refused_is_wrong(
    allows: Callable[[], Result], what: str, action: str = "", cures: Mapping[Rule, str] = CURES
) -> Result:
    """The result of `allows`; what the node would refuse is a ConfigError, with the cure that the coordinator is told
    too. cures: of its kind of node."""
    try:
        return allows()
    except Refused as error:
        cure = cures[error.refusal.rule]
        raise ConfigError(f"{what}: {error}", f"{cure}. {action}" if action else cure) from None

"""A party's home: the folder with its settings, its data and its state.

party.toml          name, data file; policy, but in a kit
policy.toml         in a kit: what the party allows, written by `consilium node accept` (node.acceptance)
data.npz            or .csv, .parquet: rows float (n, features), labels int (n,), features and classes as text
identity.pem        signing key, and
roster.json         the parties and their keys, for all but plaintext votes; with both aggregators for verified ones
terms.json          in a kit: the terms of the one federation that the party takes part in
state/spend.db      queries answered so far
state/version.json  in a kit: which program used the state last (node.state)
state/answers.json  in a kit: what it was asked last, and what it said
state/shards.key    secret that decides which row is in which shard, mode 0600
state/sessions.db   secure sums this party took part in
state/uploads.db    verified votes that this party gave
state/teachers-<id>/ teachers of one federation
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from consilium.data.mapping import DataRules
from consilium.node.acceptance import not_accepted, read_terms, read_with_policy
from consilium.party.policy import LIMITS, PartyFile, Policy
from consilium.protocol.messages import Terms
from consilium.protocol.teachers import TeacherKind

SETTINGS = "party.toml"


@dataclass(frozen=True)
class Home:
    """Paths and settings of one party.

    durable: what the party has given is on disk before anything leaves, so that a power cut loses nothing. Not so in a
    simulation, whose parties begin anew after one. own_policy: None while nothing was accepted.
    """

    folder: Path
    name: str
    data_file: Path
    own_policy: Policy | None
    identity_file: Path
    roster_file: Path
    simulated_noise_seed: int | None = None
    rules: DataRules = field(default_factory=DataRules)
    teacher: TeacherKind | None = None
    terms_file: Path | None = None
    durable: bool = True

    @property
    def policy(self) -> Policy:
        """What the party enforces. Raises NotAccepted while its people have said nothing."""
        if self.own_policy is None:
            raise not_accepted(self.folder, "party")
        return self.own_policy

    def pinned_terms(self) -> Terms | None:
        """Terms of the one federation that this party takes part in; None where it pins none. Raises ConfigError."""
        if self.terms_file is None:
            return None
        return read_terms(self.terms_file)

    @property
    def state(self) -> Path:
        """Folder for what the party remembers; made on first use, readable by the owner only."""
        path = self.folder / "state"
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    @property
    def spend_file(self) -> Path:
        """Where the party keeps what it has given, see `party.spend`."""
        return self.state / "spend.db"

    def teachers(self, federation: str) -> Path:
        """Folder of the teachers for a federation with this digest; it need not be there yet."""
        return self.state / f"teachers-{federation[:12]}"


def read_party(folder: Path) -> PartyFile:
    """Settings and policy. Raises ConfigError as `open_home`."""
    return read_with_policy(folder / SETTINGS, PartyFile, Policy, LIMITS)


def open_home(folder: Path, durable: bool = True) -> Home:
    """Read `party.toml`, and in a kit `policy.toml`. durable: see `Home`.

    Raises
    ------
    ConfigError : the folder or file is missing, or says something it may not say.
    """
    settings = read_party(folder)
    teacher = None if settings.teacher is None else settings.teacher.at(folder)
    return Home(
        folder=folder,
        name=settings.name,
        data_file=folder / settings.data,
        own_policy=settings.policy,
        identity_file=folder / settings.identity,
        roster_file=folder / settings.roster,
        simulated_noise_seed=settings.simulated_noise_seed,
        rules=settings.rules,
        teacher=teacher,
        terms_file=folder / settings.terms if settings.terms else None,
        durable=durable,
    )

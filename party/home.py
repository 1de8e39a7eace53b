"""A party's home: the folder with its settings, its data and its state.

party.toml          name, data file, policy
data.npz            or .csv, .parquet: rows float (n, features), labels int (n,), features and classes as text
identity.pem        signing key, and
roster.json         the parties and their keys, for all but clear votes; with both aggregators for verified ones
terms.json          in a kit: the terms of the one federation that the party takes part in
state/spend.db      queries answered so far
state/version.json  in a kit: which program used the state last (protocol.node.state)
state/answers.json  in a kit: what it was asked last, and what it said
state/shards.key    secret that decides which row is in which shard, mode 0600
state/sessions.db   secure sums this party took part in
state/uploads.db    verified votes that this party gave
state/teachers-<id>/ teachers of one federation
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from consilium.party.data import DataRules
from consilium.party.policy import PartyFile, Policy
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.parties.messages import Terms
from consilium.protocol.parties.teachers import TeacherKind

SETTINGS = "party.toml"


@dataclass(frozen=True)
class Home:
    """Paths and settings of one party.

    durable: what the party has given is on disk before anything leaves, so that a power cut loses nothing. Not so in a
    simulation, whose parties begin anew after one.
    """

    folder: Path
    name: str
    data_file: Path
    policy: Policy
    identity_file: Path
    roster_file: Path
    simulated_noise_seed: int | None = None
    rules: DataRules = field(default_factory=DataRules)
    teacher: TeacherKind | None = None
    terms_file: Path | None = None
    durable: bool = True

    def pinned_terms(self) -> Terms | None:
        """Terms of the one federation that this party takes part in; None where it pins none. Raises ConfigError."""
        if self.terms_file is None:
            return None
        try:
            return Terms.model_validate_json(self.terms_file.read_bytes())
        except (OSError, ValidationError):
            raise ConfigError(f"{self.terms_file} cannot be read", "Unpack the kit again") from None

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


def open_home(folder: Path, durable: bool = True) -> Home:
    """Read `party.toml`. durable: see `Home`.

    Raises
    ------
    ConfigError : the folder or file is missing, or says something it may not say.
    """
    settings = load(folder / SETTINGS, PartyFile)
    teacher = None if settings.teacher is None else settings.teacher.at(folder)
    return Home(
        folder=folder,
        name=settings.name,
        data_file=folder / settings.data,
        policy=settings.policy,
        identity_file=folder / settings.identity,
        roster_file=folder / settings.roster,
        simulated_noise_seed=settings.simulated_noise_seed,
        rules=settings.rules,
        teacher=teacher,
        terms_file=folder / settings.terms if settings.terms else None,
        durable=durable,
    )

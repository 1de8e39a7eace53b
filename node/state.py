"""Before a node starts: its kit is as it was signed, and no newer program has used its state.

`state/version.json` says which program used the state last, and in which format it left it. The format is counted up
whenever an older program could misread what a newer one wrote: forget what was spent, or what was answered.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from consilium.node.checks import Advice
from consilium.node.kit import Kit
from consilium.node.manifest import check_signed, read_manifest
from consilium.node.supervisor import Tell
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError
from consilium.protocol.files import replace_text
from consilium.protocol.models import Frozen
from consilium.protocol.versions import program_versions

STATE_FORMAT = 1
VERSION_FILE = "version.json"


class StateVersion(Frozen, extra="ignore"):
    """The file `state/version.json`. A newer program may write more into it."""

    format: int = Field(ge=1)
    program: str = Field(max_length=200)


def enter(kit: Kit, tell: Tell) -> None:
    """Check kit and state, and note that this program uses the state from now on.

    Raises
    ------
    ConfigError : a file of the kit was changed or lost, or a newer program has used the state.
    """
    if check_signed(kit) is None:
        tell("kit", "it is not signed: an older version made it")
    before, now = state_version(kit.state), program_versions()
    if before is not None and before.program != now:
        tell("version", f"this state was used by {before.program}; this is {now}")
    if before is None or before.program != now:
        replace_text(kit.state / VERSION_FILE, StateVersion(format=STATE_FORMAT, program=now).model_dump_json() + "\n")


def state_version(state: Path) -> StateVersion | None:
    """Who used a state last; None for one of before it was noted. Raises ConfigError for one of a newer format."""
    path = state / VERSION_FILE
    if not path.exists():
        return None
    found = load(path, StateVersion)
    if found.format > STATE_FORMAT:
        raise ConfigError(
            f"{state} was used by {found.program}, in format {found.format}; this is {program_versions()}, which knows"
            f" format {STATE_FORMAT}",
            "Install that version again; or go back to the backup of before the upgrade, if no query was asked since",
        )
    return found


def check_versions(kit: Kit) -> str:
    """For the doctor: this program, the one that made the kit, and the one that used the state last.

    Raises
    ------
    ConfigError : as `state_version`. Advice : the operator has other versions.
    """
    found, made, now = state_version(kit.state), read_manifest(kit.folder, kit.authority), program_versions()
    if made is not None and made.program != now:
        raise Advice(f"the operator has {made.program}, this is {now}", "Install one version at all nodes")
    return f"this is {now}; the state was last used by {found.program if found else 'nobody'}"

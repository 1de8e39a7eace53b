"""Text files of a kit from templates."""

from __future__ import annotations

import math
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from consilium.coordinator.config import FederationConfig
from consilium.protocol.node.kit import KitFile
from consilium.protocol.versions import DISTRIBUTION

PLACE = "/srv/consilium"
LEAST_ROWS = 20
"""That a party's policy asks for every teacher, unless it says otherwise."""


def _template(file: str, /, **values: Any) -> str:
    environment = Environment(
        loader=PackageLoader("consilium.coordinator.provision"), undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment.get_template(file + ".j2").render(values)


def party_settings(name: str, config: FederationConfig) -> str:
    """`party.toml`: where the rows are, and no limits: those are the party's to say."""
    unit = config.privacy.unit.value
    return _template("party.toml", name=name, federation=config.name, unit=unit)


def aggregator_settings(name: str, config: FederationConfig) -> str:
    """`aggregator.toml`, without limits."""
    return _template("aggregator.toml", name=name, federation=config.name)


def limit_for(epsilon: float) -> float:
    """The `most_epsilon` that is just enough: parties add federations up on their own grid of orders, and are left the
    last digit."""
    return math.ceil(epsilon * 1.01 * 100) / 100 if math.isfinite(epsilon) else math.inf


def write_start_files(folder: Path, kit: KitFile) -> None:
    """start.sh, compose file and, of nodes that stay, the unit of systemd."""
    ports = [kit.coordinator.superlink_port, kit.coordinator.label_port] if kit.kind == "coordinator" else []
    unit = f"consilium-{kit.kind}.service"
    script = folder / "start.sh"
    script.write_text(_template("start.sh", kind=kit.kind), encoding="utf-8")
    script.chmod(0o755)
    (folder / "compose.yaml").write_text(
        _template("compose.yaml", kind=kit.kind, version=version(DISTRIBUTION), ports=ports), encoding="utf-8"
    )
    if kit.kind == "student":
        return  # a student runs once, and is no service
    place = f"{PLACE}/{folder.name}"
    (folder / unit).write_text(
        _template("node.service", kind=kit.kind, name=kit.name, unit=unit, place=place), encoding="utf-8"
    )

"""Text files of a kit from templates."""

from __future__ import annotations

import math
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from consilium.coordinator.config import FederationConfig
from consilium.coordinator.ledger.privacy import promised_to_nodes
from consilium.coordinator.provision.pool import EXACT_SUMS
from consilium.coordinator.rosters import AnyRoster
from consilium.protocol.node.kit import KitFile
from consilium.protocol.versions import DISTRIBUTION

PLACE = "/srv/consilium"
LEAST_ROWS = 20
"""That a kit's policy asks for every teacher."""


def _template(file: str, /, **values: Any) -> str:
    environment = Environment(
        loader=PackageLoader("consilium.coordinator.provision"), undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment.get_template(file + ".j2").render(values)


def party_settings(name: str, config: FederationConfig, roster: AnyRoster | None, weight: int) -> str:
    """`party.toml`: safe limits that are just enough for this federation, and for a party of this weight in it."""
    epsilon = promised_to_nodes(config, weight).epsilon
    return _template(
        "party.toml",
        name=name,
        federation=config.name,
        classes=list(config.rows.classes),
        votes=config.votes,
        exact_sums=config.votes != "clear" and not config.noise_in_sums,
        least_parties=roster.least_sum - roster.c if roster else 2,
        least_difference=roster.least_difference if roster else 0,
        teachers=config.teachers_per_party,
        queries=config.all_caps.queries,
        unit=config.privacy.unit.value,
        neighbouring=config.privacy.neighbouring.value,
        open_pool=config.votes in EXACT_SUMS and config.pool is None,
        epsilon=f"{epsilon:.4g}",
        weight=weight,
        most_weight=config.most_weight,
        limit=limit_for(epsilon),
        least_rows=LEAST_ROWS,
        delta=repr(config.privacy.delta),
    )


def aggregator_settings(name: str, config: FederationConfig, roster: AnyRoster) -> str:
    """`aggregator.toml`: limits that are just enough for this federation."""
    epsilon = promised_to_nodes(config, 1).epsilon
    return _template(
        "aggregator.toml",
        name=name,
        federation=config.name,
        queries=config.all_caps.queries,
        least_parties=roster.least_sum - roster.c,
        least_difference=roster.least_difference,
        exact_sums=not config.noise_in_sums,
        open_pool=config.pool is None,
        unit=config.privacy.unit.value,
        neighbouring=config.privacy.neighbouring.value,
        epsilon=f"{epsilon:.4g}",
        limit=limit_for(epsilon),
        delta=repr(config.privacy.delta),
    )


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

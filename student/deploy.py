"""A student on a machine of its own: the label service with the certificate of its kit, and checks before it asks."""

from __future__ import annotations

from pathlib import Path

from consilium.protocol.monitor.checks import monitor_checks
from consilium.protocol.node.checks import (
    Check,
    check_authority,
    check_certificate,
    check_private,
    check_signature,
    check_tls_server,
)
from consilium.protocol.node.kit import Kit
from consilium.protocol.node.manifest import check_signed
from consilium.protocol.node.state import check_versions
from consilium.protocol.rows.schema import Schema
from consilium.student.asking.pool import PoolFile, check_fits
from consilium.student.channel import LabelChannel


def open_channel(kit: Kit, wait: float) -> LabelChannel:
    """The coordinator's label service, asked with the kit's certificate. Raises ConfigError."""
    check_signed(kit)
    return LabelChannel(kit.coordinator.labels, wait, kit.client_tls)


def checks(kit: Kit, pool: Path | None = None) -> list[Check]:
    """Checks of a student's kit, in the order in which to mend."""
    return [
        ("signature", lambda: check_signature(kit)),
        ("versions", lambda: check_versions(kit)),
        ("keys", lambda: check_private(kit.folder, ["client.key"])),
        ("authority", lambda: check_authority(kit.authority)),
        ("certificate", lambda: check_certificate(kit.client_tls)),
        ("label service", lambda: check_tls_server(kit.coordinator.labels, kit.client_tls)),
        *monitor_checks(kit, running=False),
        *([("pool", lambda: _pool(kit, pool))] if pool is not None else []),
    ]


def _pool(kit: Kit, path: Path) -> str:
    schema = Schema.model_validate_json((kit / "schema.json").read_bytes())
    pool = PoolFile(path).load(schema)
    check_fits(pool, schema)
    return f"{len(pool.queries)} rows with the federation's columns"

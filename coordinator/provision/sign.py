"""Signing what goes to a node: the manifest of its kit, brought up to date with each change."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from consilium.coordinator.provision.authority import Authority
from consilium.coordinator.provision.registry import OPERATOR, Registry
from consilium.protocol.config_files import load
from consilium.protocol.files import private_folder, replace_text
from consilium.protocol.node.manifest import (
    ALGORITHM,
    MANIFEST,
    Manifest,
    SignedManifest,
    digests_of,
    is_setting,
)
from consilium.protocol.versions import program_versions

MANIFESTS = "manifests"


def manifests_of(out: Path, version: int) -> Path:
    """Where the operator keeps the manifests of one change, to which the next one adds."""
    return out / OPERATOR / MANIFESTS / f"{version:04d}"


def sign_kit(out: Path, folder: Path, registry: Registry, authority: Authority) -> None:
    """Write the manifest of a new kit, whose files are all in `folder`, and keep a copy with the operator."""
    found = digests_of(folder)
    files = {name: digest for name, digest in found.items() if not is_setting(name)}
    settings = {name: digest for name, digest in found.items() if is_setting(name)}
    _write(out, folder, _manifest(registry, folder.name, files, settings), authority)


def sign_update(out: Path, folder: Path, registry: Registry, authority: Authority) -> None:
    """Write the manifest of the kit as it is once the update in `folder`, which has its node's name, was unpacked.

    Of a kit that was made before there were manifests it lists what updates brought.
    """
    places = (manifests_of(out, version) / f"{folder.name}.json" for version in range(registry.version - 1, 0, -1))
    kept = next((path for path in places if path.exists()), None)
    before: Mapping[str, str] = load(kept, SignedManifest).content.files if kept else {}
    _write(out, folder, _manifest(registry, folder.name, {**before, **digests_of(folder)}, {}), authority)


def _manifest(registry: Registry, node: str, files: Mapping[str, str], settings: Mapping[str, str]) -> Manifest:
    return Manifest(
        federation=registry.plan.federation.name,
        node=node,
        version=registry.version,
        made=f"{datetime.now(UTC):%Y-%m-%d}",
        program=program_versions(),
        files=dict(files),
        settings=dict(settings),
    )


def _write(out: Path, folder: Path, manifest: Manifest, authority: Authority) -> None:
    signature = authority.key.sign(manifest.signed, ALGORITHM).hex()
    text = SignedManifest(content=manifest, signature=signature).model_dump_json(indent=1) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")
    kept = manifests_of(out, manifest.version)
    private_folder(kept.parent)
    replace_text(private_folder(kept) / f"{folder.name}.json", text)

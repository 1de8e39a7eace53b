"""The operator's folder comes back from enough holders, and from nobody else."""

from __future__ import annotations

import json
import shutil
import stat
from itertools import combinations
from pathlib import Path

import pytest

from consilium.coordinator.provision import escrow, kits
from consilium.coordinator.provision.authority import Authority
from consilium.coordinator.provision.registry import load_registry
from consilium.node.kit import open_kit
from consilium.node.manifest import check_signed
from consilium.protocol.errors import ConfigError, ConsiliumError, OutputExists
from tests.command_line import consilium
from tests.deploy.kits import make_kits

HOLDERS = ("basel", "board", "registry")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Kits whose operator's folder any two of three bring back."""
    out = make_kits(tmp_path)
    done = consilium("provision", "escrow", out, *HOLDERS, "--threshold", "2")
    assert done.exit_code == 0, done.stderr
    return out


def share_of(out: Path, holder: str) -> Path:
    """Where a holder's share was written."""
    return out / "escrow" / f"{holder}.share.json"


def recovered(out: Path, into: Path, *holders: str, sealed: Path | None = None) -> escrow.OperatorFolder:
    """From these holders' shares."""
    return escrow.recover(sealed or out / "escrow" / "operator.escrow", [share_of(out, name) for name in holders], into)


def content(folder: Path, before: str = "") -> dict[str, bytes]:
    """Every file of a folder, with its path after what stands before it."""
    return {before + str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def altered(path: Path, check: bool, **changes: object) -> None:
    """A share with other fields, with a right check or with the old one."""
    share = escrow.HeldShare.model_validate_json(path.read_bytes()).model_copy(update=changes)
    if check:
        share = share.model_copy(update={"check": share.right_check})
    path.write_text(share.model_dump_json())


def test_any_two_of_three_bring_the_folder_back(out: Path, tmp_path: Path) -> None:
    for number, pair in enumerate([*combinations(HOLDERS, 2), HOLDERS]):
        found = recovered(out, tmp_path / f"back-{number}", *pair)
        assert content(found.kits) == content(out / "operator", "operator/")
        assert (found.version, found.unfit) == (1, ())
        for path in (found.kits / "operator").rglob("*"):
            assert not stat.S_IMODE(path.stat().st_mode) & 0o077


def test_one_holder_learns_nothing(out: Path, tmp_path: Path) -> None:
    """Nor with shares that it makes up for the others."""
    with pytest.raises(ConfigError, match="1 different shares, 2 are needed"):
        recovered(out, tmp_path / "back", "basel", "basel")
    key, sealed = (out / "operator" / "ca.key").read_bytes(), (out / "escrow" / "operator.escrow").read_bytes()
    assert key[40:80] not in sealed and key[40:80] not in share_of(out, "basel").read_bytes()
    for guess in ("00" * 32, "01" + "00" * 31, json.loads(share_of(out, "basel").read_text())["share"]):
        altered(share_of(out, "board"), True, share=guess)
        with pytest.raises(ConfigError, match="no 2 of these 2 shares fit together"):
            recovered(out, tmp_path / "back", "basel", "board")
    assert not (tmp_path / "back").exists() and not (tmp_path / "back.part").exists()


def test_another_operator_goes_on_elsewhere(out: Path, tmp_path: Path) -> None:
    """What it changes, nodes that are deployed take for the old authority's; and the escrow goes on."""
    coordinator = tmp_path / "deployed"
    shutil.copytree(out / "coordinator", coordinator)
    assert kits.add_student(out, "institute").kits  # after the shares were handed out
    sealed = tmp_path / "copy.escrow"
    shutil.copy(out / "escrow" / "operator.escrow", sealed)
    shares = [shutil.copy(share_of(out, name), tmp_path) for name in HOLDERS[:2]]
    shutil.rmtree(out)
    elsewhere = tmp_path / "elsewhere"
    options = [option for share in shares for option in ("--share", share)]
    done = consilium("provision", "recover", sealed, *options, "--out", elsewhere, "--format", "json")
    assert done.exit_code == 0 and done.json()["version"] == 2
    assert "institute" in load_registry(elsewhere).students
    done = consilium("provision", "renew", elsewhere, "coordinator")
    assert done.exit_code == 0, done.stderr
    for number in ("0002", "0003"):
        update = elsewhere / "updates" / number / "coordinator.tar.gz"
        assert consilium("node", "join", update, "--into", coordinator).exit_code == 0
    found = check_signed(open_kit(coordinator))
    assert found is not None and found.version == 3
    again = escrow.recover(elsewhere / "escrow" / "operator.escrow", [Path(share) for share in shares], tmp_path / "on")
    assert again.version == 3


def test_a_share_that_does_not_fit_is_named(out: Path, tmp_path: Path) -> None:
    altered(share_of(out, "board"), True, share="07" + "00" * 31)
    assert recovered(out, tmp_path / "back", *HOLDERS).unfit == ("board",)


def sealed_by_a_stranger(out: Path, folder: Path) -> Path:
    """Another operator's folder, sealed to the public key that each share names."""
    folder.mkdir()
    make_kits(folder)
    shutil.copy(out / "operator" / "escrow.json", folder / "kits" / "operator")
    path = escrow.seal_again(folder / "kits")
    assert path is not None
    return path


def test_nobody_passes_another_folder_off_as_the_operators(out: Path, tmp_path: Path, monkeypatch) -> None:
    strange = sealed_by_a_stranger(out, tmp_path / "strange")
    with pytest.raises(ConfigError, match="has not the key of the authority"):
        recovered(out, tmp_path / "back", "basel", "board", sealed=strange)
    assert not (tmp_path / "back").exists()
    # with the right certificate, and without its key
    other = tmp_path / "strange" / "kits" / "operator"
    shutil.copy(out / "operator" / "ca.crt", other)
    strange = escrow.seal_again(other.parent)
    with pytest.raises(ConfigError, match=r"is not the key of ca\.crt"):
        recovered(out, tmp_path / "back", "basel", "board", sealed=strange)
    # the control: who compares nothing takes it
    shown = json.loads(share_of(out, "basel").read_text())["authority"]
    monkeypatch.setattr(escrow, "authority_fingerprint", lambda _: shown)
    strange = sealed_by_a_stranger(out, tmp_path / "again")
    assert recovered(out, tmp_path / "back", "basel", "board", sealed=strange).authority == shown
    assert Authority.load(tmp_path / "back" / "operator").key != Authority.load(out / "operator").key


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda out: altered(share_of(out, "basel"), False, holder="bern"), "was damaged or altered"),
        (lambda out: altered(share_of(out, "basel"), True, public="0" * 64), "of different escrows"),
        (lambda out: share_of(out, "basel").write_text("{}"), "is required"),
        (lambda out: share_of(out, "basel").unlink(), "basel.share.json"),
        (lambda out: (out / "escrow" / "operator.escrow").write_bytes(b"x"), "no sealed folder"),
        (lambda out: (out / "escrow" / "operator.escrow").unlink(), "operator.escrow"),
        (lambda out: flip(out / "escrow" / "operator.escrow", -20), "was damaged or altered"),
        (lambda out: flip(out / "escrow" / "operator.escrow", 30), "not sealed to these shares"),
    ],
)
def test_what_is_damaged_is_named(out: Path, tmp_path: Path, change, message: str) -> None:
    change(out)
    with pytest.raises(ConsiliumError, match=message) as raised:
        recovered(out, tmp_path / "back", "basel", "board")
    assert json.loads(share_of(out, "board").read_text())["share"] not in str(raised.value)
    assert not (tmp_path / "back").exists()


def flip(path: Path, at: int) -> None:
    """One bit of a file."""
    whole = bytearray(path.read_bytes())
    whole[at] ^= 1
    path.write_bytes(whole)


@pytest.mark.parametrize(
    ("holders", "threshold"), [(("basel",), 2), (("basel", "basel"), 2), (HOLDERS, 4), (HOLDERS, 1)]
)
def test_an_escrow_that_cannot_be_leaves_nothing(tmp_path: Path, holders: tuple[str, ...], threshold: int) -> None:
    out = make_kits(tmp_path)
    with pytest.raises(ConfigError, match="cannot be"):
        escrow.put_in_escrow(out, holders, threshold)
    assert not (out / "operator" / "escrow.json").exists() and escrow.seal_again(out) is None


def test_a_second_escrow_is_refused_and_a_folder_is_never_overwritten(out: Path) -> None:
    with pytest.raises(OutputExists, match="in escrow with basel, board, registry"):
        escrow.put_in_escrow(out, HOLDERS, 2)
    with pytest.raises(OutputExists):
        recovered(out, out, "basel", "board")


def test_a_share_is_not_shown(out: Path) -> None:
    share = escrow.HeldShare.model_validate_json(share_of(out, "basel").read_bytes())
    assert share.share not in repr(share)

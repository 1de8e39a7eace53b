"""A container's health check: it lives that answers as itself, or that holds its kit's lock; nobody else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from consilium.node import health
from consilium.node.kit import Kit
from consilium.node.log import MONITOR_FILE, MonitorSettings
from consilium.node.monitor import MonitorPort, Page, as_json
from consilium.protocol.files import held
from tests.deploy.kits import free_ports
from tests.node.nodes import kit_in


class TestHealth:
    """`python -m consilium.node.health KIT`."""

    @pytest.fixture
    def kit(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kit:
        """A kit without monitor.toml."""
        (tmp_path / "kit").mkdir()
        made = kit_in(tmp_path / "kit")
        monkeypatch.setattr(health, "open_kit", lambda folder: made)
        return made

    @pytest.fixture
    def opened(self, kit: Kit) -> Callable[[Page], MonitorPort]:
        """The node's port, which answers its health as the page says."""

        def open_port(page: Page) -> MonitorPort:
            (port,) = free_ports(1)
            (kit.folder / MONITOR_FILE).write_text(f"port = {port}\n")
            return MonitorPort(MonitorSettings(port=port), None, {"/healthz": page}, lambda *_: None)

        return open_port

    def test_without_a_port_the_lock_tells(self, kit: Kit, capsys: pytest.CaptureFixture[str]) -> None:
        assert health.main([str(kit.folder)]) == 1
        with held(kit.state / "lock", "a node"):
            assert health.main([str(kit.folder)]) == 0
        assert health.main([str(kit.folder)]) == 1
        assert capsys.readouterr().out.splitlines() == ["does not answer", "lives", "does not answer"]

    @pytest.mark.parametrize(
        ("told", "code"),
        [
            ({"node": "node-1", "kind": "coordinator"}, 0),
            ({"node": "node-2", "kind": "coordinator"}, 1),
            ({"node": "node-1", "kind": "party"}, 1),
            ({}, 1),
            ([1], 1),
            ("lives", 1),
        ],
    )
    def test_a_port_lives_that_says_it_is_this_node(
        self, kit: Kit, opened: Callable[[Page], MonitorPort], told: object, code: int
    ) -> None:
        with opened(lambda: as_json(told)):
            assert health.main([str(kit.folder)]) == code

    def test_a_port_where_nobody_listens_is_no_life_whoever_holds_the_lock(
        self, kit: Kit, opened: Callable[[Page], MonitorPort]
    ) -> None:
        opened(lambda: as_json({}))
        with held(kit.state / "lock", "a node"):
            assert health.main([str(kit.folder)]) == 1

    def test_settings_that_cannot_be_read_are_no_life_and_said(
        self, kit: Kit, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (kit.folder / MONITOR_FILE).write_text("port = 'nine'\n")
        assert health.main([str(kit.folder)]) == 1
        assert "port" in capsys.readouterr().err

    @pytest.mark.parametrize("arguments", [[], ["a", "b"]])
    def test_a_wrong_call(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        assert health.main(arguments) == 2
        assert capsys.readouterr().err.startswith("usage: ")

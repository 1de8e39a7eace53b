"""A federation's coordinator and its students, as an operator made them, for a label service on loopback."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc

from consilium.coordinator.label_server import LIMITS, Door, Limits, serving
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.provision.authority import Authority
from consilium.coordinator.provision.folder import provision, revoke
from consilium.node.flower import free_port
from consilium.node.folder import NodeFolder, open_folder
from consilium.node.keys import OwnKeys, make
from consilium.node.signed import join
from consilium.protocol.tls import TlsFiles
from consilium.student.deployed import LabelChannel, credentials
from tests.coordinator.provision.desk import enrol, plan_table, write_plan

WAIT = 250.0


@dataclass(frozen=True)
class Site:
    """root: where the folders are. students: by name. port: whether the federation says one that is free."""

    root: Path
    students: Sequence[str] = ("anna",)
    port: bool = False

    def __post_init__(self) -> None:
        table = plan_table(coordinator={"hosts": ["127.0.0.1"]})
        if self.port:
            table["coordinator"]["label_port"] = free_port()
        self.root.mkdir(parents=True, exist_ok=True)
        for name in self.students:
            enrol(self.root, name, "student")
            table["enrolments"].append(f"{name}/{name}.enrol.json")
        provision(write_plan(self.root, table), self.root / "out")
        for name in ("coordinator", *self.students):
            join(self.root / "out" / "federation", self.node(name))

    def node(self, name: str) -> NodeFolder:
        return open_folder(self.root / name)

    @property
    def door(self) -> Door:
        return Door(self.node("coordinator"), self.root / "close", "127.0.0.1:0")

    def tls(self, name: str = "") -> TlsFiles:
        """Of a student; the first where none is named."""
        return self.node(name or self.students[0]).tls

    @property
    def authority(self) -> Authority:
        return Authority.load(self.root / "out" / "operator")

    def certified(self, stem: str, authority: Authority, name: str = "anna") -> TlsFiles:
        """A student's certificate of some authority, for a key of its own."""
        folder = make("student", name, self.root / stem)[0]
        folder.tls.certificate.write_text(authority.certify_student(name, OwnKeys.load(folder).public.key))
        return TlsFiles(folder.tls.certificate, folder.tls.key, self.tls().authority)

    def authority_at(self, moment: datetime) -> Authority:
        """The same as if it had been made at another time, for less than two years."""
        other = Authority.create("three wards", moment.date(), moment)
        return Authority(other.certificate, self.authority.key)

    def revoke(self, name: str) -> None:
        """And the coordinator joins the folder without it."""
        revoke(self.root / "out", name)
        join(self.root / "out" / "federation", self.node("coordinator"))

    def serving(self, service: LabelService, rows: int, limits: Limits = LIMITS) -> AbstractContextManager[str]:
        return serving(service, self.door, rows, limits)

    def channel(self, address: str, name: str = "", wait: float = WAIT, **more: Any) -> LabelChannel:
        return LabelChannel(address, self.tls(name), wait, **more)

    def bare(self, address: str, name: str = "") -> grpc.Channel:
        """A student's, for messages that no student sends."""
        return grpc.secure_channel(address, credentials(self.tls(name)))

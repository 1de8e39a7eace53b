"""Students that ask in phases over a socket: what a request must name, and a whole run."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from consilium.cli import app
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.events import EventLog
from consilium.coordinator.federation import FederationRun
from consilium.coordinator.label_server import serving
from consilium.coordinator.label_service import LabelService
from consilium.coordinator.ledger import Ledger
from consilium.protocol.errors import BudgetExceeded, ConfigError, MalformedMessage, OutputExists
from consilium.protocol.label_wire import blocks, terms_from_wire, terms_to_wire
from consilium.protocol.labels import labels_pb2 as pb
from consilium.protocol.labels import labels_pb2_grpc as rpc
from consilium.protocol.messages import MOST_RELEASES, PROTOCOL_VERSION
from consilium.protocol.noise import SeededNoise
from consilium.simulations.engines.flower import free_port
from consilium.student.channel import LabelChannel
from consilium.student.run import run_student
from tests.federation import FEATURES, FakeTransport, make_config, make_homes, make_rows
from tests.schedule.small import STUDENT, Broken, Dying, findings, pool, run, scheduled
from tests.schedule.test_run import T, Votes

WAIT = 250
ROWS = make_rows(80, 3)[0]


@contextmanager
def served(folder: Path, log, config: FederationConfig) -> Iterator[tuple[str, list[LabelService], Ledger]]:
    """The label services of a federation's phases, on one socket."""
    ledger = Ledger(folder / "ledger.db", config.digest(), config.model_dump_json())
    services = [LabelService(config, ledger, SeededNoise, Votes(), T, log, phase=at) for at in config.phase_numbers]
    try:
        with serving(services[0], "127.0.0.1:0", 30, later=services[1:]) as address:
            yield address, services, ledger
    finally:
        ledger.close()


class TestRequests:
    def test_the_socket_gives_what_each_service_gives(self, tmp_path: Path, log) -> None:
        with served(tmp_path, log, scheduled()) as (address, services, ledger), LabelChannel(address, WAIT) as channel:
            first, second = channel.phases()
            assert [each.describe() for each in (first, second)] == [each.describe() for each in services]
            given = [first.ask(ROWS[:10]), second.ask(ROWS[10:30]), second.ask(ROWS[:10])]
            inside = [services[0].ask(ROWS[:10]), services[1].ask(ROWS[10:30]), services[0].ask(ROWS[:10])]
            for over, within in zip(given, inside, strict=True):
                assert (over.labels == within.labels).all()
            assert [ledger.spent(phase)[0] for phase in (1, 2)] == [10, 20]
            with pytest.raises(BudgetExceeded, match="stage 1, which is over: stage 2 has begun"):
                first.ask(ROWS[30:31])
            second.finish()
            assert all(service.finished.is_set() for service in services)

    @pytest.mark.parametrize("phase", [0, 3, 2**32 - 1])
    def test_a_request_of_no_phase_is_charged_nothing(self, tmp_path: Path, log, phase: int) -> None:
        """0 is what a student says that knows of no phases."""
        with served(tmp_path, log, scheduled()) as (address, _, ledger), LabelChannel(address, WAIT) as channel:
            source = channel.phases()[0]
            source.describe()
            source._phase = phase
            with pytest.raises(MalformedMessage, match="this federation has 2 stages, and the request names"):
                source.ask(ROWS[:3])
            assert ledger.spent() == (0, 0)

    def test_a_phase_where_there_is_no_schedule(self, tmp_path: Path, log) -> None:
        with served(tmp_path, log, make_config()) as (address, _, ledger), LabelChannel(address, WAIT) as channel:
            assert channel.phases() == (channel,)
            channel.describe()
            channel._phase = 1
            with pytest.raises(MalformedMessage, match="of stage 1, and this federation has no schedule"):
                channel.ask(ROWS[:3])
            assert ledger.spent() == (0, 0)

    @pytest.mark.parametrize("order", [(1, 2), (2, 1), (0, 1), (1, 0)])
    def test_blocks_of_one_request_that_name_different_phases(self, tmp_path: Path, log, order) -> None:
        stream = [block for at in order for block in blocks(ROWS[at : at + 1], None, at)]
        with served(tmp_path, log, scheduled()) as (address, _, ledger), grpc.insecure_channel(address) as channel:
            (reply,) = rpc.LabelServiceStub(channel).Ask(iter(stream))
            assert reply.refusal.what == "query blocks of one request name different stages"
            assert ledger.spent() == (0, 0)

    @pytest.mark.parametrize(("asked", "told"), [(0, (2, 1)), (1, (2, 1)), (2, (2, 2))])
    def test_terms_say_of_which_phase_they_are(self, tmp_path: Path, log, asked: int, told) -> None:
        request = pb.DescribeRequest(protocol_version=PROTOCOL_VERSION, phase=asked)
        with served(tmp_path, log, scheduled()) as (address, _, _), grpc.insecure_channel(address) as channel:
            terms = rpc.LabelServiceStub(channel).Describe(request)
            assert (terms.phases, terms.phase) == told
            with pytest.raises(grpc.RpcError) as caught:
                rpc.LabelServiceStub(channel).Describe(pb.DescribeRequest(protocol_version=PROTOCOL_VERSION, phase=3))
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT  # pyright: ignore[reportAttributeAccessIssue]


class TestTerms:
    @pytest.mark.parametrize(
        ("phases", "phase"), [(2, 0), (2, 3), (0, 1), (MOST_RELEASES + 1, 1), (2**32 - 1, 2**32 - 1)]
    )
    def test_numbers_of_phases_that_cannot_be(self, tmp_path: Path, log, phases: int, phase: int) -> None:
        with served(tmp_path, log, make_config()) as (_, (service,), _):
            terms = replace(service.describe(), phases=phases, phase=phase)
        with pytest.raises(MalformedMessage, match="the coordinator's terms are of stage"):
            terms_from_wire(terms_to_wire(terms))

    def test_a_coordinator_that_describes_another_phase(self, tmp_path: Path, log) -> None:
        config = scheduled()
        with served(tmp_path, log, config) as (address, services, _), LabelChannel(address, WAIT) as channel:
            services[1].describe = services[0].describe
            with pytest.raises(MalformedMessage, match="described stage 1, this student asked for stage 2"):
                channel.phases()[1].describe()

    def test_students_of_other_numbers_than_phases_ask_nothing(self, tmp_path: Path, log) -> None:
        spec = STUDENT.model_copy(update={"later": STUDENT.later * 2})
        with served(tmp_path, log, scheduled()) as (address, _, ledger), LabelChannel(address, WAIT) as channel:
            first, *later = channel.phases()
            with pytest.raises(ConfigError, match=r"student\.later has 2 students, the federation 1 stages"):
                run_student(first, pool(), spec, tmp_path / "out", 3, later=later)
            assert ledger.spent() == (0, 0)


@contextmanager
def coordinator(folder: Path, config: FederationConfig) -> Iterator[None]:
    """A coordinator with its parties and a label service, in a thread; it ends when a student has finished."""
    log = EventLog(folder / "events.jsonl")
    parties = FakeTransport(sorted((folder / "homes").iterdir()))
    thread = threading.Thread(target=FederationRun(parties, config, folder, log).run)
    thread.start()
    try:
        yield
        thread.join(WAIT)
        assert not thread.is_alive()
    finally:
        log.close()


@pytest.mark.slow
def test_a_student_that_is_killed_between_the_phases_goes_on_and_pays_nothing_twice(tmp_path: Path) -> None:
    """Over a socket it ends with the very labels of a student in the coordinator's process that was never killed."""
    address = f"127.0.0.1:{free_port()}"
    config = scheduled(service=address)
    inside = run(tmp_path / "straight", config)
    folder, out = tmp_path / "killed", tmp_path / "student"
    make_homes(folder / "homes", 4)
    with coordinator(folder, config):
        with LabelChannel(address, WAIT) as channel:
            first, second = channel.phases()
            with pytest.raises(Broken):
                run_student(first, pool(), STUDENT, out, 3, later=[Dying(second, 1)])
        ledger = Ledger(folder / "ledger.db", config.digest(), "", read_only=True)
        before = [ledger.spent(phase)[0] for phase in (1, 2)]
        assert before[1] == 7  # one request of the second phase
        x, y = pool().test_x, pool().test_y
        np.savez(folder / "public.npz", features=np.array(FEATURES), queries=pool().queries, test_x=x, test_y=y)
        (folder / "student.json").write_text(STUDENT.model_dump_json())
        given = [
            "student", "run", "--coordinator", address, "--public", str(folder / "public.npz"), "--out", str(out),
            "--config", str(folder / "student.json"), "--seed", "3", "--format", "json",
        ]  # fmt: skip
        assert isinstance(CliRunner().invoke(app, given).exception, OutputExists)
        resumed = CliRunner().invoke(app, [*given, "--resume"])
        assert resumed.exit_code == 0, resumed.output
        after = [ledger.spent(phase)[0] for phase in (1, 2)]
        ledger.close()
    assert after[0] == before[0]
    assert pl.read_parquet(out / "labels.parquet").equals(pl.read_parquet(inside / "labels.parquet"))
    told = json.loads((folder / "coordinator.json").read_text())
    assert [phase["asked"] for phase in told["stages"]] == after
    assert findings(folder, out) == {}

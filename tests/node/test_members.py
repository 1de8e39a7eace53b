"""Doctor, status and start of parties and the second aggregator: one truth, in the same words, within ten seconds."""

from __future__ import annotations

import contextlib
import email.utils
import io
import os
import re
import shutil
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from consilium.aggregator.deployed import AGGREGATOR
from consilium.node import checks, members
from consilium.node.checks import Advice, CheckResult, check_coordinator, examine
from consilium.node.folder import NodeFolder
from consilium.node.keys import OwnKeys
from consilium.node.kinds import NodeOutcome
from consilium.node.members import MemberKind
from consilium.node.signed import Coordinator, join, joined
from consilium.party.deployed import PARTY
from consilium.party.home import open_home
from consilium.protocol.errors import ConfigError, ConsiliumError, EngineError, NotAccepted, ServiceError, StorageError
from consilium.protocol.files import held, private_folder
from consilium.student.deployed import LabelChannel
from tests.command_line import consilium
from tests.deploy.edge import Site
from tests.node.folders import SECOND, STUDENT, Made, allow, asked_of, make_authority, make_small


def nowhere() -> Coordinator:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return Coordinator(hosts=("127.0.0.1",), node_port=probe.getsockname()[1])


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Two aggregators; everybody allows what is asked. Not to be changed."""
    made = make_small(tmp_path_factory.mktemp("once"), "verified", place=nowhere())
    for name in ("p00", SECOND):
        allow(made.nodes[name], **asked_of(made.nodes[name]))
    return made


def kind_of(folder: NodeFolder) -> MemberKind:
    return PARTY if folder.kind == "party" else AGGREGATOR


def start(folder: NodeFolder) -> NodeOutcome:
    return kind_of(folder).start(folder, lambda *_: None, threading.Event())


def found(folder: NodeFolder) -> dict[str, CheckResult]:
    results = examine(kind_of(folder).checks(folder, running=False))
    return {result.name: result for result in results if result.level != "ok"}


@pytest.mark.parametrize("name", ["p00", SECOND])
def test_in_the_pages_own_order_nothing_is_wrong_before_the_coordinator_runs(made: Made, name: str) -> None:
    results = found(made.nodes[name])
    assert {result.level for result in results.values()} == {"advice"}
    assert "does not answer yet" in results.pop("coordinator").what
    assert not results
    assert consilium("doctor", made.nodes[name].path).exit_code == 0


def rewrite(name: str, old: str, new: str) -> Callable[[NodeFolder], None]:
    def change(folder: NodeFolder) -> None:
        path = folder / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return change


def damaged_store(folder: NodeFolder) -> None:
    (private_folder(folder / "state") / kind_of(folder).memory).write_text("4711")


def other_format(folder: NodeFolder) -> None:
    with sqlite3.connect(private_folder(folder / "state") / kind_of(folder).memory) as file:
        file.execute("PRAGMA user_version = 99")


def other_keys(folder: NodeFolder) -> None:
    shutil.rmtree(folder.keys)
    folder.keys.mkdir(mode=0o700)
    for name, key in OwnKeys.generate(folder.kind).keys.items():
        key.save(folder.keys / name)


SPOILED: dict[str, tuple[Callable[[NodeFolder], None], str, str]] = {
    "an edited federation": (rewrite("federation/federation.json", "127.0.0.1", "9.0.0.2"), "federation", "signed it"),
    "no federation": (lambda folder: shutil.rmtree(folder.federation), "federation", "has joined no federation"),
    "keys that others read": (lambda folder: (folder.keys / "node.key").chmod(0o644), "keys", "others than its owner"),
    "other keys": (other_keys, "keys", "is listed with keys"),
    "a damaged account": (damaged_store, "state", "damaged"),
    "an account of another version": (other_format, "state", "has format 99"),
    "a line beyond which is asked": (rewrite("policy.toml", "ties = 3", "ties = 9"), "policy", "3 is"),
    "a line that is none": (rewrite("policy.toml", "least_parties", "least_party"), "settings", "unknown key"),
}


@pytest.mark.parametrize("name", ["p00", SECOND])
@pytest.mark.parametrize("what", SPOILED)
def test_a_start_refuses_with_the_line_that_doctor_says(made: Made, what: str, name: str) -> None:
    spoil, check, told = SPOILED[what]
    folder = made.nodes[name]
    spoil(folder)
    result = found(folder)[check]
    assert result.level == "wrong" and told in result.what
    with pytest.raises(ConsiliumError) as caught:
        start(folder)
    assert (caught.value.what, caught.value.action) == (result.what, result.action)
    assert "4711" not in str(caught.value)
    assert consilium("doctor", folder.path).exit_code == 1


@pytest.mark.parametrize("name", ["p00", SECOND])
@pytest.mark.parametrize("promise", ["[]", "4711", '[{"type": "free"}]'])
def test_a_promise_that_is_none_is_refused_and_ends_in_no_traceback(made: Made, name: str, promise: str) -> None:
    folder = made.nodes[name]
    join(made.again(terms=made.file.terms.model_copy(update={"promise": promise})).out, folder)
    assert found(folder)["settings"].what.startswith("federation.json: ")
    for command in (["node", "start"], ["status"], *([["party", "rows"]] if name == "p00" else [])):
        done = consilium(*command, folder.path)
        assert done.exit_code == 2 and "federation.json: " in done.output, done.output


# A start.


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a start would run: nothing runs, and it is stopped at once."""
    ran: list[str] = []

    def ends(program, tell, stop, look) -> None:
        look()
        ran.append(program.name)
        stop.set()

    monkeypatch.setattr(members, "run_program", ends)
    return ran


@pytest.mark.parametrize("name", ["p00", SECOND])
def test_the_first_start_asks_and_later_ones_are_silent(made: Made, monkeypatch, capsys, programs, name: str) -> None:
    folder = made.nodes[name]
    folder.policy_file.write_text("")
    for typed, prompts in (("no\n", 1), ("yes\n", 1), ("", 0)):
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        with pytest.raises(NotAccepted) if typed == "no\n" else nullcontext():
            start(folder)
        assert capsys.readouterr().out.count("Type yes to allow this: ") == prompts
    assert programs == ["supernode"] * 2


def test_a_yes_beside_a_node_that_runs_is_enough(folder: NodeFolder, monkeypatch, programs) -> None:
    with held(private_folder(folder / "state") / "lock", "p00"):
        with pytest.raises(ConfigError, match="is already started"):
            start(folder)
        folder.policy_file.write_text("")
        monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
        assert start(folder).values == {"allowed": True}
    assert programs == []


def test_a_running_node_ends_when_the_coordinator_moved(made: Made, folder: NodeFolder, monkeypatch) -> None:
    def runs(program, tell, stop, look) -> None:
        join(made.again(made="2026-12-24").out, folder)
        look()
        again = replace(made, file=made.again(made="2026-12-24").file)
        join(again.again(coordinator=Coordinator(hosts=("ward.example",))).out, folder)
        look()

    monkeypatch.setattr(members, "run_program", runs)
    with pytest.raises(EngineError, match=r"the coordinator is at ward\.example:8443 now"):
        start(folder)


# Status.


def test_a_status_says_what_was_given_and_that_the_coordinator_does_not_answer(made: Made) -> None:
    for name in ("p00", SECOND):
        folder = made.nodes[name]
        status = consilium("status", folder.path, "--format", "json").json()
        assert "does not answer yet" in status["coordinator"]
        assert (status["running"], status["problems"]) == ("no", [])
        assert status["given"]["queries"] == 0 and status["given"]["epsilon"] <= status["given"]["most_epsilon"]
        with held(private_folder(folder / "state") / "lock", name):
            os.utime(folder.lock, (0, 0))
            with pytest.raises(ConfigError, match="already started"):  # and it changes nothing of what is said
                start(folder)
            assert kind_of(folder).status(folder).values["running"] == "since 1970-01-01 00:00:00 UTC"


def test_what_is_wrong_is_a_problem_of_the_status_and_hides_nothing_else(folder: NodeFolder) -> None:
    damaged_store(folder)
    status = PARTY.status(folder)
    assert status.values["given"] is None
    assert any(problem.startswith("state: ") and "damaged" in problem for problem in status.values["problems"])
    assert "4711" not in "\n".join(status.lines)


@pytest.fixture
def silent(made: Made) -> Iterator[Made]:
    with socket.create_server(("127.0.0.1", made.file.coordinator.node_port)):
        yield made


def test_whatever_hangs_an_answer_comes_within_ten_seconds(silent: Made) -> None:
    folder = silent.nodes["p00"]
    with sqlite3.connect(private_folder(folder / "state") / "party.db", isolation_level=None) as locker:
        open_home(folder).store().close()
        locker.execute("BEGIN EXCLUSIVE")
        before = time.monotonic()
        done = consilium("doctor", folder.path)
        assert time.monotonic() - before < 25  # 10 where the machine is idle; SQLite alone would wait for 30
    assert "coordinator" in done.stdout
    assert "another program holds it" in done.stdout


# Checks by themselves.


def test_checks_are_made_at_once_and_one_that_hangs_or_breaks_hides_no_other() -> None:
    end, both = threading.Event(), threading.Barrier(2)

    def wrong() -> str:
        raise ConfigError("what", "action")

    def advice() -> str:
        raise Advice("what", "action")

    made = [("hangs", lambda: str(end.wait())), ("breaks", lambda: str(1 // 0)), ("wrong", wrong), ("advice", advice)]
    pair = [(name, lambda: str(both.wait())) for name in ("one", "other")]  # each waits for the other
    results = examine([*made, *pair], seconds=3)
    end.set()
    assert {result.name: result.level for result in results} == {
        "hangs": "advice", "breaks": "wrong", "wrong": "wrong", "advice": "advice", "one": "ok", "other": "ok"
    }  # fmt: skip
    assert [result.what for result in results[:2]] == ["not known within 3 s", "cannot be checked: ZeroDivisionError"]


def clock_back(folder: NodeFolder, _: pytest.MonkeyPatch) -> None:
    (folder.state / "lock").touch()
    os.utime(folder.state / "lock", (ahead := time.time() + 7200, ahead))


def clock_ahead(_: NodeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2040, 1, 1, tzinfo=tz)

    monkeypatch.setattr(checks, "datetime", Later)


@pytest.mark.parametrize(
    ("check", "spoil", "told"),
    [
        ("room", lambda *_: None, "MB are needed"),
        ("data", lambda folder, _: (folder / "data.npz").unlink(), "data.npz is not there"),
        ("clock", clock_back, r"wrote last is 7[12]\d\d s in its future"),
        ("authority", clock_ahead, "expired on .*, if this clock is right that says 2040-01-01"),
    ],
)
def test_doctor_says_disk_data_and_clock(folder: NodeFolder, monkeypatch, check: str, spoil, told: str) -> None:
    monkeypatch.setattr(members, "LEAST_BYTES", 10**18)
    spoil(folder, monkeypatch)
    result = found(folder)[check]
    assert result.level == "wrong" and re.search(told, result.what), result
    with pytest.raises(StorageError, match="MB are needed"):
        checks.check_disk(folder.path, 10**18)


@pytest.mark.parametrize("word", ["revoked", "unknown"])
def test_doctor_and_status_say_that_a_node_is_not_let_in(tmp_path: Path, monkeypatch, word: str) -> None:
    monkeypatch.setattr(checks, "ANSWER_SECONDS", 250)  # however busy this machine is
    made = make_small(tmp_path, place=nowhere())
    others = {name: keys for name, keys in made.file.nodes.items() if name != "p00"}
    revoked = {"p00": made.file.nodes["p00"]} if word == "revoked" else {}
    join(made.again(nodes=others, revoked=revoked).out, made.nodes["coordinator"])
    with Site(made).serving(made.file.coordinator.node_port):
        assert f"says: {word}: " in found(made.nodes["p00"])["coordinator"].what
        assert f"says: {word}: " in PARTY.status(made.nodes["p00"]).values["coordinator"]


@pytest.mark.parametrize(("ahead", "word"), [(7200, "ahead of"), (-7200, "behind")])
def test_a_clock_that_differs_from_the_coordinators_is_said_by_how_much(
    folder: NodeFolder, monkeypatch, ahead: int, word: str
) -> None:
    date = email.utils.formatdate(time.time() - ahead, usegmt=True)
    monkeypatch.setattr(checks, "asked_of_coordinator", lambda *_: checks.CoordinatorAnswer(200, b"", date, b""))
    with pytest.raises(ConfigError, match=f"this clock is 7(19|20)[0-9] s {word} the coordinator's"):
        checks.check_coordinator(folder)


@pytest.mark.parametrize("whose", ["its own", "another authority's"])
def test_the_coordinators_certificate_is_held_against_the_authority(made: Made, monkeypatch, whose: str) -> None:
    monkeypatch.setattr(checks, "ANSWER_SECONDS", 250)  # however busy this machine is
    coordinator = made.nodes["coordinator"]
    if whose != "its own":
        other = make_authority().certify_server(OwnKeys.load(coordinator).public.key, ["127.0.0.1"])
        coordinator.tls.certificate.write_text(other)
    with Site(made).serving(made.file.coordinator.node_port):
        (result,) = examine([("coordinator", lambda: checks.check_coordinator(made.nodes["p00"]))])
    if whose == "its own":
        assert result.level == "ok" and "s; its certificate is valid until" in result.what
    else:
        assert result.level == "wrong" and "its certificate is not accepted" in result.what
        assert "of another federation" in result.action


VARIABLES = ("grpc_proxy", "http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What whoever came to it wanted; nobody is let through."""
    asked: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client = listener.accept()[0]
                    asked.append(client.recv(4096).decode().split(" HTTP")[0])
                    client.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                    client.close()

        threading.Thread(target=serve, daemon=True).start()
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{listener.getsockname()[1]}")
        yield asked
        listener.shutdown(socket.SHUT_RDWR)


def test_a_proxy_that_refuses(tmp_path: Path, proxy: list[str]) -> None:
    made = make_small(tmp_path, place=Coordinator(hosts=("coordinator.invalid",)))
    place = joined(made.nodes[STUDENT]).coordinator
    with LabelChannel(place.labels, made.nodes[STUDENT].tls, 3) as channel, pytest.raises(ServiceError) as caught:
        channel.describe()
    assert caught.value.action
    assert proxy[0] == f"CONNECT {place.labels}"
    proxy.clear()
    (found,) = examine([("coordinator", lambda: check_coordinator(made.nodes["p00"]))])  # the SuperNode's way
    assert proxy == [f"CONNECT {place.nodes}"]
    assert found.level == "wrong" and "does not let it through" in found.what

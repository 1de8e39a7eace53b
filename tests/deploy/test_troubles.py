"""docs/for-it.md, its troubles: each trouble is provoked, and what is said is what the table has, with its advice."""

from __future__ import annotations

import re
import shutil
import socket
import threading
from pathlib import Path

import pytest

from consilium.coordinator.provision.authority import Authority
from consilium.node import checks
from consilium.node.kit import open_kit
from consilium.student.deployed import StudentKind
from tests.deploy.kits import make_kits, server_of, write_pool
from tests.deploy.test_kits_doctor import Https
from tests.deploy.troubles import PROVOKED, Proxy, Site, behind, proxy, served

PAGE = Path(__file__).resolve().parents[2] / "docs" / "for-it.md"


def rows() -> dict[str, tuple[str, str]]:
    """By trouble, what is said and what is to be done, as the page has it."""
    block = PAGE.read_text(encoding="utf-8").split("<!-- troubles -->")[1].split("<!-- end troubles -->")[0]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in block.strip().splitlines()[2:]]
    return {trouble.removeprefix("| "): (says, do.removesuffix(" |")) for trouble, _, says, do in cells}


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """With verified votes, so that there is a second aggregator."""
    return make_kits(tmp_path_factory.mktemp("sound"), collection="verified", minimum_parties=3)


@pytest.fixture
def site(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(Path(shutil.copytree(sound, tmp_path / "kits")), monkeypatch)


def test_every_row_is_provoked() -> None:
    assert list(rows()) == list(PROVOKED)


@pytest.mark.parametrize("trouble", PROVOKED)
def test_the_page_has_what_is_said(site: Site, trouble: str) -> None:
    told = PROVOKED[trouble](site)
    for part in rows()[trouble]:
        pattern = r"\s*.+?\s*".join(re.escape(piece.strip()) for piece in part.split("…"))
        assert re.search(pattern, told, re.IGNORECASE), (part, told)


def test_a_proxy_that_lets_it_through_is_the_way(site: Site) -> None:
    """The way of the check is that of the SuperNode."""

    class Through(Proxy):
        def do_CONNECT(self) -> None:
            host, _, port = self.path.rpartition(":")
            assert host == "coordinator.example.org"
            with socket.create_connection(("127.0.0.1", int(port))) as there:
                self.send_response(200)
                self.end_headers()
                ends = (self.connection, there)
                threads = [threading.Thread(target=_pump, args=pair) for pair in (ends, ends[::-1])]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            self.close_connection = True

    (site.coordinator / "server.key").unlink()
    authority = Authority.load(site.out / "operator")
    server_of(authority, ["coordinator.example.org"]).save(site.coordinator.folder, "server")
    with proxy(Through) as address, Https(site.coordinator):
        behind(site, address.replace("://", "://user:secret@"))
        told = checks.check_coordinator(open_kit(site.party.folder))
    assert "coordinator.example.org" in told and "answers; clocks differ" in told and "secret" not in told


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while part := source.recv(65536):
            target.sendall(part)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


def test_a_student_hears_what_is_left_and_what_it_means(site: Site, tmp_path: Path) -> None:
    pool = write_pool(tmp_path / "public.npz")
    with served(site):
        found = checks.examine(StudentKind(pool).checks(site.student, False))
    told = {each.name: each for each in found}
    assert (told["label service"].level, told["terms"].level) == ("ok", "advice")  # epsilon 85
    assert "40 queries left; of 40 rows 40 can be asked, 0 are free, 0 are used up" in told["terms"].what
    assert "one record (a single case at one party)" in told["terms"].what
    assert "above 5" in told["terms"].action
    (site.coordinator / "students.json").write_text("{}")
    with served(site):
        found = checks.examine(StudentKind(pool).checks(site.student, False))
    assert "does not accept this student's certificate" in next(each.what for each in found if each.name == "terms")

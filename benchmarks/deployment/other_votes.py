"""Parts of the drill with a second aggregator, and with secure votes: all kills, cuts, a full disk, a wrong clock, keys
that rotate, an old state that comes back, another institution in its place.

Federations are small, so that what happens is not waited for: two teachers at each of three or four hospitals.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from functools import partial

from benchmarks.deployment.interrupted import Questions, cut, kill
from benchmarks.deployment.links import fill
from benchmarks.deployment.machines import Machine
from benchmarks.deployment.nodes import false_clock
from benchmarks.deployment.site import PASSWORDS, SECOND, Site

ROWS, CUT, AHEAD = 2, 20.0, 60
"""New rows of a question; seconds without a cable, and that a clock is ahead."""
OTHER = "registry"
SMALL = {
    "teachers_per_party": 2,
    "minimum_parties": 2,
    "query_budget": {"queries": 40, "answers": 40},
    "timeouts": {"join": 1, "student": 36_000},
}
CONNECTED = "connected to the coordinator"


def second_of(site: Site) -> Machine:
    """The second aggregator's machine."""
    assert site.second is not None
    return site.second


def prepare_verified(site: Site) -> None:
    """Kits of verified votes: the second aggregator makes its own keys, which everybody compares by telephone."""
    site.prepare(SMALL | {"collection": "verified"})
    second = second_of(site)
    told = site.at(second, "node fingerprint .", says=r"in rosters +(\S{4} ){15}\S{4}")
    shown = re.search(r"in rosters +(.*)", told)
    for name in site.parties:
        site.at(site.party(name), "node fingerprint .", says=f"aggregator +{shown[1] if shown else 'none'}")
    site.at(second, "node accept . --print", says="lines? (is|are) looser|line .*in words")
    site.at(second, "doctor --offline .", says="ok +policy")


def start_verified(site: Site) -> None:
    """All start but the second aggregator, which is waited for by name; then students may ask."""
    second, after = second_of(site), site.start(site.coordinator)
    for name in site.parties:
        site.heard(site.party(name), "until connected", site.start_party(name), CONNECTED)
    site.heard(site.coordinator, "the second aggregator is missed", after, "the second aggregator does not answer")
    site.heard(second, "until connected", site.start(second), CONNECTED)
    site.serving(after)
    site.at(second, "doctor .", says="ok +queries")
    site.at(site.party(site.parties[0]), "doctor .", says="ok +coordinator")
    site.at(site.coordinator, "status .", says=f"aggregator +{second.name}: connected")
    ask(site, "first", 2 * ROWS)


def ask(site: Site, out: str, rows: int) -> None:
    """A student asks so many rows of those that may be asked."""
    site.ask("university", out, rows, says=f"asked {rows}, answered {rows}")


def prepare_secure(site: Site) -> None:
    """Kits of secure votes, which each hospital allows by name; all start."""
    site.prepare(SMALL | {"collection": "secure"})
    after = site.start(site.coordinator)
    for name in site.parties:
        site.start_party(name)
    site.serving(after)
    ask(site, "first", 2 * ROWS)


def something(site: Site, name: str, who: Machine, what: str, disturb: Callable[[], None]) -> None:
    """In the middle of a vote."""
    questions, begun = Questions(site, ROWS, name), time.monotonic()
    done = questions.ask(disturb, 2.0)
    site.record.add(who.name, what, time.monotonic() - begun, done.words, done.right)


def kills(site: Site) -> None:
    """kill -9 of each node in a vote; what has ended is started again, and nobody does anything else."""
    hospital = site.party(site.parties[-1])
    second = [] if site.second is None else [site.second]
    for victim in (site.coordinator, *second, hospital, site.student):
        something(site, f"killed-{victim.name}", victim, "kill -9 in a vote", partial(kill, site, victim))


def cuts(site: Site) -> None:
    """A cable is pulled in a vote, and plugged in again."""
    if site.loopback:
        return
    second = [] if site.second is None else [site.second]
    for victim in (*second, site.party(site.parties[0]), site.coordinator, site.student):
        name = f"cut-{victim.name}"
        something(site, name, victim, f"its cable is cut for {CUT:.0f} s in a vote", partial(cut, site, victim, CUT))


def disk(site: Site) -> None:
    """The second aggregator's disk is full in a vote, until somebody makes room."""
    if site.loopback:
        return
    second = second_of(site)
    site.record.add(second.name, "SIGTERM", 0.0, f"exit {second.stop()}", True)
    second.small_disk(site.kit(second) / "state")
    after = site.start(second)
    site.heard(second, "until connected", after, CONNECTED)

    def fill_for_a_while() -> None:
        filler = fill(site.kit(second) / "state")
        site.at(second, "doctor .", code=1, says="wrong +disk", never="Traceback")
        time.sleep(CUT)
        filler.unlink()

    something(site, "full", second, f"its disk is full for {CUT:.0f} s and a doctor", fill_for_a_while)


def clock(site: Site) -> None:
    """A hospital's clock is a minute ahead."""
    machine = site.party(site.parties[0])
    false = false_clock(site.machines.folder, AHEAD)
    if not false:
        return
    site.record.add(machine.name, "SIGTERM", 0.0, f"exit {machine.stop()}", True)
    prefix = machine.prefix
    machine.prefix = (*prefix, "env", *(f"{key}={value}" for key, value in false.items()))
    after = site.start(machine)
    site.heard(machine, "its clock is wrong, until it says so", after, "this clock is .* ahead", 300, needed=False)
    site.at(machine, "doctor .", code=1, says="this clock is .* ahead")
    machine.prefix = prefix
    machine.stop()
    site.heard(machine, "set right, until connected", site.start(machine), CONNECTED)


def restore(site: Site) -> None:
    """An old state of the second aggregator comes back: nobody is answered by it. Then the newest."""
    second, record = second_of(site), site.record
    state = site.kit(second) / "state"
    old, newest = second.folder / "old", second.folder / "newest"
    second.stop()
    shutil.copytree(state, old)
    site.heard(second, "until connected", site.start(second), CONNECTED)
    something(site, "since", second, "a question since the backup", lambda: None)
    second.stop()
    shutil.copytree(state, newest)
    _put(old, second, site)
    after, charged = site.coordinator.position(), len(site.charged())
    site.heard(second, "an old state is restored, until connected", site.start(second), CONNECTED)
    student = site.student
    student.start(*site.question("restored", charged + ROWS).split(), cwd=site.kit(student))
    went_back = "the second aggregator's state went back"
    site.heard(site.coordinator, "it is noticed", after, went_back, 600, needed=False)
    record.check(
        "coordinator", "charged meanwhile", f"{len(site.charged()) - charged} rows", len(site.charged()) == charged
    )
    second.stop()
    _put(newest, second, site)
    site.heard(second, "the newest is restored, until connected", site.start(second), CONNECTED)
    begun = time.monotonic()
    assert student.node is not None
    code = student.node.wait(900)
    record.add("student", "answered without asking again", time.monotonic() - begun, f"exit {code}", code == 0)


def _put(backup: object, machine: Machine, site: Site) -> None:
    state = site.kit(machine) / "state"
    for path in state.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(str(backup), state, dirs_exist_ok=True)


def rotate(site: Site) -> None:
    """The second aggregator and a hospital change their keys: two changes, of which one federation comes to be."""
    second, hospital, record = second_of(site), site.party(site.parties[0]), site.record
    made = []
    for machine, old in ((second, "keys"), (hospital, site.kit(hospital).name)):
        site.make_keys(machine, "new", old)
        command = f"provision renew kits {machine.name} --keys {machine.name}.enrol.json {site.asked()}"
        made.append(record.run(site.operator, command, says=f"keys +{machine.name} made its own", needed=True))
    apart = "not counted, as nothing was asked there" in made[1] and "over 2 federations" in made[1]
    record.check("operator", "the federation between, which never began", "not counted" if apart else "counted", apart)
    site.close()
    for machine in (second, hospital):
        record.add(machine.name, "SIGTERM", 0.0, f"exit {machine.stop()}", True)
    for update in made:
        for machine in site.nodes:
            site.open_update(machine, update)
    for machine in (second, hospital):
        site.at(machine, "node join . --keys ../new", needed=True)
    go_on(site, (second, hospital))
    ask(site, "rotated", ROWS)


def go_on(site: Site, new: tuple[Machine, ...]) -> None:
    """A new federation: each allows what is asked, and students may ask."""
    site.accept([machine.name for machine in site.nodes[1:]])
    after = site.start(site.coordinator)
    for machine in new:
        site.heard(machine, "until connected", site.start(machine), CONNECTED)
    site.serving(after)


def replace(site: Site) -> None:
    """Another institution takes the second aggregator's place."""
    record = site.record
    record.run(
        site.operator, f"provision revoke kits {SECOND} {site.asked()}", says="no second aggregator", needed=True
    )
    gone = second_of(site)
    site.close()
    gone.stop()
    site.second = site.machines.add(OTHER)
    site.make_keys(site.second)
    port = f" --port {site.port(SECOND)}" if site.loopback else ""
    command = f"provision add --kind aggregator kits {OTHER} --keys {OTHER}.enrol.json{port} --seal {PASSWORDS}"
    made = record.run(site.operator, f"{command} {site.asked()}", says="a new federation", needed=True)
    site.send_and_open([(site.second, f"aggregator-{OTHER}")])
    site.at(site.second, "node join . --keys ../keys", needed=True)
    for machine in site.nodes[:-1]:
        site.open_update(machine, made)
    go_on(site, (site.second,))
    ask(site, "replaced", ROWS)


def end(site: Site) -> None:
    """Closed and audited; nothing is left running."""
    site.close()
    for machine in site.nodes[1:]:
        begun = time.monotonic()
        code = machine.stop()
        site.record.add(machine.name, "SIGTERM", time.monotonic() - begun, f"exit {code}", code == 0)
    left = {machine.name: len(machine.processes()) for machine in site.machines.all.values()}
    site.record.check("all", "processes that are left", str(sum(left.values())), not any(left.values()))
    traces = [machine.name for machine in site.nodes if "Traceback" in machine.said()]
    site.record.check("all", "tracebacks in the nodes' own logs", ", ".join(traces) or "none", not traces)


VERIFIED = (prepare_verified, start_verified, kills, cuts, disk, clock, restore, rotate, replace, end)
SECURE = (prepare_secure, kills, cuts, end)

"""Parties that come while students are served: enrolled and trained at once, and in the sums from the next on.

A party that took part, was away and is back is asked again who it is before it is asked for votes: its state may have
been restored from a backup, in which it has forgotten what it gave.
"""

from __future__ import annotations

import threading

from consilium.coordinator.collection.admission import Admission, Member, QuietSteps
from consilium.coordinator.collection.exchange import Transport
from consilium.coordinator.collection.members import train_all
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.run_log import EventLog

LOOK_SECONDS = 2.0


class Latecomers:
    """A thread, while the context is open, that looks who connects and has those trained that enrol.

    Nobody waits for it: a sum that has begun goes on with the parties that it began with.
    """

    def __init__(self, admission: Admission, transport: Transport, config: FederationConfig, log: EventLog) -> None:
        self._admission, self._transport, self._config, self._log = admission, transport, config, log
        self._lock, self._asking = threading.Lock(), threading.Lock()
        self._ready: list[Member] = []
        self._back: list[Member] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="latecomers", daemon=True)

    def __enter__(self) -> Latecomers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(LOOK_SECONDS)  # it may wait for a party that is training: nobody needs it any more

    def look(self) -> None:
        """Enrol and train who is there and was not yet."""
        with self._asking:
            back = self._back + self._admission.ask(late=True, returned=True)
            self._back = []
            fresh = self._admission.ask(late=True)
        if not back + fresh:
            return
        asked = back + fresh
        trained = train_all(self._transport, self._config, asked, QuietSteps(self._log, "train", len(asked)))
        self._admission.fail(trained.failures)
        ready = [member for member in trained.members if member in fresh]
        if ready:
            with self._lock:
                self._ready += ready
            self._log.write("late", parties=[member.party for member in ready])

    def join(self, members: list[Member]) -> list[Member]:
        """Bring the list up to date, before a sum: those that are ready take part from now on, and are returned; one
        that is back and cannot enrol again is out.

        One that is back is asked here; its training, of which nothing is left to do, is not waited for.
        """
        if self._asking.acquire(blocking=False):  # else it is being asked
            try:
                self._back += self._admission.ask(late=True, returned=True)
            finally:
                self._asking.release()
        with self._lock:
            ready, self._ready = self._ready, []
        if ready:
            self._log.write("takes-part", parties=[member.party for member in ready])
        standing = {*self._admission.members.values()}
        members[:] = [member for member in [*members, *ready] if member in standing]
        return ready

    def _follow(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                self.look()
            except Exception as error:  # a full disk, a SuperLink that restarts: the next look may work
                if not self._stop.is_set():
                    self._log.write("not-looked", reason=type(error).__name__)

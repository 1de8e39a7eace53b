"""Parties that come while students are served: enrolled and trained at once, and in the sums from the next on."""

from __future__ import annotations

import threading

from consilium.coordinator.collection.admission import Admission, Member, QuietSteps
from consilium.coordinator.collection.exchange import Transport
from consilium.coordinator.collection.members import train_all
from consilium.coordinator.config import FederationConfig
from consilium.coordinator.run_log import EventLog

LOOK_SECONDS = 5.0


class Latecomers:
    """A thread, while the context is open, that looks who connects and has those trained that enrol.

    Nobody waits for it: a sum that has begun goes on with the parties that it began with.
    """

    def __init__(self, admission: Admission, transport: Transport, config: FederationConfig, log: EventLog) -> None:
        self._admission, self._transport, self._config, self._log = admission, transport, config, log
        self._lock = threading.Lock()
        self._ready: list[Member] = []
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
        fresh = self._admission.ask(late=True)
        if not fresh:
            return
        trained = train_all(self._transport, self._config, fresh, QuietSteps(self._log, "train", len(fresh)))
        self._admission.fail(trained.failures)
        if trained.members:
            with self._lock:
                self._ready += trained.members
            self._log.write("late", parties=[member.party for member in trained.members])

    def take(self) -> list[Member]:
        """Those that are ready, once: from now on they take part."""
        with self._lock:
            ready, self._ready = self._ready, []
        if ready:
            self._log.write("takes-part", parties=[member.party for member in ready])
        return ready

    def _follow(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                self.look()
            except Exception as error:  # a full disk, a SuperLink that restarts: the next look may work
                if not self._stop.is_set():
                    self._log.write("not-looked", reason=type(error).__name__)

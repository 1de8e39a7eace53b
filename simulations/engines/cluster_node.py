"""At a node of the cluster: a party's home is laid out in a folder of this process, its ClientApp answers one message,
and what it wrote goes back with the reply.

The folder is this process's own, so that nobody else works in it, and keeps what it has for the party's next message.
It is removed when the run ends; one whose process was killed, by the next process that comes here.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from flwr.app import Context, Message, RecordDict

from consilium.protocol.errors import EngineError
from consilium.protocol.files import is_held, take_lock
from consilium.simulations.engines.travelling_homes import RECORD, Brought, Parcel, digest_of, packed, unpacked

FOLDER, LOCK = "consilium-ray", "lock"

Handler = Callable[[Message, Context], Message]


@dataclass(frozen=True)
class AppOnNode:
    """What Flower's actor loads instead of an app: the party's own, on the home of this parcel."""

    parcel: Parcel

    def __call__(self) -> Handler:
        return self.answer

    def answer(self, message: Message, context: Context) -> Message:
        """The party's reply; its changed files go into the context's state."""
        import ray

        from consilium.simulations.engines.block_app import app

        desk = desk_of(self.parcel.run)
        node = ray.get_runtime_context().get_node_id()
        reply, brought = desk.answer(self.parcel, message, context, app, ray.get, node)
        context.state[RECORD] = brought.record()
        return reply


class Forget:
    """Given to Flower's actor in place of an app: remove what this process has of any party."""

    def __call__(self) -> Handler:
        return self.forget

    def forget(self, message: Message, context: Context) -> Message:
        """Remove the folder; the message comes back."""
        desk_of.cache_clear()
        clean(own_folder(), of=os.getpid())
        return message


class NodeDesk:
    """The homes that this process has, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._has: dict[str, str] = {}

    def answer(
        self, parcel: Parcel, message: Message, context: Context, app: Handler, fetch: Callable[[Any], bytes], node: str
    ) -> tuple[Message, Brought]:
        """The app's reply on this home, and what it wrote."""
        fetched = self._lay_out(parcel, fetch)
        home = self._folder / parcel.home
        # whatever happens to the app, what is here now is not known any more
        known = {path: self._has.pop(path) for path in self._of(parcel)}
        there = {**context.node_config, "home": str(home)}
        local_context = Context(
            context.run_id, context.node_id, there, RecordDict(dict(context.state)), context.run_config
        )
        reply = app(message, local_context)
        context.state = local_context.state
        unread = {path for path, piece in parcel.files.items() if piece.content is None}
        written: dict[str, tuple[bytes, int]] = {}
        now: dict[str, str] = {}
        for path in sorted(entry for entry in home.rglob("*") if entry.is_file()):
            name = path.relative_to(self._folder).as_posix()
            if name in unread and name in known:
                now[name] = known[name]
                continue
            content = path.read_bytes()
            now[name] = digest_of(content)
            if name not in parcel.files or now[name] != parcel.files[name].digest:
                written[name] = packed(content), path.stat().st_mode & 0o777
        self._has.update(now)
        removed = sorted(
            name for name in parcel.files if name.startswith(f"{parcel.home}/") and name not in {*now, *unread}
        )
        return reply, Brought(written, tuple(removed), node, fetched)

    def _of(self, parcel: Parcel) -> list[str]:
        return [path for path in self._has if path.startswith(f"{parcel.home}/")]

    def _lay_out(self, parcel: Parcel, fetch: Callable[[Any], bytes]) -> int:
        """Make the party's files those of the parcel; returns how many bytes that took."""
        for path in self._of(parcel):
            if path not in parcel.files:
                (self._folder / path).unlink(missing_ok=True)
                del self._has[path]
        if not self._of(parcel):  # of a message that went wrong
            shutil.rmtree(self._folder / parcel.home, ignore_errors=True)
        fetched = 0
        for path, piece in parcel.files.items():
            if piece.content is None or self._has.get(path) == piece.digest:
                continue
            content = fetch(piece.content)
            fetched += len(content)
            content = unpacked(content)
            if digest_of(content) != piece.digest:
                raise EngineError(f"{path} came to this node damaged")
            target = self._folder / path
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, piece.mode), "wb") as file:
                file.write(content)
            self._has[path] = piece.digest
        (self._folder / parcel.home).mkdir(mode=0o700, parents=True, exist_ok=True)
        return fetched


@cache
def desk_of(run: str) -> NodeDesk:
    """This process's desk for a run; another run's homes are removed."""
    parent = own_folder()
    with open(parent / LOCK, "w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)  # a folder that is being made is not locked yet
        clean(parent, of=os.getpid())
        folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=parent))
        _hold(folder)
    return NodeDesk(folder)


_HELD: list[IO[str]] = []


def _hold(folder: Path) -> None:
    """Say that this process is alive, for as long as it is."""
    file = open(folder / LOCK, "w")  # noqa: SIM115 closed with the process
    take_lock(file)
    _HELD.append(file)


def own_folder() -> Path:
    """Of all processes of this user on this machine, mode 0700. Raises EngineError if it is somebody else's."""
    folder = Path(tempfile.gettempdir()) / f"{FOLDER}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or folder.is_symlink():
        raise EngineError(f"{folder} is not this user's own", "Remove it, or give Ray's processes another TMPDIR")
    return folder


def clean(parent: Path, of: int) -> None:
    """Remove folders of processes that live no more, and that of the process `of`."""
    for folder in parent.iterdir():
        if not folder.is_dir():
            continue
        if folder.name.startswith(f"{of}-"):
            while _HELD:
                _HELD.pop().close()
            shutil.rmtree(folder, ignore_errors=True)
            continue
        if not is_held(folder / LOCK):
            shutil.rmtree(folder, ignore_errors=True)

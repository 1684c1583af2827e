"""Sealing of the audit trail: by `serve` within a second, or once by hand."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vgpumgr.app.trail_key import TrailKey, made_key
from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind
from vgpumgr.model.actor import carried
from vgpumgr.model.errors import ClaimLost, Conflict, VgpumgrError
from vgpumgr.model.ledger import Ledger
from vgpumgr.model.sealed_trail import TreeHead

CLAIM = "seal"
_KEPT = "audit_checkpoint"
# A record is sealed within so many seconds; how long a failure rests.
_BEAT_S, _AGAIN_S, _END_S = 1.0, 10.0, 5.0


def kept_note(folder: Path) -> tuple[Path, str]:
    """The newest checkpoint as this controller keeps it outside of the ledger; empty where none
    is kept.
    """
    path = folder / _KEPT
    try:
        return path, path.read_text()
    except (OSError, UnicodeDecodeError):
        return path, ""


def seal_now(ledger: Ledger, folder: Path) -> TreeHead | None:
    """Seal what is not sealed; the new head, None where all was. Conflict while another process
    seals.
    """
    if not ledger.claim(CLAIM):
        raise Conflict(
            "another process seals the audit trail",
            why="`vgpumgr serve` seals every record within a second",
            next="vgpumgr audit verify",
        )
    try:
        return _seal(ledger, made_key(folder), folder)
    finally:
        ledger.release(CLAIM)


def _seal(ledger: Ledger, key: TrailKey, folder: Path) -> TreeHead | None:
    """Seal in pieces, and keep the last checkpoint next to the key; None where all was sealed."""
    last = None
    while (head := ledger.seal_trail(key.sign)) is not None:
        last = head
    if last is not None:
        _keep(folder / _KEPT, ledger.newest_note())
    return last


def _keep(path: Path, note: str) -> None:
    """A folder that cannot be written stops no seal: the checkpoint is in the ledger."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with suppress(OSError):
        try:
            with draft.open("x") as file:
                file.write(note)
            draft.replace(path)
        except OSError:
            draft.unlink(missing_ok=True)


@contextmanager
def trail_sealer(ledger: Ledger, folder: Path, emit: Emit) -> Iterator[None]:
    """The trail is sealed while the block lasts, by one controller of the fleet at a time; the key
    is in ``folder``.
    """
    sealer = TrailSealer(ledger, folder, emit)
    thread = threading.Thread(target=carried(sealer.run), name="vgpumgr-seal", daemon=True)
    thread.start()
    try:
        yield
    finally:
        sealer.end()
        thread.join(_END_S)


class TrailSealer:
    """Looks every second whether there are new records; seals them unless another process does."""

    def __init__(self, ledger: Ledger, folder: Path, emit: Emit) -> None:
        self._ledger = ledger
        self._folder = folder
        self._emit = emit
        self._ending = threading.Event()
        self._key: TrailKey | None = None
        self._failing = ""

    def end(self) -> None:
        """Seal once more, then end."""
        self._ending.set()

    def run(self) -> None:
        """Seal until :meth:`end` is called or the ledger's claims are lost."""
        wait_s = 0.0
        while not self._ending.wait(wait_s):
            try:
                self.round()
                wait_s, self._failing = _BEAT_S, ""
            except ClaimLost:
                return  # told by who else works on it
            except VgpumgrError as error:
                self._tell(f"{error.message}: {error.why}", error.next)
                wait_s = _AGAIN_S
            except Exception as defect:
                self._tell(f"{type(defect).__name__}: {defect}", "vgpumgr audit verify")
                wait_s = _AGAIN_S
        with suppress(Exception):
            self.round()

    def round(self) -> None:
        """Seal what is new, where this process is the one that seals."""
        if self._ledger.claim(CLAIM):
            self._key = self._key or made_key(self._folder)
            _seal(self._ledger, self._key, self._folder)

    def _tell(self, text: str, next: str) -> None:
        """Once, until it goes well again."""
        if text != self._failing:
            self._failing = text
            said = f"new records of the audit trail are not sealed: {text}"
            self._emit(ControllerEvent(kind=EventKind.TRAIL_UNSEALED, text=said, next=next))

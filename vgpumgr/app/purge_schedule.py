"""What has ended is purged once an hour: by `serve`, in the ledger by one controller at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vgpumgr.app.composition import App
from vgpumgr.engine.controller.controller_events import ControllerEvent, Emit, EventKind
from vgpumgr.model.actor import carried
from vgpumgr.model.api_request import REQUEST_KEPT_S
from vgpumgr.model.errors import ClaimLost, VgpumgrError
from vgpumgr.model.formats import counted
from vgpumgr.model.history import UploadEvent

CLAIM = "purge"
AT_ONCE, MOST = 500, 50_000
"""The rows of one transaction, and of one round; the next one goes on."""
_EVERY_S, _END_S = 3600.0, 5.0


@contextmanager
def scheduled_purges(app: App, emit: Emit) -> Iterator[None]:
    """What has ended is purged while the block lasts."""
    schedule = PurgeSchedule(app, emit)
    thread = threading.Thread(target=carried(schedule.run), name="vgpumgr-purge", daemon=True)
    thread.start()
    try:
        yield
    finally:
        schedule.end()
        thread.join(_END_S)


def purge_uploads(app: App) -> int:
    """Remove uploads that were sent no further; how many. The trail names their users."""
    gone = app.uploads.purge()
    for each in gone:
        why = f"{each.name} of {each.user}: kept for too long"
        app.writable_ledger.record_upload(UploadEvent.DISCARDED, why)
    return len(gone)


class PurgeSchedule:
    """Forgets requests, logins and tokens of the ledger, and uploads of this machine."""

    def __init__(self, app: App, emit: Emit, now: Callable[[], float] = time.time) -> None:
        self._app = app
        self._emit = emit
        self._now = now
        self._ending = threading.Event()
        self._failing = ""

    def end(self) -> None:
        """Begin no other round."""
        self._ending.set()

    def run(self) -> None:
        """Purge until :meth:`end` is called or the ledger's claims are lost."""
        wait_s = 0.0
        while not self._ending.wait(wait_s):
            wait_s = _EVERY_S
            why = ""
            try:
                self.round()
            except ClaimLost:
                return  # told by who else works on it
            except VgpumgrError as error:
                why = f"{error.message}: {error.why}"
            except Exception as defect:
                why = f"{type(defect).__name__}: {defect}"
            if why and why != self._failing:
                text = f"what has ended was not purged: {why}"
                self._emit(ControllerEvent(kind=EventKind.PURGE_FAILED, text=text))
            self._failing = why

    def round(self) -> None:
        """Purge once."""
        gone = {"upload": purge_uploads(self._app)}
        ledger = self._app.writable_ledger
        if ledger.claim(CLAIM):
            now = self._now()
            ended = now - self._app.config.access_keep
            gone["request"] = self._all(ledger.forget_requests, now - REQUEST_KEPT_S)
            gone["login session"] = self._all(ledger.forget_logins, ended)
            gone["token"] = self._all(ledger.forget_tokens, ended)
        if any(gone.values()):
            told = ", ".join(counted(number, word) for word, number in gone.items() if number)
            text = f"purged, as they have ended: {told}"
            self._emit(ControllerEvent(kind=EventKind.PURGED, text=text))

    def _all(self, forget: Callable[[float, int], int], before: float) -> int:
        gone = 0
        while gone < MOST and not self._ending.is_set():
            some = forget(before, AT_ONCE)
            gone += some
            if some < AT_ONCE:
                break
        return gone

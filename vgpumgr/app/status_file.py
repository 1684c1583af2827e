"""How the controller stands, as a file: written whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from vgpumgr import API_VERSION
from vgpumgr.engine.reconcile import Status
from vgpumgr.model.codec import to_plain

# While nothing changes it is written so often, in seconds: its age tells whether we live.
FRESH_S = 10.0


class StatusFile:
    """Written by one process; a file that cannot be written stops nobody."""

    def __init__(self, path: Path, interval_s: float) -> None:
        self._path = path
        self._head = {
            "apiVersion": API_VERSION,
            "kind": "ServeStatus",
            "pid": os.getpid(),
            "started_at": time.time(),
            "interval_s": interval_s,
        }
        self._last = Status(at=0.0)

    def show(self, status: Status) -> None:
        """Write it, if it says anything new."""
        same = replace(status, at=self._last.at) == self._last
        if not same or status.at - self._last.at >= FRESH_S:
            self._write(status, running=True)

    def close(self) -> None:
        """Say that we have ended."""
        self._write(self._last, running=False)

    def _write(self, status: Status, *, running: bool) -> None:
        self._last = status
        text = json.dumps({**self._head, "running": running, **to_plain(status)}, indent=1)
        # A name that nobody foresees, and never what is there: the folder may be shared.
        draft = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}")
        with suppress(OSError):
            try:
                with draft.open("x") as stream:
                    stream.write(text)
                draft.replace(self._path)
            except OSError:
                draft.unlink(missing_ok=True)

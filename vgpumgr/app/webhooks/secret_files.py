"""The secrets of webhooks: a file each, in a folder of the controller's own. Its first line is the
secret; a second one is the secret before it, and until when (Unix seconds) that one signs, too.

A controller without a webhook's file leaves that webhook to another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vgpumgr.app.secret_files import SecretFiles
from vgpumgr.app.webhooks.signed_message import secret_key
from vgpumgr.model.errors import LedgerError


@dataclass(frozen=True, slots=True)
class WebhookSecrets:
    """The files of one controller."""

    folder: Path

    def path(self, webhook_id: str) -> Path:
        """Where the secret of a webhook is."""
        return self.folder / f"webhook-{webhook_id}"

    def has(self, webhook_id: str) -> bool:
        """Is it on this controller, whether or not it can be read?"""
        try:
            return self.path(webhook_id).exists()
        except OSError:
            return True

    def keep(self, webhook_id: str, secret: str) -> None:
        """Write the secret of a webhook that is new."""
        self._write(webhook_id, [secret])

    def forget(self, webhook_id: str) -> None:
        """Remove it where it is here."""
        files = SecretFiles(self.folder)
        with files.locked():
            files.remove_own(self.path(webhook_id).name)

    def keys(self, webhook_id: str, now: float) -> tuple[bytes, ...]:
        """The keys that sign, the newest first; LedgerError where none is here, NotPermitted where
        others may have read them.
        """
        first, *before = self._lines(webhook_id)
        kept = [secret_key(first)]
        for line in before:
            secret, _, until = line.partition(" ")
            if until.isdecimal() and now < int(until):
                kept.append(secret_key(secret))
        return tuple(kept)

    def rotate(self, webhook_id: str, secret: str, until: float) -> Callable[[], None]:
        """Sign by a new secret, and by the one before ``until``; a call undoes it."""
        before = self._lines(webhook_id)
        secret_key(before[0])
        self._write(webhook_id, [secret, f"{before[0]} {until:.0f}"])
        return partial(self._write, webhook_id, before)

    def _lines(self, webhook_id: str) -> list[str]:
        path = self.path(webhook_id)
        kept = SecretFiles(self.folder).read_own(path.name)
        if kept is None:
            raise LedgerError(
                "the webhook's secret is not here",
                why=f"there is no {path}",
                next="copy the file from the controller on which the webhook was added",
            )
        return kept.decode(errors="replace").strip().split("\n")

    def _write(self, webhook_id: str, lines: Sequence[str]) -> None:
        files = SecretFiles(self.folder)
        text = "".join(f"{each}\n" for each in lines)
        with files.locked():
            files.write_own(self.path(webhook_id).name, text.encode())

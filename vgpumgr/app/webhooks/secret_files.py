"""The secrets of webhooks: a file each, which its owner alone may read, next to the ledger's keys.

A controller without a webhook's file leaves that webhook to another one.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from vgpumgr.app.webhooks.signed_message import secret_key
from vgpumgr.model.errors import LedgerError

_MOST = 1024


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
        path = self.path(webhook_id)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            way = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(path, way, 0o600), "w") as file:
                file.write(secret + "\n")
                file.flush()
                os.fsync(file.fileno())
                self._give(file.fileno())
        except OSError as error:
            raise _failed("kept", path, error) from error

    def _give(self, descriptor: int) -> None:
        """Of what root writes, `serve` reads what is its own: the state folder's owner's."""
        if os.geteuid() == 0:
            owner = self.folder.parent.stat()
            os.chown(self.folder, owner.st_uid, owner.st_gid)
            os.chown(descriptor, owner.st_uid, owner.st_gid)

    def forget(self, webhook_id: str) -> None:
        """Remove it where it is here."""
        path = self.path(webhook_id)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise _failed("removed", path, error) from error

    def key(self, webhook_id: str) -> bytes:
        """The key that signs; LedgerError where it is not here, or others may read it."""
        path = self.path(webhook_id)
        try:
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW)) as file:
                exposed = os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO)
                text = file.read(_MOST)
        except (OSError, UnicodeDecodeError) as error:
            raise _failed("read", path, error) from error
        if exposed:
            raise LedgerError(
                "the webhook's secret is not used",
                why=f"other users may read {path}",
                next=f"chmod 0600 {path}",
            )
        return secret_key(text)


def _failed(what: str, path: Path, error: Exception) -> LedgerError:
    return LedgerError(
        f"the webhook's secret cannot be {what}",
        why=f"{getattr(error, 'strerror', None) or error}: {path}",
        next="copy the file from the controller on which the webhook was added",
    )

"""The secrets of webhooks: a file each, in a folder of the controller's own.

A controller without a webhook's file leaves that webhook to another one.
"""

from __future__ import annotations

from dataclasses import dataclass
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
        files = SecretFiles(self.folder)
        with files.locked():
            files.write_own(self.path(webhook_id).name, f"{secret}\n".encode())

    def forget(self, webhook_id: str) -> None:
        """Remove it where it is here."""
        files = SecretFiles(self.folder)
        with files.locked():
            files.remove_own(self.path(webhook_id).name)

    def key(self, webhook_id: str) -> bytes:
        """The key that signs; LedgerError where it is not here, NotPermitted where others may have
        read it.
        """
        path = self.path(webhook_id)
        kept = SecretFiles(self.folder).read_own(path.name)
        if kept is None:
            raise LedgerError(
                "the webhook's secret is not here",
                why=f"there is no {path}",
                next="copy the file from the controller on which the webhook was added",
            )
        return secret_key(kept.decode(errors="replace"))

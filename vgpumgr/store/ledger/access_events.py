"""Logins, refusals and uploads in the audit trail: records that tell of no change of a row."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from vgpumgr.model.history import AccessEvent, UploadEvent
from vgpumgr.store.ledger.audit_trail import Stamp, write

# Names and details come from users who are not known yet: at most this is kept of each.
_MOST = 256


def record_access(
    connection: Connection, stamp: Stamp, event: AccessEvent, detail: str = ""
) -> None:
    """Keep that the current actor came in, or was refused and why; never the proof itself."""
    by, credential = stamp.by[:_MOST], stamp.credential[:_MOST]
    short = replace(stamp, by=by, credential=credential, address=stamp.address[:_MOST])
    write(connection, short, [{"event": event.value, "detail": detail[:_MOST]}])


def record_upload(connection: Connection, stamp: Stamp, event: UploadEvent, detail: str) -> None:
    """Keep that the current actor sends a file, or discarded it."""
    write(connection, stamp, [{"event": event.value, "detail": detail[:_MOST]}])

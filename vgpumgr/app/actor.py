"""The user of this process, as the audit trail names it."""

from __future__ import annotations

import os
import pwd
import socket


def actor() -> str:
    """``user@machine`` by the process's own user, whatever the environment says."""
    uid = os.geteuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = f"uid {uid}"
    return f"{user}@{machine()}"


def uids_at_work() -> tuple[int, ...]:
    """Whose other programs work with what this process gets: our own user's, and behind sudo those
    of who typed it.
    """
    behind = os.environ.get("SUDO_UID", "")
    typed = (int(behind),) if behind.isascii() and behind.isdigit() else ()
    return tuple(dict.fromkeys((os.geteuid(), *typed)))


def machine() -> str:
    """This machine's name."""
    return socket.gethostname()

"""Who uses this process, as the audit trail names them."""

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


def uid_at_work() -> int:
    """Whose other programs work with what this process gets: the user behind sudo, or our own.

    Root may say of itself who it works for; nobody else is asked.
    """
    behind = os.environ.get("SUDO_UID", "")
    if os.geteuid() == 0 and behind.isascii() and behind.isdigit():
        return int(behind)
    return os.geteuid()


def machine() -> str:
    """This machine's name."""
    return socket.gethostname()

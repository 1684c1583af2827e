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


def machine() -> str:
    """This machine's name."""
    return socket.gethostname()

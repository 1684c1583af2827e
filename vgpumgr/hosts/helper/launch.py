"""How the helper is started on a host: installed, or streamed for a single call."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from vgpumgr.hosts.helper.bundle import bundle
from vgpumgr.model.errors import UsageError

FOLDER = "/usr/local/lib/vgpumgr"
LAUNCHER = f"{FOLDER}/vgpumgr-helper"
SUDOERS = "/etc/sudoers.d/vgpumgr"
STATE = "/var/lib/vgpumgr"

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9._-]{0,63}")

# Reads the length, the zip into a memfd, and leaves the request on stdin for the helper.
_STUB = """\
import os, sys
left = int(sys.stdin.buffer.readline())
fd = os.memfd_create("vgpumgr-helper")
while left:
    piece = sys.stdin.buffer.read(min(left, 65536))
    if not piece:
        sys.exit("the helper did not arrive whole")
    left -= os.write(fd, piece)
sys.path.insert(0, "/proc/self/fd/%d" % fd)
from vgpumgr.helper.__main__ import main
sys.exit(main())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A command line, and what goes to its stdin before the request.

    ``user`` is set where sudo is needed.
    """

    argv: tuple[str, ...]
    prefix: bytes = b""
    user: str | None = None
    may_change: bool = True

    def without_sudo(self) -> Launch:
        """The same, as whoever we are."""
        return replace(self, argv=(LAUNCHER,), user=None)


def installed(user: str) -> Launch:
    """The installed helper, through its one sudo rule where ``user`` is not root."""
    if user == "root":
        return Launch(argv=(LAUNCHER,))
    return Launch(argv=("sudo", "-n", LAUNCHER), user=user)


def streamed() -> Launch:
    """A helper that is nowhere installed: it travels with the call, and cannot change anything."""
    packed = bundle()
    prefix = f"{len(packed)}\n".encode() + packed
    return Launch(argv=("python3", "-I", "-c", _STUB), prefix=prefix, may_change=False)


def sudoers_line(user: str) -> str:
    """The one rule: the helper, as root, without arguments. UsageError for an odd user name."""
    if _USER.fullmatch(user) is None:
        raise UsageError(f"{user[:80]!r} cannot be written into a sudoers file")
    return f"{user} ALL={sudo_rule()}"


def sudo_rule() -> str:
    """What the rule allows, as ``sudo -l`` lists it, too."""
    return f'(root) NOPASSWD: {LAUNCHER} ""'

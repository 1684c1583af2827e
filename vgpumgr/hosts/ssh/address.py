"""``USER@HOST[:PORT]``, as users write it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vgpumgr.model.errors import UsageError

LOCAL = "local"

_ADDRESS = re.compile(
    r"(?:(?P<user>[A-Za-z_][A-Za-z0-9._-]{0,63})@)?"
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?)\]|(?P<host>[A-Za-z0-9_][A-Za-z0-9._-]{0,252}))"
    r"(?::(?P<port>[0-9]{1,5}))?"
)


@dataclass(frozen=True, slots=True)
class SshAddress:
    """Where to connect; what is None comes from the user's SSH configuration."""

    host: str
    user: str | None = None
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> SshAddress:
        """Read ``gpuadm@gpu1.example:2222`` or ``root@[fd00::1]``; UsageError otherwise."""
        match = _ADDRESS.fullmatch(text)
        port = int(match["port"]) if match and match["port"] else None
        if match is None or (port is not None and not 0 < port < 65536):
            raise UsageError(
                f"{text[:80]!r} is not an address of a host",
                next="USER@HOST[:PORT], local, or sim://NAME",
            )
        return cls(match["host"] or match["six"], match["user"], port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        user = f"{self.user}@" if self.user else ""
        return f"{user}{host}" + (f":{self.port}" if self.port else "")

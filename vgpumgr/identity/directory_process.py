"""Logins at a directory in a process of their own, which is killed at its deadline: the library
waits for ever for a server that begins TLS and says no more, and reads as much as it is sent.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vgpumgr.access.principal import Principal
from vgpumgr.identity.directory_login import (
    DirectoryLogin,
    DirectorySettings,
    can_be,
    wrong_login,
)
from vgpumgr.model.actor import LoginMethod
from vgpumgr.model.errors import HostUnreachable, VgpumgrError, error_from

TIMEOUT_S = 10.0
"""How long a login may take at the directory, with all that it asks there."""
_MORE_S = 5.0
"""For the process to begin and end."""
_MOST_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class DirectoryServers:
    """Servers of one directory: the first of ``urls`` that answers is asked. Their certificates
    are those of ``ca``, a file (None: the system's).
    """

    urls: Sequence[str]
    ca: Path | None = None


class DirectoryLogins:
    """Logins at one directory; safe to share between threads."""

    def __init__(
        self, settings: DirectorySettings, servers: DirectoryServers, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._settings = settings
        self._servers = servers
        self._timeout_s = timeout_s

    def log_in(self, user: str, password: str) -> Principal:
        """Who has that name and that password; LoginRefused, or HostUnreachable where no server
        answers in time.
        """
        if not can_be(user, password):
            raise wrong_login()
        asked = {
            "settings": asdict(self._settings),
            "servers": asdict(self._servers),
            "timeout_s": self._timeout_s,
            "user": user,
            "password": password,
        }
        found = self._answer(json.dumps(asked, default=str))
        if "error" in found:
            raise error_from(found["error"])
        return Principal(
            user=str(found["user"]),
            groups=frozenset(map(str, found["groups"])),
            method=LoginMethod.DIRECTORY,
        )

    def _answer(self, asked: str) -> dict[str, Any]:
        """What the process says. Its library reads no settings but ours."""
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "vgpumgr.identity.directory_process"],
                input=asked,
                capture_output=True,
                text=True,
                timeout=self._timeout_s + _MORE_S,
                check=False,
                env={**os.environ, "LDAPNOINIT": "1"},
            )
        except subprocess.TimeoutExpired as error:
            raise HostUnreachable(
                "the directory does not answer in time",
                why=f"{' '.join(self._servers.urls)}: a login has {self._timeout_s:g} s",
                next="try again in a while",
            ) from error
        try:
            found: dict[str, Any] = json.loads(ended.stdout)
        except ValueError as error:
            raise HostUnreachable(
                "the login at the directory was cut off",
                why=f"its process ended with {ended.returncode}",
                next="vgpumgr auth test --user NAME",
            ) from error
        return found


def main() -> None:
    """What is asked on the input, answered on the output."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    sys.stdout.write(json.dumps(_answer(json.load(sys.stdin))))


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    from vgpumgr.identity.ldap_directory import LdapAttempt

    given, servers = asked["settings"], asked["servers"]
    given["bind_password_file"] = Path(given["bind_password_file"])
    attempt = LdapAttempt(
        servers["urls"], Path(servers["ca"]) if servers["ca"] else None, asked["timeout_s"]
    )
    login = DirectoryLogin(DirectorySettings(**given), lambda: attempt)
    try:
        who = login.log_in(asked["user"], asked["password"])
    except VgpumgrError as error:
        return {"error": error.as_dict()}
    return {"user": who.user, "groups": sorted(who.groups)}


if __name__ == "__main__":
    main()

"""Named servers of one user: their addresses in a file, their tokens in files of mode 0600."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vgpumgr.client.api_client import ServerAddress
from vgpumgr.model.errors import NotFound, UsageError

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}")
MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerContext:
    """A server by the name that its user gave it; ``ca`` is the file of the certificates that sign
    the server's, empty for the machine's own.
    """

    name: str
    server: str
    ca: str = ""


class ContextFile:
    """The contexts in a user's folder of settings."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "contexts"
        self._list = self._folder / "contexts.json"

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> ContextFile:
        """The one of the user with this environment."""
        home = Path(environ.get("HOME") or "/root")
        return cls(Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "vgpumgr")

    def contexts(self) -> tuple[ServerContext, ...]:
        """All of them, by name; UsageError for a file that is none of ours."""
        found: Any = self._read().get("contexts", [])
        try:
            return tuple(sorted((ServerContext(**each) for each in found), key=lambda c: c.name))
        except TypeError as error:
            raise self._damaged() from error

    def current(self) -> str:
        """The name of the one in use; empty for none: commands work in their own process."""
        return str(self._read().get("current", ""))

    def context(self, name: str) -> ServerContext:
        """One by its name."""
        for each in self.contexts():
            if each.name == name:
                return each
        raise NotFound(f"no context {name}", next="vgpumgr context list")

    def add(self, context: ServerContext, token: str = "") -> None:
        """Write one, over another of its name; with its token, if it has one."""
        if not _NAME.fullmatch(context.name):
            raise UsageError(f"{context.name!r:.80} is not a name", next="letters, digits, . _ -")
        others = [asdict(each) for each in self.contexts() if each.name != context.name]
        self._write([*others, asdict(context)], self.current())
        if token:
            self.set_token(context.name, token)

    def use(self, name: str) -> None:
        """Work at this server from now on; empty: in the command's own process."""
        if name:
            self.context(name)
        self._write([asdict(each) for each in self.contexts()], name)

    def remove(self, name: str) -> None:
        """Forget one, and its token."""
        self.context(name)
        left = [asdict(each) for each in self.contexts() if each.name != name]
        self._write(left, "" if self.current() == name else self.current())
        self._token_file(name).unlink(missing_ok=True)

    def token(self, name: str) -> str:
        """Its token; empty where it has none."""
        try:
            return self._token_file(name).read_text().strip()
        except FileNotFoundError:
            return ""

    def set_token(self, name: str, token: str) -> None:
        """Keep a token for it."""
        self._write_file(self._token_file(name), token + "\n")

    def _token_file(self, name: str) -> Path:
        return self._folder / f"{name}.token"

    def _read(self) -> dict[str, object]:
        try:
            with self._list.open("rb") as file:
                found = json.loads(file.read(MAX_BYTES))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise self._damaged() from error
        if not isinstance(found, dict):
            raise self._damaged()
        return found

    def _damaged(self) -> UsageError:
        return UsageError(f"{self._list} cannot be read", next=f"rm {self._list}, and add again")

    def _write(self, contexts: list[dict[str, str]], current: str) -> None:
        text = json.dumps({"contexts": contexts, "current": current}, indent=2)
        self._write_file(self._list, text + "\n")

    def _write_file(self, path: Path, text: str) -> None:
        """Whole or not at all, and for its user alone."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        new.replace(path)


def server_address(environ: Mapping[str, str], told: str = "") -> ServerAddress | None:
    """The server that was named (by its context, or address), or the current context's; None where
    there is neither. ``VGPUMGR_TOKEN`` and ``VGPUMGR_CA`` are for an address.
    """
    file = ContextFile.of(environ)
    name = told or file.current()
    if not name:
        return None
    if ":" in name:
        ca = environ.get("VGPUMGR_CA")
        token = environ.get("VGPUMGR_TOKEN", "")
        return ServerAddress.parse(name, ca=Path(ca) if ca else None, token=token)
    found = file.context(name)
    token = environ.get("VGPUMGR_TOKEN") or file.token(name)
    ca_file = Path(found.ca) if found.ca else None
    return ServerAddress.parse(found.server, ca=ca_file, token=token)

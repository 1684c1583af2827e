"""Addresses of hosts, and the user's SSH configuration: where and as whom to connect."""

from __future__ import annotations

import getpass
import glob
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

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


def words(line: str, where: str) -> tuple[str, list[str]]:
    """``Keyword args``, ``Keyword=args``, quotes and comments as in ssh_config(5)."""
    line = line.strip()
    if not line or line.startswith("#"):
        return "", []
    keyword = line.replace("=", " ", 1).split(None, 1)[0]
    rest = line[len(keyword) :].lstrip()
    rest = rest[1:] if rest.startswith("=") else rest
    try:
        return keyword.lower(), shlex.split(rest, comments=True)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error


def any_of(patterns: list[str], subject: str) -> bool:
    """A pattern list: one must match, and none that is negated with ``!``."""
    folded = subject.lower()
    for pattern in patterns:
        if pattern.startswith("!") and _like(pattern[1:], folded):
            return False
    return any(_like(each, folded) for each in patterns if not each.startswith("!"))


def _like(pattern: str, subject: str) -> bool:
    # ssh_config knows * and ? only: a bracket is an ordinary character there.
    return fnmatchcase(subject, pattern.lower().replace("[", "[[]"))


def included(path: Path, patterns: list[str]) -> Iterator[Path]:
    """Relative names lie beside the file that includes them."""
    for pattern in patterns:
        full = Path(pattern).expanduser()
        base = full if full.is_absolute() else path.parent / full
        yield from (Path(each) for each in sorted(glob.glob(str(base))))  # noqa: PTH207 - absolute patterns


# Honoured: Host, Match (all, host, originalhost, user, localuser), Include, HostName, User, Port,
# IdentityFile, IdentitiesOnly, ProxyJump, HostKeyAlias. What would silently change how a host is
# reached, and is not supported, is refused by name: ProxyCommand, CertificateFile, other Match
# criteria. As in ssh_config(5), the first value found wins.


MAX_DEPTH = 16
MAX_BYTES = 1 << 20
_ONCE = frozenset({"hostname", "user", "port", "proxyjump", "hostkeyalias", "identitiesonly"})
_REFUSED = {"proxycommand": "ProxyCommand", "certificatefile": "CertificateFile"}
_TOKEN = re.compile("%[%dhru]")
_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")


@dataclass(frozen=True, slots=True, kw_only=True)
class SshTarget:
    """Everything needed to connect. ``jumps`` are the hosts to go through, first to last."""

    host: str
    port: int
    user: str
    identity_files: tuple[Path, ...]
    identities_only: bool = False
    jumps: tuple[SshAddress, ...] = ()
    key_alias: str | None = None

    @property
    def known_as(self) -> str:
        """The name under which known_hosts files keep its key."""
        if self.key_alias is not None:
            return self.key_alias
        return self.host if self.port == 22 else f"[{self.host}]:{self.port}"

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"


def default_files() -> tuple[Path, ...]:
    """The user's file, then the system's."""
    return (Path.home() / ".ssh" / "config", Path("/etc/ssh/ssh_config"))


def resolve(address: SshAddress, files: Sequence[Path]) -> SshTarget:
    """What ``address`` means under the configuration in ``files``.

    Files that do not exist are left out. UsageError names the file and line of what is refused.
    """
    found = _ConfigSearch(address)
    for path in files:
        found.read(path, active=True, depth=0)
    return found.target()


@dataclass
class _ConfigSearch:
    address: SshAddress
    values: dict[str, str] = field(default_factory=dict)
    identities: list[str] = field(default_factory=list)

    def read(self, path: Path, *, active: bool, depth: int) -> None:
        """One file. ``active`` says whether the block that includes it applies."""
        if depth > MAX_DEPTH:
            raise UsageError(f"{path}: Include is nested too deep")
        try:
            text = path.read_bytes()[:MAX_BYTES].decode()
        except (FileNotFoundError, NotADirectoryError):
            return
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} cannot be read", why=str(error)) from error
        within = active
        for number, line in enumerate(text.splitlines(), 1):
            where = f"{path}:{number}"
            key, args = words(line, where)
            if key == "host":
                active = within and any_of(args, self.address.host)
            elif key == "match":
                active = within and self._matches(args, where)
            elif key == "include":
                for each in included(path, args):
                    self.read(each, active=active, depth=depth + 1)
            elif key and active:
                self._keep(key, args, where)

    def _keep(self, key: str, args: list[str], where: str) -> None:
        if not args:
            raise UsageError(f"{where}: {key} has no value")
        if key in _REFUSED and args[0].lower() != "none":
            raise UsageError(
                f"{where}: {_REFUSED[key]} is not supported",
                why=f"it applies to {self.address.host}",
                next="use ProxyJump or IdentityFile, or give another file with ssh_config in "
                "the settings",
            )
        if key == "identityfile":
            self.identities.append(args[0])
        elif key in _ONCE:
            self.values.setdefault(key, args[0])

    def _matches(self, args: list[str], where: str) -> bool:
        """Every criterion must hold; an argument starting with ``!`` negates a criterion."""
        holds = True
        rest = iter(args)
        for word in rest:
            name, wanted = word.lstrip("!").lower(), not word.startswith("!")
            if name == "all":
                found = True
            elif name in {"host", "originalhost", "user", "localuser"}:
                found = any_of(next(rest, "").split(","), self._subject(name))
            else:
                raise UsageError(f"{where}: Match {name} is not supported")
            holds = holds and found is wanted
        return holds

    def _subject(self, name: str) -> str:
        if name == "host":
            return self._hostname()
        if name == "user":
            return self._user()
        return self.address.host if name == "originalhost" else getpass.getuser()

    def _hostname(self) -> str:
        written = self.values.get("hostname", "%h")
        return written.replace("%%", "\0").replace("%h", self.address.host).replace("\0", "%")

    def _user(self) -> str:
        return self.address.user or self.values.get("user") or getpass.getuser()

    def target(self) -> SshTarget:
        """What was found, with OpenSSH's defaults for the rest."""
        port = str(self.address.port or self.values.get("port", "22"))
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise UsageError(f"Port {port} of {self.address.host} is not a port")
        return SshTarget(
            host=self._hostname(),
            port=int(port),
            user=self._user(),
            identity_files=self._identity_files(),
            identities_only=self.values.get("identitiesonly", "no").lower() == "yes",
            jumps=self._jumps(),
            key_alias=self.values.get("hostkeyalias"),
        )

    def _identity_files(self) -> tuple[Path, ...]:
        if not self.identities:
            return tuple(Path.home() / ".ssh" / name for name in _DEFAULT_KEYS)
        return tuple(self._expanded(each) for each in self.identities if each.lower() != "none")

    def _expanded(self, text: str) -> Path:
        tokens = {
            "%%": "%",
            "%d": str(Path.home()),
            "%h": self._hostname(),
            "%r": self._user(),
            "%u": getpass.getuser(),
        }
        return Path(_TOKEN.sub(lambda found: tokens[found[0]], text)).expanduser()

    def _jumps(self) -> tuple[SshAddress, ...]:
        written = self.values.get("proxyjump", "none")
        if written.lower() == "none":
            return ()
        return tuple(SshAddress.parse(each.removeprefix("ssh://")) for each in written.split(","))

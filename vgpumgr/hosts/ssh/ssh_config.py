"""Addresses of hosts, and what OpenSSH's client makes of them: where and as whom to connect.

``ssh -G`` reads the user's and the system's configuration, so that Include, Match and patterns
mean here what they mean to ``ssh``. Nothing is connected to. What would silently change how a host
is reached, and is not supported, is refused by name: ProxyCommand and CertificateFile.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vgpumgr.model.errors import DeadlineExceeded, UsageError

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


# Where a configuration names many hosts, CanonicalizeHostname or ``Match exec`` ask elsewhere.
READ_S = 10.0
_REFUSED = {"proxycommand": "ProxyCommand", "certificatefile": "CertificateFile"}
_TOKEN = re.compile(r"%[%dhikLlnpru]|\$\{[A-Za-z_][A-Za-z0-9_]*\}")

_Settings = Mapping[str, list[str]]


def resolve(address: SshAddress, config: Path | None = None) -> SshTarget:
    """What ``address`` means to ``ssh``, by the file ``config`` alone or by its own files.

    UsageError where ``ssh`` is not installed, refuses the configuration, or finds in it what is
    not supported; DeadlineExceeded where it takes longer than ten seconds.
    """
    found = _settings(_ran(address, config), address)
    _refuse_unsupported(found, address)
    return SshTarget(
        host=_one(found, "hostname"),
        port=int(_one(found, "port")),
        user=_one(found, "user"),
        identity_files=_identity_files(found, address),
        identities_only=_one(found, "identitiesonly") == "yes",
        jumps=_jumps(_one(found, "proxyjump", "none")),
        key_alias=_one(found, "hostkeyalias", "") or None,
    )


def _ran(address: SshAddress, config: Path | None) -> str:
    """What ``ssh -G`` prints for an address."""
    argv = ["ssh", "-G", "-T"]
    argv += ["-F", str(config)] if config else []
    argv += ["-l", address.user] if address.user else []
    argv += ["-p", str(address.port)] if address.port else []
    try:
        ran = subprocess.run(
            [*argv, "--", address.host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=READ_S,
            check=False,
            start_new_session=True,  # Ctrl-C at the terminal is not for it
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError as error:
        raise UsageError(
            f"OpenSSH's client, which reads the SSH configuration of {address.host}, is missing",
            why=str(error),
            next="install OpenSSH's client   (Debian: apt install openssh-client)",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise DeadlineExceeded(
            f"the SSH configuration of {address.host} was not read within {READ_S:g} s",
            next=f"ssh -G {address.host}",
        ) from error
    if ran.returncode:
        raise UsageError(
            f"ssh refuses the configuration of {address.host}",
            why="; ".join(ran.stderr.decode(errors="replace").splitlines()[:3]),
            next="correct the file, or give another one with ssh_config in the settings",
        )
    return os.fsdecode(ran.stdout)


def _settings(printed: str, address: SshAddress) -> _Settings:
    """The values of each keyword, in their order."""
    found: dict[str, list[str]] = {}
    for keyword, _, value in (line.partition(" ") for line in printed.splitlines()):
        found.setdefault(keyword, []).append(value)
    for keyword in ("hostname", "port", "user"):
        if keyword not in found:
            raise UsageError(f"ssh -G {address.host} prints no {keyword}", next="ssh -V")
    return found


def _one(found: _Settings, keyword: str, default: str = "") -> str:
    return found.get(keyword, [default])[0]


def _refuse_unsupported(found: _Settings, address: SshAddress) -> None:
    for keyword, name in _REFUSED.items():
        if _one(found, keyword, "none").lower() != "none":
            raise UsageError(
                f"{name} is not supported",
                why=f"the SSH configuration has it for {address.host}",
                next="use ProxyJump or IdentityFile, or give another file with ssh_config in "
                "the settings",
            )


def _identity_files(found: _Settings, address: SshAddress) -> tuple[Path, ...]:
    """``ssh -G`` prints them as they are written, with ``~``, tokens and variables in them."""
    tokens = _tokens(found, address)

    def value(token: re.Match[str]) -> str:
        text = token[0]
        return os.environ.get(text[2:-1], "") if text.startswith("$") else tokens[text]

    named = (each for each in found.get("identityfile", ()) if each.lower() != "none")
    return tuple(Path(_TOKEN.sub(value, text)).expanduser() for text in named)


def _tokens(found: _Settings, address: SshAddress) -> dict[str, str]:
    """See ssh_config(5), TOKENS."""
    machine = socket.gethostname()
    return {
        "%%": "%",
        "%d": str(Path.home()),
        "%h": _one(found, "hostname"),
        "%i": str(os.getuid()),
        "%k": _one(found, "hostkeyalias", address.host),
        "%L": machine.partition(".")[0],
        "%l": machine,
        "%n": address.host,
        "%p": _one(found, "port"),
        "%r": _one(found, "user"),
        "%u": pwd.getpwuid(os.getuid()).pw_name,
    }


def _jumps(written: str) -> tuple[SshAddress, ...]:
    if written.lower() == "none":
        return ()
    return tuple(SshAddress.parse(each.removeprefix("ssh://")) for each in written.split(","))

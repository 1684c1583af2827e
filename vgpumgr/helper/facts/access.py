"""How we may act on the host, and what comes back with it after a reboot."""

from __future__ import annotations

import re

from vgpumgr.helper import programs
from vgpumgr.helper.system import System

_INSTALLED = "/usr/local/lib/vgpumgr/vgpumgr/helper/__init__.py"
_POOLS_AT_BOOT = "/etc/libvirt/storage/autostart"
_UNITS = (
    "vgpumgr-restore.service",
    *("libvirtd.service", "libvirtd.socket"),
    *("virtqemud.service", "virtqemud.socket"),
)
_PROPERTIES = {
    "load": "LoadState",
    "enabled": "UnitFileState",
    "active": "ActiveState",
    "result": "Result",
}
_SECONDS = 10.0
_MAY = "may run the following commands"
_MAY_NOT = ("is not allowed to", "may not run sudo")


def installed(system: System) -> str:
    """The version of the helper that lies on the host; empty where there is none."""
    if not system.exists(_INSTALLED):
        return ""
    found = re.search(r'^VERSION = "([^"]+)"', system.read(_INSTALLED), re.MULTILINE)
    if found is None:
        raise ValueError(f"no version in {_INSTALLED}")
    return found.group(1)


def sudo_rules(system: System) -> list[str]:
    """The rules that let our user do things as others, as sudo lists them: aliases are resolved,

    and those of his groups are among them. ValueError where sudo does not tell.
    """
    other = ("-U", system.user()) if system.root() else ()
    _, output = system.run((programs.SUDO, "-n", "-l", *other), _SECONDS)
    head, found, rules = output.partition(_MAY)
    if not found:
        if any(words in output for words in _MAY_NOT):
            return []
        raise ValueError(f"sudo -l says {head.strip()[-200:]!r}")
    return [line.strip() for line in rules.splitlines()[1:] if line.strip()]


def units(system: System) -> dict[str, dict[str, str]]:
    """The state of each systemd unit that matters; ValueError where systemd does not tell."""
    wanted = ",".join(("Id", *_PROPERTIES.values()))
    status, output = system.run((programs.SYSTEMCTL, "show", f"-p{wanted}", *_UNITS), _SECONDS)
    blocks = [_properties(block) for block in output.strip().split("\n\n")]
    if status or not all("Id" in each for each in blocks):
        raise ValueError(f"systemctl show says {output.strip()[-200:]!r}")
    return {
        each["Id"]: {key: each.get(name, "") for key, name in _PROPERTIES.items()}
        for each in blocks
    }


def pools_at_boot(system: System) -> list[str]:
    """The storage pools that libvirt starts by itself; the folder is root's on some hosts."""
    names = system.list(_POOLS_AT_BOOT) if system.exists(_POOLS_AT_BOOT) else ()
    return [name[: -len(".xml")] for name in names if name.endswith(".xml")]


def _properties(block: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in block.splitlines() if "=" in line)

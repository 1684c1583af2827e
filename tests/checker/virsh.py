"""A real host as a dump: by the helper on it and virsh, through whatever way the caller has."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# argv and standard input → standard output; raises when the program fails.
Run = Callable[[Sequence[str], bytes], bytes]

HELPER = ("sudo", "-n", "/usr/local/lib/vgpumgr/vgpumgr-helper")
_VIRSH = ("virsh", "-q", "-c", "qemu:///system")


def host(run: Run, helper: Sequence[str] = HELPER) -> dict[str, Any]:
    """Everything that the rules want of one host."""
    answer = json.loads(run(helper, json.dumps({"verb": "probe", "args": {}}).encode()))
    if not answer["ok"]:
        raise RuntimeError(f"the helper refused to probe: {answer['error']}")

    def virsh(*words: str) -> str:
        return run((*_VIRSH, *words), b"").decode()

    names = virsh("list", "--all", "--name").split()
    pools = virsh("pool-list", "--name").split()
    return {
        "probe": answer["result"],
        "domains": [_domain(virsh, name) for name in names],
        "volumes": [
            [pool, line.split(maxsplit=1)[0]]
            for pool in pools
            for line in virsh("vol-list", pool).splitlines()
            if line.strip()
        ],
    }


def _domain(virsh: Callable[..., str], name: str) -> Mapping[str, Any]:
    told = dict(
        (part.strip() for part in line.split(":", 1))
        for line in virsh("dominfo", name).splitlines()
        if ":" in line
    )
    persistent = told["Persistent"] == "yes"
    return {
        "name": name,
        "uuid": told["UUID"],
        "state": told["State"],
        "persistent": persistent,
        "autostart": told["Autostart"] == "enable",
        "xml": virsh("dumpxml", name, *(["--inactive"] if persistent else [])),
    }

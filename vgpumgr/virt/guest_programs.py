"""Programs that a guest's agent runs (qemu-guest-agent's ``guest-exec``), by libvirt.

What a guest answers is read with limits: it is the guest's word.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Any

import libvirt
import libvirt_qemu

from vgpumgr.model.errors import HostRefused
from vgpumgr.model.guest import GuestAnswer
from vgpumgr.virt.libvirt_errors import broken, is_absent

# Seconds for one command to the agent, which answers at once or not at all.
_WAIT_S = 5
_NOT_THERE = 127
_MOST_ANSWER = 32 << 20
# What an agent says that was told to run no programs (block-rpcs), or is too old.
_RUNS_NONE = ("has been disabled", "has not been found", "is disabled", "not allowed")
_MUTE = frozenset(
    {
        libvirt.VIR_ERR_OPERATION_INVALID,
        libvirt.VIR_ERR_AGENT_UNRESPONSIVE,
        getattr(libvirt, "VIR_ERR_AGENT_COMMAND_TIMEOUT", 0),
    }
)


def begin(domain: Any, run: Sequence[str]) -> int | GuestAnswer | None:
    """Have the agent begin a program: its number, the answer where it could not be begun, or None
    where no agent answers. HostRefused where it runs none.
    """
    arguments = {"path": run[0], "arg": list(run[1:]), "capture-output": True}
    try:
        found = _asked(domain, "guest-exec", arguments)
    except libvirt.libvirtError as error:
        if is_absent(error) or broken(domain.connect()):
            raise
        if error.get_error_code() in _MUTE:
            return None
        if any(words in str(error) for words in _RUNS_NONE):
            raise HostRefused(
                f"the agent in {domain.name()} runs no programs",
                why=str(error),
                next="in the guest: take guest-exec out of block-rpcs of qemu-guest-agent",
            ) from error
        return GuestAnswer(status=_NOT_THERE, output=str(error))
    number = found.get("pid")
    return number if isinstance(number, int) else GuestAnswer(status=_NOT_THERE, output="no pid")


def end(domain: Any, number: int, most_bytes: int) -> GuestAnswer | None:
    """How the program ended; None while it runs."""
    try:
        found = _asked(domain, "guest-exec-status", {"pid": number})
    except libvirt.libvirtError as error:
        if is_absent(error) or broken(domain.connect()):
            raise
        if error.get_error_code() in _MUTE:
            return None
        return GuestAnswer(status=None, output=str(error))
    if found.get("exited") is not True:
        return None
    status = found.get("exitcode")
    said = b"".join(_decoded(found.get(key), most_bytes) for key in ("out-data", "err-data"))
    return GuestAnswer(
        status=status if isinstance(status, int) else -1,
        output=said[:most_bytes].decode(errors="replace"),
    )


def _asked(domain: Any, command: str, arguments: dict[str, object]) -> dict[str, Any]:
    text = json.dumps({"execute": command, "arguments": arguments})
    answer = libvirt_qemu.qemuAgentCommand(domain, text, _WAIT_S, 0)
    if not isinstance(answer, str) or len(answer) > _MOST_ANSWER:
        return {}
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        return {}
    value = found.get("return") if isinstance(found, dict) else None
    return value if isinstance(value, dict) else {}


def _decoded(data: object, most_bytes: int) -> bytes:
    if not isinstance(data, str):
        return b""
    try:
        return base64.b64decode(data[: 2 * most_bytes])[:most_bytes]
    except (ValueError, binascii.Error):
        return b""

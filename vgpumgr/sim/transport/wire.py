"""One JSON object a line, both ways, over a unix socket."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from vgpumgr.model.codec import to_plain
from vgpumgr.model.errors import HostRefused, NotPermitted, VgpumgrError, kind_of

PROGRAM = "program"
"""The target of a request after which a connection is the helper's stdin and stdout."""

_MAX_SOCKET_PATH = 107
_BYTES = "base64"


def socket_path(state: Path) -> Path:
    """Where the process of this state folder listens: a path short enough for a unix socket.

    Makes the folder if need be; NotPermitted when it is not ours alone.
    """
    name = f"{hashlib.sha256(os.fsencode(state.absolute())).hexdigest()[:24]}.sock"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    path = Path(runtime, "vgpumgr", name) if runtime else _fallback(name)
    if len(os.fsencode(path)) > _MAX_SOCKET_PATH:
        path = _fallback(name)
    _require_private(path.parent)
    return path


def _fallback(name: str) -> Path:
    return Path(f"/tmp/vgpumgr-{os.getuid()}", name)  # noqa: S108  ours alone: checked below


def _require_private(folder: Path) -> None:
    with suppress(FileExistsError):  # a link that leads nowhere, say: it is looked at below
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise NotPermitted(
            f"{folder} is not a folder of ours alone",
            why="others could listen in place of the simulated hosts",
            next=f"remove it, or set XDG_RUNTIME_DIR (then: chmod 700 {folder})",
        )


def send(stream: BinaryIO, message: Mapping[str, Any]) -> None:
    """Write one message; BrokenPipeError when nobody reads."""
    stream.write(_ENCODER.encode(message).encode() + b"\n")
    stream.flush()


def receive(stream: BinaryIO) -> dict[str, Any] | None:
    """Read one message; None when the other side is gone."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        return None
    # Few messages carry bytes, and a hook is called for every object of all others.
    decoder = _WITH_BYTES if _BYTES.encode() in line else _PLAIN
    message: dict[str, Any] = decoder.decode(line.decode())
    return message


def error_message(error: VgpumgrError) -> dict[str, Any]:
    """An error as it travels."""
    return {
        "code": error.code,
        "message": error.message,
        "why": error.why,
        "next": error.next,
        "errno_name": getattr(error, "errno_name", ""),
    }


def error_from(message: Mapping[str, Any]) -> VgpumgrError:
    """The same error again."""
    kind = kind_of(message["code"])
    words = {"why": message["why"], "next": message["next"]}
    if issubclass(kind, HostRefused):
        return kind(message["message"], **words, errno_name=message["errno_name"])
    return kind(message["message"], **words)


def _encode(value: object) -> Any:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    return to_plain(value)


def _decode(value: dict[str, Any]) -> Any:
    if value.keys() == {_BYTES}:
        return base64.b64decode(value[_BYTES])
    return value


_ENCODER = json.JSONEncoder(default=_encode, separators=(",", ":"))
_PLAIN, _WITH_BYTES = json.JSONDecoder(), json.JSONDecoder(object_hook=_decode)

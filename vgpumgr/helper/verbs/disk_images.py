"""The verbs for disk images in libvirt's pools: inspected, digested, and an overlay that is to
read as before without the file that it is laid over.

Where the pools lie is read from libvirt's own files, which only root can write.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
from collections.abc import Iterator
from typing import Any

from vgpumgr.helper import arguments, errors
from vgpumgr.helper.allowed_programs import QEMU_IMG
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.facts import image_header
from vgpumgr.helper.facts.pool_definitions import ACTIVE, DEFINED
from vgpumgr.helper.facts.storage_pools import pool_folders

# A TiB at 100 MB/s.
_REBASE_S = 4 * 3600.0
_NOT_PLAIN = (errno.ELOOP, errno.ENOTDIR, errno.EXDEV, errno.EINVAL, errno.EISDIR)


def inspect(call: Call) -> dict[str, Any]:
    """What the image says of itself; formats that are not understood are refused."""
    return _header(call, *_named(call))


def digest(call: Call) -> dict[str, Any]:
    """SHA-256 and length of the whole file, as it is read from beginning to end."""
    path, pool = _named(call)
    found, length = hashlib.sha256(), 0
    with _reading(path):
        for piece in call.system.pieces(path, pool):
            found.update(piece)
            length += len(piece)
    return {"sha256": found.hexdigest(), "bytes": length}


def dissolve(call: Call) -> dict[str, Any]:
    """Have an overlay read as before over what its own backing file is laid over (``below``, empty
    for nothing). No content changes, and a call that is cut has changed none.
    """
    path, pool = _named(call)
    below = arguments.path(call.args, "below") if call.args.get("below") else None
    if _header(call, path, pool)["backing"] != below:
        _rebase(call, path, below, _format_below(call, path, pool, below))
    found = _header(call, path, pool)["backing"]
    if found != below:
        why = f"it is laid over {found or 'nothing'} still"
        raise HelperError(errors.REFUSED, f"{path} was not laid over {below or 'nothing'}", why)
    return {"backing": below}


def _format_below(call: Call, path: str, pool: str, below: str | None) -> object:
    """The format that the file between declares of ``below``, which must be all that it names."""
    between = _header(call, path, pool)["backing"]
    if between is None:
        raise HelperError(errors.REFUSED, f"{path} is laid over nothing")
    header = _header(call, str(between), pool)
    if header["backing"] != below:
        why = f"{between} is laid over {header['backing'] or 'nothing'}, not {below or 'nothing'}"
        raise HelperError(errors.REFUSED, f"{between} cannot be left out", why)
    if below is not None:
        _header(call, below, pool)  # it is a plain file of the pool
    return header["backing_format"]


def _rebase(call: Call, path: str, below: str | None, kind: object) -> None:
    onto = ("-b", below, "-F", str(kind)) if below else ("-b", "")
    argv = (QEMU_IMG, "rebase", "-q", "-f", "qcow2", *onto, path)
    try:
        status, said = call.system.run(argv, _REBASE_S)
    except OSError as error:
        raise errors.from_effect(error, f"{QEMU_IMG} could not be run") from error
    if status:
        code = errors.IN_USE if "lock" in said else errors.REFUSED
        why = said.strip()[-500:] or f"qemu-img ended with {status}"
        raise HelperError(code, f"{path} could not be laid over {below or 'nothing'}", why)


def _header(call: Call, path: str, pool: str) -> dict[str, Any]:
    with _reading(path):
        head, size = call.system.read_bytes(path, image_header.HEAD_BYTES, pool)
    try:
        return image_header.inspect(head, size)
    except ValueError as error:
        raise HelperError(errors.REFUSED, f"{path} cannot be used", str(error)) from error


def _named(call: Call) -> tuple[str, str]:
    """The path and its pool; as root we read for others what libvirt calls a pool, and no more."""
    path, pool = arguments.path(call.args, "path"), arguments.path(call.args, "pool_path")
    if call.system.root() and pool not in pool_folders(call.system):
        why = f"no pool in {DEFINED} or {ACTIVE} has that target"
        raise HelperError(errors.REFUSED, f"{pool} is not a storage pool of libvirt's", why)
    return path, pool


@contextlib.contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise errors.from_effect(error, f"no image {path}") from error
    except OSError as error:
        if error.errno in _NOT_PLAIN:
            refused = f"{path} is not a plain file of the storage pool"
            raise errors.from_effect(error, refused) from error
        raise

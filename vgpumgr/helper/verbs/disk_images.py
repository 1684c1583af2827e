"""The verbs for disk images in libvirt's pools: ``image_inspect`` and ``file_digest``.

Where the pools lie is read from libvirt's own files, which only root can write.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
from collections.abc import Iterator
from typing import Any

from vgpumgr.helper import arguments, errors
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.facts import image_header
from vgpumgr.helper.facts.storage_pools import ACTIVE, DEFINED, pool_folders

_NOT_PLAIN = (errno.ELOOP, errno.ENOTDIR, errno.EXDEV, errno.EINVAL, errno.EISDIR)


def inspect(call: Call) -> dict[str, Any]:
    """What the image says of itself; formats that are not understood are refused."""
    path, pool = _named(call)
    with _reading(path):
        head, size = call.system.read_bytes(path, image_header.HEAD_BYTES, pool)
    try:
        return image_header.inspect(head, size)
    except ValueError as error:
        raise HelperError(errors.REFUSED, f"{path} cannot be used", str(error)) from error


def digest(call: Call) -> dict[str, Any]:
    """SHA-256 and length of the whole file, as it is read from beginning to end."""
    path, pool = _named(call)
    found, length = hashlib.sha256(), 0
    with _reading(path):
        for piece in call.system.pieces(path, pool):
            found.update(piece)
            length += len(piece)
    return {"sha256": found.hexdigest(), "bytes": length}


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

"""The ``image_inspect`` verb: a volume's first MiB, read without following links."""

from __future__ import annotations

import errno
from typing import Any

from vgpumgr.helper import arguments, errors
from vgpumgr.helper.call import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.facts import image


def inspect(call: Call) -> dict[str, Any]:
    """What the image says of itself; formats that are not understood are refused."""
    path = arguments.path(call.args, "path")
    pool = arguments.path(call.args, "pool_path")
    try:
        head, size = call.system.read_bytes(path, image.HEAD_BYTES, pool)
    except FileNotFoundError as error:
        raise errors.from_effect(error, f"no image {path}") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EXDEV, errno.EINVAL, errno.EISDIR):
            refused = f"{path} is no plain file of the storage pool"
            raise errors.from_effect(error, refused) from error
        raise
    try:
        return image.inspect(head, size)
    except ValueError as error:
        raise HelperError(errors.REFUSED, f"{path} cannot be used", str(error)) from error

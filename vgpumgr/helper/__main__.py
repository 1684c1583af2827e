"""``python3 -m vgpumgr.helper``: one request on stdin, one answer on stdout.

After a request that joins (``joining.py``) both go on as a connection. With ``--restore`` it reads
nothing and replays the host's claims (``boot.py``).
"""

from __future__ import annotations

import json
import sys
from typing import Any

from vgpumgr.helper import boot, joining
from vgpumgr.helper.dispatch import handle
from vgpumgr.helper.errors import BAD_ARGUMENT, HelperError
from vgpumgr.helper.system import System

_MAX_REQUEST_BYTES = 1 << 20


def answer(text: bytes, system: System) -> dict[str, Any]:
    """The answer to a request as it came over the wire."""
    if len(text) > _MAX_REQUEST_BYTES:
        return _refused(f"the request is longer than {_MAX_REQUEST_BYTES} bytes")
    try:
        request = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _refused(f"the request is not JSON: {error}")
    return handle(request, system)


def main() -> int:
    """Read, answer, and exit 0 because an answer was written."""
    if sys.argv[1:] == ["--restore"]:
        return boot.restore(System())
    text = sys.stdin.buffer.readline(_MAX_REQUEST_BYTES + 1)
    request = joining.asked(text)
    if request is not None:
        joining.serve(request, System())
        return 0
    text += sys.stdin.buffer.read(_MAX_REQUEST_BYTES + 1 - len(text))
    json.dump(answer(text, System()), sys.stdout)
    sys.stdout.write("\n")
    return 0


def _refused(message: str) -> dict[str, Any]:
    return {"ok": False, "error": HelperError(BAD_ARGUMENT, message).as_dict()}


if __name__ == "__main__":
    sys.exit(main())

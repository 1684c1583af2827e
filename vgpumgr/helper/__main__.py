"""The helper as a program: one request on stdin, one answer on stdout; or ``--restore`` at boot.

``python3 -m vgpumgr.helper``. After a request that joins (``joined_connection.py``) stdin and
stdout go on as a connection. With ``--restore`` it reads nothing and replays the host's claims,
with ``--export`` it serves the host's series over HTTP (``exporter.py``).
"""

from __future__ import annotations

import json
import sys
from typing import Any

from vgpumgr.helper import joined_connection
from vgpumgr.helper.dispatch import handle
from vgpumgr.helper.errors import BAD_ARGUMENT, HelperError
from vgpumgr.helper.system import System


def restore(system: System) -> int:
    """Replay every claim; 0 when all of them hold, else 1 and a line on stderr for each other."""
    answer = handle({"verb": "restore"}, system)
    if not answer["ok"]:
        _complain(f"nothing was restored: {answer['error']['message']}: {answer['error']['why']}")
        return 1
    done = answer["result"]
    for unit in done["restored"]:
        sys.stdout.write(f"restored {unit}\n")
    for each in done["failed"]:
        _complain(f"not restored: {each['unit']}: {each['why']}")
    return 1 if done["failed"] else 0


def _complain(line: str) -> None:
    sys.stderr.write(f"{line}\n")


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
        return restore(System())
    if sys.argv[1:2] == ["--export"]:
        from vgpumgr.helper import exporter

        return exporter.main(sys.argv[2:])
    text = sys.stdin.buffer.readline(_MAX_REQUEST_BYTES + 1)
    request = joined_connection.asked(text)
    if request is not None:
        joined_connection.serve(request, System())
        return 0
    text += sys.stdin.buffer.read(_MAX_REQUEST_BYTES + 1 - len(text))
    json.dump(answer(text, System()), sys.stdout)
    sys.stdout.write("\n")
    return 0


def _refused(message: str) -> dict[str, Any]:
    return {"ok": False, "error": HelperError(BAD_ARGUMENT, message).as_dict()}


if __name__ == "__main__":
    sys.exit(main())

"""A fence program: ``python3 -m vgpumgr.redfish off|status URL --user NAME --password-file FILE``.

``status`` prints one line, ``Power is off``; ``off`` ends well only once the host reads off.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from vgpumgr.model.errors import VgpumgrError
from vgpumgr.redfish.host_power import power_state, switch_off
from vgpumgr.redfish.redfish_client import RedfishClient, RedfishLogin

_MOST_BYTES = 4096


def main(given: Sequence[str] | None = None) -> int:
    """The exit status: 0, or 1 with a line on stderr."""
    asked = _asked(given)
    try:
        password = Path(asked.password_file).read_bytes()[:_MOST_BYTES] if asked.user else b""
        login = RedfishLogin(
            url=asked.url,
            user=asked.user,
            password=password.decode(errors="replace").rstrip("\r\n"),
            certificate=asked.certificate,
        )
        with RedfishClient(login) as client:
            if asked.what == "off":
                switch_off(client, asked.system)
            sys.stdout.write(f"Power is {power_state(client, asked.system).lower()}\n")
    except VgpumgrError as error:
        why = f": {error.why}" if error.why else ""
        sys.stderr.write(f"{error.message}{why}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"{error.strerror}: {error.filename}\n")
        return 1
    return 0


def _asked(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="vgpumgr-redfish", description=__doc__)
    parser.add_argument("what", choices=("off", "status"))
    parser.add_argument("url", help="https://BMC")
    parser.add_argument("--user", default="")
    parser.add_argument("--password-file", default="/dev/null")
    parser.add_argument("--certificate", default="", help="SHA-256 of the BMC's certificate")
    parser.add_argument(
        "--system", default="", help="the id of the system, where there are several"
    )
    return parser.parse_args(given)


if __name__ == "__main__":
    sys.exit(main())

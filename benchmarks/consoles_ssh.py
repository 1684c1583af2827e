"""A console over real SSH: how soon a picture comes, and how soon after a key.

``python -m benchmarks.consoles_ssh [--pictures 40] [--keys 100]``, as root: a host in a namespace
of this machine with its own sshd, libvirtd and QEMU (TCG), and the installed helper. A picture: a
new SSH connection, the helper, the VNC handshake and the whole screen of the firmware; what the API
adds to it is in ``benchmarks.consoles``. A key: from the press until QEMU's answer to the next
request for pixels; most of it is QEMU's own interval between updates. Prints JSON, milliseconds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from contextlib import closing

from benchmarks.consoles import spread
from tests import nshosts
from tests.e2e.test_real_console import DESK, reached, running
from tests.vncviewer import Viewer
from vgpumgr.model.ports import Host


def opened(host: Host) -> tuple[Viewer, int, int]:
    """A viewer that knows the screen, and its size."""
    viewer = Viewer("", host.console(DESK, "vm-1"))
    viewer.greet()
    screen = viewer.screen()
    return viewer, screen.width, screen.height


def pictures(host: Host, count: int) -> list[float]:
    """From nothing to the whole screen, in seconds."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        viewer, width, height = opened(host)
        with viewer:
            viewer.picture(width, height)
            times.append(time.perf_counter() - began)
    return times


def keys(host: Host, count: int) -> list[float]:
    """From a key to the next answer, in seconds."""
    times = []
    viewer, _, _ = opened(host)
    with viewer:
        for _ in range(count):
            began = time.perf_counter()
            viewer.press()
            viewer.picture(16, 16)
            times.append(time.perf_counter() - began)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=40)
    parser.add_argument("--keys", type=int, default=100)
    given = parser.parse_args()
    if why := nshosts.missing():
        sys.exit(f"no namespace hosts here: {why}")
    load = os.getloadavg()[0]
    with closing(nshosts.NamespaceFleet(1)) as fleet, reached(fleet) as host:
        host.installation.install()
        with running(host):
            told = {
                "picture_over_ssh": spread(pictures(host, given.pictures)),
                "key_over_ssh": spread(keys(host, given.keys)),
            }
    print(json.dumps({"benchmark": "consoles_ssh", "cpus": os.cpu_count(), "load": load, **told}))


if __name__ == "__main__":
    main()

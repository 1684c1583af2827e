"""What guests find in their network: packages over HTTP, and the time over NTP (RFC 4330).

``lan_servers.py ADDRESS FOLDER`` serves until it is ended.
"""

from __future__ import annotations

import functools
import http.server
import socketserver
import struct
import sys
import threading
import time

# Seconds between the epochs of NTP (1900) and Unix.
_EPOCHS = 2_208_988_800
_SERVER_VERSION_4 = 0b00_100_100
_STRATUM = 2


class ClockHandler(socketserver.BaseRequestHandler):
    """Answers a client with this machine's time."""

    def handle(self) -> None:
        asked, sock = self.request
        stamp = struct.pack("!II", int(time.time()) + _EPOCHS, 0)
        head = struct.pack("!BBbbII4s", _SERVER_VERSION_4, _STRATUM, 6, -20, 0, 0, b"LOCL")
        sock.sendto(head + stamp + asked[40:48] + stamp + stamp, self.client_address)


def main() -> None:
    address, folder = sys.argv[1:]
    clock = socketserver.ThreadingUDPServer((address, 123), ClockHandler)
    threading.Thread(target=clock.serve_forever, daemon=True).start()
    files = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    http.server.ThreadingHTTPServer((address, 80), files).serve_forever()


if __name__ == "__main__":
    main()

"""A host's own series over HTTP: ``vgpumgr-helper --export``, for hosts that Prometheus asks.

It only reads. Each reading is a process of its own: what a driver's library leaves behind goes with
it, and one that hangs holds up nothing but its own answer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from vgpumgr.helper import VERSION, host_series
from vgpumgr.helper.series_text import MEDIA_TYPE

PORT = 9869
PATH = "/metrics"
# The verb has a deadline of its own, which is shorter.
_READING_S = 15.0
# Who asks within that time of another gets the same answer.
_FRESH_S = 2.0
_CONNECTION_S = 5.0
_MOST_CONNECTIONS = 16
_REQUEST = b'{"verb": "figures", "args": {}}'
_START = (
    "import sys; sys.path[:] = sys.argv[1:]; del sys.argv[1:]; "
    "from vgpumgr.helper.__main__ import main; sys.exit(main())"
)
_LISTEN = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<four>[^:\[\]]*)):(?P<port>[0-9]{1,5})")


def reading() -> dict[str, Any] | None:
    """What the verb ``figures`` tells, by a process of its own; None where it does not answer."""
    argv = [sys.executable, "-I", "-c", _START, *sys.path]
    try:
        ended = subprocess.run(
            argv, input=_REQUEST, stdout=subprocess.PIPE, timeout=_READING_S, check=True
        )
        answer = json.loads(ended.stdout)
        return answer["result"] if answer["ok"] else None
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return None


class HostExporter:
    """What is told to who asks: one reading at a time, and the same for all who wait for it.

    ``outdated``: another helper than this one was installed meanwhile, and answers.
    """

    def __init__(self, host: str, read: Callable[[], Any], *, details: bool = False) -> None:
        self.outdated = False
        self._host = host
        self._read = read
        self._details = details
        self._lock = threading.Lock()
        self._at = -_FRESH_S
        self._text = b""

    def text(self) -> bytes:
        """The exposition of now."""
        with self._lock:
            began = time.monotonic()
            if began - self._at > _FRESH_S:
                told = self._read()
                self._at = time.monotonic()
                took_s = self._at - began
                self.outdated = told is not None and told["helper"] != VERSION
                if not self.outdated:
                    text = host_series.text(self._host, told, took_s, details=self._details)
                    self._text = text.encode()
            return self._text


class ExporterServer(ThreadingHTTPServer):
    """Listens at ``address``, a numeric one or a name, and a port."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], exporter: HostExporter) -> None:
        self.exporter = exporter
        self._places = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Scrape)

    def process_request(self, request: Any, client_address: Any) -> None:
        """More connections than there is room for are closed at once."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Make room again in the end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is no news."""


class _Scrape(BaseHTTPRequestHandler):
    server: ExporterServer
    timeout = _CONNECTION_S
    server_version = "vgpumgr-exporter"
    sys_version = ""

    def do_GET(self) -> None:
        """The series, at one path."""
        if self.path.partition("?")[0] != PATH:
            self.send_error(404, f"the series are at {PATH}")
            return
        text = self.server.exporter.text()
        if self.server.exporter.outdated:
            self.send_error(503, "another helper was installed: this one ends")
            self.server.shutdown()
            return
        self.send_response(200)
        self.send_header("Content-Type", MEDIA_TYPE)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are in no log."""


def listen_address(text: str) -> tuple[str, int]:
    """``127.0.0.1:9869``, ``[::1]:9869``, ``:9869`` for all addresses; ValueError for others."""
    found = _LISTEN.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        raise ValueError(f"{text!r} is no ADDRESS:PORT")
    return found["six"] or found["four"] or "::", int(found["port"])


def main(argv: Sequence[str]) -> int:
    """Serve until it is ended, or another helper was installed: its unit starts it again."""
    parser = argparse.ArgumentParser(prog="vgpumgr-helper --export")
    parser.add_argument("--listen", type=listen_address, default=f"127.0.0.1:{PORT}")
    parser.add_argument("--host", default=os.uname().nodename.partition(".")[0])
    parser.add_argument("--all", action="store_true")
    asked = parser.parse_args(argv)
    exporter = HostExporter(asked.host, reading, details=asked.all)
    with ExporterServer(asked.listen, exporter) as server:
        sys.stdout.write("listens at {}:{}\n".format(*server.server_address[:2]))
        sys.stdout.flush()
        server.serve_forever()
    return 0

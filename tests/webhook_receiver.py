"""A receiver of webhooks on this machine: it keeps what it is sent, and answers as it is told."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Received:
    headers: dict[str, str]
    body: bytes
    path: str

    @property
    def event(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def signed_by(self, secret: str) -> bool:
        """As Standard Webhooks says, in other words than the product's."""
        key = base64.b64decode(secret.split("_", 1)[1])
        told = f"{self.id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        proof = base64.b64encode(hmac.new(key, told, hashlib.sha256).digest()).decode()
        return f"v1,{proof}" in self.headers["webhook-signature"].split(" ")


@dataclass
class Receiver:
    """``answers`` are the statuses of the next requests, 200 when there are no more; ``wait_s`` is
    how long each answer takes; ``location`` is where 3xx lead to.
    """

    url: str = ""
    received: list[Received] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    location: str = ""
    wait_s: float = 0.0
    on_request: Callable[[Received], None] = lambda _: None

    def details(self) -> list[str]:
        return [each.event["detail"] for each in self.received]

    def until(self, number: int, within_s: float = 15.0) -> list[Received]:
        wait_for(lambda: len(self.received) >= number, within_s)
        return self.received


def wait_for(what: Callable[[], object], within_s: float = 15.0) -> None:
    until = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.01)


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got = Received({k.lower(): v for k, v in self.headers.items()}, body, self.path)
            receiver.received.append(got)
            receiver.on_request(got)
            if receiver.wait_s:
                time.sleep(receiver.wait_s)
            status = receiver.answers.pop(0) if receiver.answers else 200
            self.send_response(status)
            if receiver.location:
                self.send_header("Location", receiver.location)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:  # who asked did not wait
                pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

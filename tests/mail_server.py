"""A mail server on this machine: it keeps what it is sent, and answers as it is told."""

from __future__ import annotations

import base64
import socketserver
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any


@dataclass
class Mailbox:
    """``refuse`` are answers to the next commands of a kind (``RCPT``, ``DATA``, ``MAIL``, …) in
    place of success; ``wait_s`` is how long each takes; ``user`` and ``password`` must be given
    where they are set, ``tls`` first.
    """

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    to: list[list[str]] = field(default_factory=list)
    logins: list[tuple[str, str, bool]] = field(default_factory=list)
    refuse: dict[str, list[str]] = field(default_factory=dict)
    wait_s: float = 0.0
    user: str = ""
    password: str = ""
    secured: list[bool] = field(default_factory=list)

    def until(self, number: int, within_s: float = 15.0) -> list[EmailMessage]:
        end = time.monotonic() + within_s
        while len(self.mails) < number:
            assert time.monotonic() < end, f"{len(self.mails)} mails of {number} came"
            time.sleep(0.01)
        return self.mails


class _Session(socketserver.StreamRequestHandler):
    """One connection, in the words of RFC 5321, 3207 and 4954."""

    server: Any

    def handle(self) -> None:
        self.box: Mailbox = self.server.mailbox
        self.secure, self.sender, self.rcpt, self.known = self.server.at_once, "", [], False
        if self.secure:
            self._secure()
        self._say("220 here")
        while line := self.rfile.readline(2000).decode().rstrip("\r\n"):
            if not self._answer(line.split(" ", 1)[0].upper(), line):
                return

    def finish(self) -> None:
        with suppress(OSError, ValueError):
            super().finish()
        self.connection.close()

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())
        self.wfile.flush()

    def _secure(self) -> None:
        self.connection = self.server.context.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb")
        self.wfile = self.connection.makefile("wb")
        self.secure = True

    def _answer(self, verb: str, line: str) -> bool:
        if self.box.wait_s:
            time.sleep(self.box.wait_s)
        if self.box.refuse.get(verb):
            self._say(self.box.refuse[verb].pop(0))
            return True
        match verb:
            case "EHLO":
                more = ["STARTTLS"] if self.server.context and not self.secure else []
                more += ["AUTH PLAIN"] if self.box.user else []
                names = ["here", *more, "8BITMIME"]
                for each in names[:-1]:
                    self._say(f"250-{each}")
                self._say(f"250 {names[-1]}")
            case "STARTTLS":
                self._say("220 go")
                self._secure()
            case "AUTH":
                _, user, password = base64.b64decode(line.split(" ")[2]).decode().split("\0")
                self.box.logins.append((user, password, self.secure))
                self.known = (user, password) == (self.box.user, self.box.password)
                self._say("235 known" if self.known else "535 not known")
            case "MAIL" if self.box.user and not self.known:
                self._say("530 log in first")
            case "MAIL":
                self.rcpt = []
                self._say("250 ok")
            case "RCPT":
                self.rcpt.append(line.split("<")[1].split(">")[0])
                self._say("250 ok")
            case "DATA":
                self._say("354 go on")
                self._take()
            case "QUIT":
                self._say("221 bye")
                return False
            case _:
                self._say("250 ok")
        return True

    def _take(self) -> None:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        if self.box.refuse.get("END"):
            self._say(self.box.refuse["END"].pop(0))
            return
        found = message_from_bytes(b"".join(lines), policy=policy.default)
        self.box.to.append(self.rcpt)
        self.box.secured.append(self.secure)
        self.box.mails.append(found)
        self._say("250 taken")


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that goes away is none of the test's."""


@contextmanager
def mail_server(certificate: Path | None = None, *, at_once: bool = False) -> Iterator[Mailbox]:
    """One that offers STARTTLS where ``certificate`` is a folder of a server's, or TLS
    ``at_once``.
    """
    with _Server(("127.0.0.1", 0), _Session) as server:
        context = None
        if certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            chain = certificate / "server-cert.pem"
            context.load_cert_chain(chain, certificate / "server-key.pem")
        server.context, server.at_once = context, at_once  # type: ignore[attr-defined]
        server.mailbox = Mailbox(port=server.server_address[1])  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield server.mailbox  # type: ignore[attr-defined]
        finally:
            server.shutdown()

"""The same attacks on a `vgpumgr api` of its own over TLS, with real tokens and a real VM."""

from __future__ import annotations

import base64
import os
import random
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tests.apiserver import ApiServer, serving_api
from tests.certificates import Authority
from tests.e2e.support import Cli, host, new_cli, vm
from vgpumgr.endpoints.consoles import PATH, PROTOCOL, TICKET

LATE_S = 31.0
HELD = 200
"""Connections that begin to show a ticket and never end it."""
SWITCHED = 101


@dataclass
class LiveAttacks:
    """``tokens`` are those of two colleagues (ann, ben) and of another tenant's user (rex)."""

    cli: Cli
    server: ApiServer
    tokens: dict[str, str]
    trust: ssl.SSLContext
    draw: random.Random
    owners: int = 0
    owners_in: int = 0

    def ticket(self) -> str:
        """A new ticket of ann's."""
        headers = {"Authorization": f"Bearer {self.tokens['ann']}"}
        answer = self.server.ask("POST", "/v1/vms/desk:open-console", {}, headers)
        assert answer.status == 200, answer.body
        protocol: str = answer.body["protocol"]
        return protocol.removeprefix(TICKET)

    def show(self, protocols: str, login: str, *, path: str = PATH, origin: str = "") -> bool:
        """Show a ticket; was it taken?"""
        with self._connected() as line:
            line.sendall(self._asked(protocols, login, path, origin))
            status = line.recv(4096).split(b" ", 2)[1]
            return int(status) == SWITCHED

    def kinds(self) -> dict[str, Callable[[], list[bool]]]:
        """Every kind by its name."""
        return {
            "again": self.again,
            "guessed": self.guessed,
            "other user, other tenant": self.other_login,
            "foreign origin": self.foreign_origin,
            "elsewhere": self.elsewhere,
        }

    def again(self) -> list[bool]:
        """A ticket that was used."""
        secret = self.ticket()
        self._own(secret)
        return [self.show(_offer(secret), self.tokens["ann"]) for _ in range(16)]

    def guessed(self) -> list[bool]:
        """Chance."""
        guesses = [f"{self.draw.getrandbits(256):064x}" for _ in range(16)]
        return [self.show(_offer(each), self.tokens["ann"]) for each in guesses]

    def other_login(self) -> list[bool]:
        """Who has not asked for it."""
        found = []
        for login in ("ben", "rex"):
            secret = self.ticket()
            shown = ("", "vgm_" + "A" * 43, self.tokens[login], self.tokens["ann"])
            found += [self.show(_offer(secret), each) for each in shown]
        return found

    def foreign_origin(self) -> list[bool]:
        """A page of another server."""
        secret, port = self.ticket(), self.server.port
        origins = (
            *("null", "https://evil.example", f"http://127.0.0.1:{port}", "https://127.0.0.1"),
            *(f"https://127.0.0.1:{port + 1}", f"https://127.0.0.1:{port}.evil.example"),
        )
        login = self.tokens["ann"]
        found = [self.show(_offer(secret), login, origin=each) for each in origins]
        self._own(secret, origin=f"https://127.0.0.1:{port}")
        return found

    def elsewhere(self) -> list[bool]:
        """The ticket in the address, alone, or not as a subprotocol at all."""
        secret, login = self.ticket(), self.tokens["ann"]
        found = [
            self.show(PROTOCOL, login, path=f"{PATH}?ticket={secret}"),
            self.show(PROTOCOL, login),
            self.show(TICKET + secret, login),
            self.show(f"{PROTOCOL}, {secret}", login),
            self.show(_offer(secret), login, path=f"{PATH}/desk"),
            self.show(_offer(secret), login, path="/v1/events"),
        ]
        self._own(secret)
        return found

    def late(self) -> list[bool]:
        """After 30 seconds, by the real clock; meanwhile connections are held open."""
        secrets = [self.ticket() for _ in range(8)]
        with ExitStack() as held:
            for _ in range(HELD):
                line = held.enter_context(self._connected())
                line.sendall(self._asked(_offer(secrets[0]), self.tokens["ann"], PATH, "")[:-2])
            self._own(self.ticket())
            time.sleep(LATE_S)
            found = [self.show(_offer(each), self.tokens["ann"]) for each in secrets]
        return found + [False] * HELD

    def revoked(self) -> list[bool]:
        """The login is ended between the ticket and its use."""
        secret = self.ticket()
        self.cli.ok("token", "revoke", "ann")
        return [self.show(_offer(secret), self.tokens["ann"]) for _ in range(8)]

    def _own(self, secret: str, origin: str = "") -> None:
        self.owners += 1
        self.owners_in += self.show(_offer(secret), self.tokens["ann"], origin=origin)

    def _connected(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.server.port), 30)
        return self.trust.wrap_socket(plain, server_hostname="127.0.0.1")

    def _asked(self, protocols: str, login: str, path: str, origin: str) -> bytes:
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: 127.0.0.1:{self.server.port}",
            *("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"),
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            f"Sec-WebSocket-Protocol: {protocols}",
        ]
        lines += [f"Authorization: Bearer {login}"] if login else []
        lines += [f"Origin: {origin}"] if origin else []
        return "\r\n".join([*lines, "", ""]).encode()


def _offer(secret: str) -> str:
    return f"{PROTOCOL}, {TICKET}{secret}"


@contextmanager
def live_attacks(seed: int = 1) -> Iterator[LiveAttacks]:
    """Attacks on a server that is started for them."""
    with new_cli() as cli:
        cli.sim_up(host("h1", ("T4", 2)))
        desk = vm("desk", "T4-2Q", display=True, tenant="blue")
        cli.ok("apply", "-f", cli.documents(desk, vm("rival", tenant="red")))
        Authority(cli.folder / "ca").issue("IP:127.0.0.1", cli.folder)
        named = {"--certificate": "server-cert.pem", "--key": "server-key.pem"}
        tls = [word for name, file in named.items() for word in (name, str(cli.folder / file))]
        tokens = {}
        for name, tenant in (("ann", "blue"), ("ben", "blue"), ("rex", "red")):
            made = cli.ok("token", "create", name, "--role", "tenant-admin", "--tenant", tenant,
                          "-o", "json")  # fmt: skip
            tokens[name] = made.json["secret"]
        trust = ssl.create_default_context(cafile=cli.folder / "ca-cert.pem")
        with serving_api(cli, tls=tuple(tls)) as server:
            yield LiveAttacks(cli, server, tokens, trust, random.Random(seed))


def made_live(one: LiveAttacks, count: int) -> dict[str, Any]:
    """So many attacks of all kinds, and what came of them."""
    tried: Counter[str] = Counter()
    got_in: Counter[str] = Counter()
    began = time.monotonic()

    def note(name: str, found: list[bool]) -> None:
        tried[name] += len(found)
        got_in[name] += sum(found)

    while tried.total() < count:
        for name, attack in one.kinds().items():
            note(name, attack())
    took = time.monotonic() - began
    rate = round(tried.total() / took)
    note("late and held open", one.late())
    note("revoked", one.revoked())
    return {
        "attacks": tried.total(),
        "got_in": got_in.total(),
        "kinds": {name: {"attacks": tried[name], "got_in": got_in[name]} for name in tried},
        "owners": {"tickets": one.owners, "taken": one.owners_in},
        "attacks_a_second": rate,
    }

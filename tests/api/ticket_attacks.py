"""Console tickets under attack: shown again, guessed, by another login, too late, from elsewhere.

``python -m tests.api.ticket_attacks [--attacks 100000] [--live 2000] [--seed 1]``: attacks on the
API's application in this process, where time can be put forward, and ``--live`` more on a
`vgpumgr api` over TLS. Prints JSON: how many of each kind were made, and how many got in; exits 1
where one did, or where a ticket's owner did not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi.requests import HTTPConnection
from sqlalchemy import text

from tests.api.inside import Inside
from tests.api.live_ticket_attacks import live_attacks, made_live
from tests.ledgers import new_ledger
from tests.unit.store.values import fleet, start, vm
from vgpumgr.access.token_secret import secret_digest
from vgpumgr.app.console_tickets import ConsoleTickets
from vgpumgr.endpoints.consoles import PATH, PROTOCOL, TICKET
from vgpumgr.identity.established import Established
from vgpumgr.model.role_binding import Role
from vgpumgr.model.vm import VmSpec, VmState

BLUE, RED = "blue", "red"
OWN_ORIGIN = "https://gpu.example.org"
FOREIGN = (
    *("null", "https://evil.example", "http://gpu.example.org", "https://gpu.example.org:8443"),
    *("https://gpu.example.org.evil.example", "https://evil.gpu.example.org", "", "file://"),
    *("https://gpu.example.org/", "https://GPU.example.org@evil.example", "gpu.example.org"),
)
BATCH = 32
"""How often one ticket is shown, where it may be shown often."""
HELD = 8


class Attacked:
    """The API over VMs of two tenants, whose consoles are pairs of sockets."""

    def __init__(self, folder: Path) -> None:
        path = folder / "ledger.db"
        new_ledger(path)
        ledger = fleet(path)
        ledger.reserve(start(vms=[_running("desk", BLUE), _running("other", BLUE),
                                  _running("rival", RED)]))  # fmt: skip
        ledger.close()
        self.inside = Inside(folder, path)
        self.late_s = self.hours_s = 0.0
        app, service = self.inside.app, self.inside.service
        app.__dict__["console_tickets"] = ConsoleTickets(
            self.inside.ledger, app.access, lambda: time.time() + self.hours_s + self.late_s
        )
        service.consoles.process.open = _pair  # type: ignore[method-assign, assignment]
        self.tokens = {}
        for user, tenant in (("ann", BLUE), ("ben", BLUE), ("rex", RED)):
            self.inside.bind(user, Role.TENANT_ADMIN, tenant)
            self.tokens[user] = self.inside.token(user, Role.TENANT_ADMIN, tenant)
        self._known: dict[str, Established] = {}
        self._authenticate, service.known = service.known, self._known_once  # type: ignore

    def _known_once(self, request: HTTPConnection) -> Established:
        """The logins that stay are authenticated once: their tickets are what is attacked."""
        shown = request.headers.get("authorization", "").removeprefix("Bearer ")
        if shown not in self.tokens.values():
            return self._authenticate(request)
        if shown not in self._known:
            self._known[shown] = self._authenticate(request)
        return self._known[shown]

    def close(self) -> None:
        self.inside.close()

    def ticket(self, user: str = "ann", vm: str = "desk", secret: str = "") -> str:
        """A new ticket."""
        path = f"/v1/vms/{vm}:open-console"
        said = self.inside.ask("POST", path, secret or self.tokens[user], {})
        assert said.status == 200, said.text
        protocol: str = said.body["protocol"]
        return protocol.removeprefix(TICKET)

    def show(self, *shown: Showing) -> list[bool]:
        """Show tickets at the same time; who was let in?"""

        async def all_() -> list[bool]:
            return list(await asyncio.gather(*(self._show(each) for each in shown)))

        return self.inside._loop.run_until_complete(all_())

    async def _show(self, shown: Showing) -> bool:
        headers = {"host": "gpu.example.org"}
        if shown.login:
            headers["authorization"] = f"Bearer {shown.login}"
        if shown.origin is not None:
            headers["origin"] = shown.origin
        scope = {
            "type": "websocket",
            "path": PATH,
            "raw_path": PATH.encode(),
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("192.0.2.1", 5),
            "server": ("vgpumgr", 443),
            "scheme": "wss",
            "root_path": "",
            "http_version": "1.1",
            "subprotocols": [PROTOCOL, TICKET + shown.secret],
            "extensions": {"websocket.http.response": {}},
        }
        come = [{"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1005}]
        sent: list[str] = []

        async def receive() -> dict[str, Any]:
            return come.pop(0)

        async def send(message: dict[str, Any]) -> None:
            sent.append(message["type"])

        await self.inside.api(scope, receive, send)  # type: ignore[arg-type]
        return "websocket.accept" in sent

    def change(self, statement: str) -> None:
        """Change the ledger behind everybody's back."""
        with self.inside.ledger._database.write() as connection:  # type: ignore[attr-defined]
            connection.execute(text(statement))


class Showing:
    """A ticket that is shown by a login (a token's secret), from an origin."""

    def __init__(self, secret: str, login: str, origin: str | None = None) -> None:
        self.secret, self.login, self.origin = secret, login, origin


async def _pair(_wanted: object) -> socket.socket:
    """A console that has ended."""
    near, far = socket.socketpair()
    near.settimeout(0)
    far.close()
    return near


def _running(name: str, tenant: str) -> Any:
    spec = VmSpec(name=name, vcpus=1, memory_mib=512, tenant=tenant)
    return vm(name, spec=spec, state=VmState.ACTIVE, running=True)


class Attacks:
    """Each method is a kind: it makes some attacks, and says how many got in."""

    def __init__(self, attacked: Attacked, seed: int = 1) -> None:
        self.attacked = attacked
        self.draw = random.Random(seed)
        self.owners = self.owners_in = 0
        """Tickets that their owners showed in time, and those that were taken."""

    def kinds(self) -> dict[str, Callable[[], Sequence[bool]]]:
        """Every kind by its name."""
        return {
            "again": self.again,
            "at once": self.at_once,
            "guessed": self.guessed,
            "other user": self.other_user,
            "other tenant": self.other_tenant,
            "other vm": self.other_vm,
            "late": self.late,
            "foreign origin": self.foreign_origin,
            "held open": self.held_open,
            "revoked": self.revoked,
        }

    def again(self) -> Sequence[bool]:
        """A ticket that was used already."""
        secret = self.attacked.ticket()
        self._own(Showing(secret, self._ann))
        return self.attacked.show(*[Showing(secret, self._ann) for _ in range(BATCH)])

    def at_once(self) -> Sequence[bool]:
        """All at the same time: the first is the owner, whichever it is."""
        secret = self.attacked.ticket()
        got_in = sorted(self.attacked.show(*[Showing(secret, self._ann) for _ in range(BATCH)]))
        self.owners += 1
        self.owners_in += got_in[-1]
        return got_in[:-1]

    def guessed(self) -> Sequence[bool]:
        """Chance, and what is near a real ticket, which stays good."""
        secret = self.attacked.ticket()
        near = (
            *(secret[:-1], secret + "0", secret.upper(), secret[::-1], "", "*", "%", "' OR 1=1 --"),
            *(secret[:-1] + "01"[secret[-1] == "0"], secret_digest(secret)),
        )
        guesses = [*near, *(f"{self.draw.getrandbits(256):064x}" for _ in range(3 * BATCH))]
        found = self.attacked.show(*(Showing(each, self._ann) for each in guesses))
        self._own(Showing(secret, self._ann, OWN_ORIGIN))
        return found

    def other_user(self) -> Sequence[bool]:
        """A colleague with the same rights, or a stranger, has got hold of it."""
        ben = self.attacked.tokens["ben"]
        logins = [ben, self.draw.choice(("", "vgm_" + "A" * 43, "nonsense"))]
        return [self._first(login) for login in logins]

    def other_tenant(self) -> Sequence[bool]:
        """By another tenant's login; and its own ask for a ticket."""
        rex, ask = self.attacked.tokens["rex"], self.attacked.inside.ask
        asked = [
            ask("POST", f"/v1/vms/{name}:open-console", rex, {"kind": kind}).status != 404
            for name in ("desk", "other", "no-such")
            for kind in ("screen", "serial")
        ]
        return [*asked, self._first(rex)]

    def other_vm(self) -> Sequence[bool]:
        """The VM is off, was changed, or is another one of that name by now."""
        change = self.draw.choice(("running = false", "generation = generation + 1", "deleted"))
        secret = self.attacked.ticket(vm="other")
        where = "WHERE name = 'other' AND tenant = 'blue'"
        if change == "deleted":
            self.attacked.change(f"UPDATE vm SET name = 'other-one' {where}")
        else:
            self.attacked.change(f"UPDATE vm SET {change} {where}")
        found = self.attacked.show(Showing(secret, self._ann))
        self.attacked.change("UPDATE vm SET name = 'other' WHERE name = 'other-one'")
        self.attacked.change(f"UPDATE vm SET running = true {where}")
        return [*found, *self.attacked.show(Showing(secret, self._ann))]

    def late(self) -> Sequence[bool]:
        """After 30 seconds."""
        secret = self.attacked.ticket()
        self.attacked.late_s = 30.0 + self.draw.random() * self.draw.choice((0.5, 60, 86400))
        found = self.attacked.show(Showing(secret, self._ann))
        self.attacked.late_s = 0.0
        return [*found, *self.attacked.show(Showing(secret, self._ann))]

    def foreign_origin(self) -> Sequence[bool]:
        """By a page of another server, in the user's own browser."""
        secret = self.attacked.ticket()
        found = self.attacked.show(*(Showing(secret, self._ann, each) for each in FOREIGN))
        self._own(Showing(secret, self._ann, OWN_ORIGIN))
        return found

    def held_open(self) -> Sequence[bool]:
        """As many tickets as one login may have, kept until they are over."""
        held = [self.attacked.ticket("ben") for _ in range(HELD)]
        self.attacked.late_s = 30.5
        found = self.attacked.show(*(Showing(each, self.attacked.tokens["ben"]) for each in held))
        self.attacked.late_s = 0.0
        return found

    def revoked(self) -> Sequence[bool]:
        """The login ended between the ticket and its use; or the role was taken."""
        inside = self.attacked.inside
        user = f"eve-{self.draw.getrandbits(64):x}"
        inside.bind(user, Role.TENANT_ADMIN, BLUE)
        login = inside.token(user, Role.TENANT_ADMIN, BLUE)
        secret = self.attacked.ticket(secret=login)
        if self.draw.random() < 0.5:
            inside.revoke_last()
        else:
            inside.ledger.unbind_role(f"user:{user}", Role.TENANT_ADMIN, BLUE)
        return self.attacked.show(*[Showing(secret, login) for _ in range(BATCH)])

    @property
    def _ann(self) -> str:
        return self.attacked.tokens["ann"]

    def _own(self, shown: Showing) -> None:
        """The owner: without this a server that lets no one in would pass."""
        self.owners += 1
        self.owners_in += self.attacked.show(shown) == [True]

    def _first(self, login: str) -> bool:
        """Another login is the first to show it, and uses it up."""
        secret = self.attacked.ticket()
        [got_in] = self.attacked.show(Showing(secret, login))
        if login in self.attacked.tokens.values():
            got_in |= self.attacked.show(Showing(secret, self._ann)) == [True]
        return got_in


@contextmanager
def attacks(folder: Path, seed: int = 1) -> Iterator[Attacks]:
    """Attacks on the application in this process."""
    attacked = Attacked(folder)
    try:
        yield Attacks(attacked, seed)
    finally:
        attacked.close()


def made(one: Attacks, count: int) -> dict[str, Any]:
    """So many attacks of all kinds, and what came of them."""
    tried: Counter[str] = Counter()
    got_in: Counter[str] = Counter()
    began = time.monotonic()
    while tried.total() < count:
        one.attacked.hours_s += 31.0  # what was left open is over
        for name, attack in one.kinds().items():
            found = attack()
            tried[name] += len(found)
            got_in[name] += sum(found)
    took = time.monotonic() - began
    return {
        "attacks": tried.total(),
        "got_in": got_in.total(),
        "kinds": {name: {"attacks": tried[name], "got_in": got_in[name]} for name in tried},
        "owners": {"tickets": one.owners, "taken": one.owners_in},
        "seconds": round(took, 1),
        "attacks_a_second": round(tried.total() / took),
    }


def _here(asked: tuple[int, int]) -> dict[str, Any]:
    """In a process of its own: so many, with that seed."""
    count, seed = asked
    with tempfile.TemporaryDirectory() as folder, attacks(Path(folder), seed) as one:
        return made(one, count)


def main() -> None:
    """Print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attacks", type=int, default=100_000)
    parser.add_argument("--live", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    shares = [(asked.attacks // asked.processes, asked.seed + n) for n in range(asked.processes)]
    with ProcessPoolExecutor(asked.processes) as pool:
        told = {f"here {n}": each for n, each in enumerate(pool.map(_here, shares))}
    if asked.live:
        with live_attacks(asked.seed) as one:
            told["over TLS"] = made_live(one, asked.live)
    got_in = sum(each["got_in"] for each in told.values())
    kept_out = sum(each["owners"]["tickets"] - each["owners"]["taken"] for each in told.values())
    whole = {
        "attacks": sum(each["attacks"] for each in told.values()),
        "got_in": got_in,
        "owners_kept_out": kept_out,
        **told,
    }
    print(json.dumps(whole, indent=2))
    sys.exit(bool(got_in or kept_out))


if __name__ == "__main__":
    main()

"""What one tenant is told through the API has none of another tenant's marker in it.

``python -m tests.api.markers [--asks 10000] [--seed 1]``: random requests of a tenant's
administrator over a ledger of two tenants, and the stream of events. Exits 1 at the first leak.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlencode

from tests.api.inside import Inside
from tests.api.needed import FOR_ALL_TENANTS
from tests.ledgers import new_ledger
from tests.two_tenants import BLUE, IDS, NAMES, RED, TwoTenants
from vgpumgr.endpoints.endpoint import AnyEndpoint, HttpMethod
from vgpumgr.endpoints.registry import ENDPOINTS
from vgpumgr.model.role_binding import Role
from vgpumgr.model.showback import PriceBook

ASKS_A_HOST = frozenset({"vm.xml"})
"""What is asked of a host: there is none here."""
GETS = [
    each
    for each in ENDPOINTS.values()
    if each.method is HttpMethod.GET and each.name not in FOR_ALL_TENANTS | ASKS_A_HOST
]
POWER = ("/vms:start", "/vms:stop", "/vms:reboot")
BY_NAMES = ("/vms:preview-delete", "/vms:delete", "/queue:cancel", *POWER)
BY_NAME = {
    "/pools/{name}:scale": {"min": 1},
    "/pools/{name}:drain": {},
    "/pools/{name}:assign": {"user": "ada"},
    "/pools/{name}:release": {"user": "ada"},
    "/pools/{name}:push-image": {"image": "cad@1"},
    "/operations/{name}:resume": {},
    "/operations/{name}:undo": {},
}
BY_DOCUMENT = ("/vms:find", "/vms:explain", "/pools:find", "/pools:plan")
Ask = tuple[str, str, str, object, list[str]]
"""What kind it is, its method, path and body, and the words that it names."""
AUDIT = ("vm", "host", "operation", "event", "by", "user", "tenant")


class BlueAsks:
    """Random requests of the administrator of the tenant ``BLUE``."""

    def __init__(self, inside: Inside, seed: int = 1) -> None:
        self.inside = inside
        self.draw = random.Random(seed)
        self.statuses: Counter[tuple[str, int]] = Counter()
        inside.bind("blue-admin", Role.TENANT_ADMIN, BLUE)
        self.secret = inside.token("blue-admin", Role.TENANT_ADMIN, BLUE)

    def leak(self) -> str:
        """A request, and what it told of the other tenant; empty: nothing."""
        kind = self.draw.randrange(10)
        kind_of, method, path, body, said = self._get() if kind < 7 else self._change()
        answer = self.inside.ask(method, f"/v1{path}", self.secret, body)
        self.statuses[kind_of, answer.status] += 1
        text = answer.text
        for each in sorted(said, key=len, reverse=True):
            text = text.replace(each, "") if each else text
        if RED in text:
            at = text.index(RED)
            return f"{method} {path} {body}: {answer.status} …{text[max(0, at - 120) : at + 80]}…"
        return ""

    def leak_in_events(self) -> str:
        """What the stream of events told of the other tenant."""
        for each in self.inside.events(self.secret, self.draw.randrange(30), 500):
            if RED in each:
                return each
        return ""

    def _word(self) -> str:
        return self.draw.choice((*NAMES, *IDS, "cad@1", "i-1"))

    def _get(self) -> Ask:
        endpoint: AnyEndpoint = self.draw.choice(GETS)
        said: list[str] = []

        def named(_: re.Match[str]) -> str:
            said.append(self._word() or "nothing")
            return quote(said[-1], safe="")

        path = re.sub(r"{\w+}", named, endpoint.path)
        query = {}
        if endpoint.name == "audit.list":
            query = {each: self._word() for each in self.draw.sample(AUDIT, self.draw.randrange(3))}
        if endpoint.name in {"operation.list", "allocation.list", "booking.list"}:
            option = {"operation": "open", "allocation": "released", "booking": "past"}
            query = {option[endpoint.name.partition(".")[0]]: self.draw.choice(("true", "false"))}
        if endpoint.name.startswith("report."):
            query = {"since": "1700000000", "until": "1700003600"}
        said += query.values()
        return endpoint.name, "GET", f"{path}?{urlencode(query)}" if query else path, None, said

    def _change(self) -> Ask:
        way = self.draw.randrange(3)
        foreign = self.draw.choice([each for each in (*NAMES, *IDS) if RED in each])
        if way == 0:
            path = self.draw.choice(BY_NAMES)
            return path, "POST", path, {"names": [foreign]}, [foreign]
        if way == 1:
            path = self.draw.choice(list(BY_NAME))
            return path, "POST", path.replace("{name}", foreign), BY_NAME[path], [foreign]
        path = self.draw.choice(BY_DOCUMENT)
        asked = {"text": self._document(path, foreign), "source": "f"}
        return path, "POST", path, asked, [foreign]

    def _document(self, path: str, foreign: str) -> str:
        name = self.draw.choice((foreign, f"{BLUE}-new", f"{BLUE}-vm"))
        tenant = self.draw.choice(({}, {"tenant": BLUE}, {"tenant": "default"}))
        both: dict[str, object] = {"apiVersion": "vgpumgr/v1", "name": name, **tenant}
        both |= {"memory": "1GiB", "vcpus": 1}
        if path.startswith("/pools"):
            both["image"], both["entitlement"] = "cad@1", {"groups": ["all"]}
            whole = {**both, "kind": "Pool", "min": 1, "max": 2, "gpus": _PART}
        else:
            whole = {**both, "kind": "VM", "gpus": _PART}
            if self.draw.randrange(4) == 0:
                whole["queue"] = {"after": [foreign]} if name != foreign else {}
        return json.dumps(whole)


_PART = [{"profile": "T4-4Q"}]


@contextmanager
def blue_asks(folder: Path, seed: int = 1) -> Iterator[BlueAsks]:
    """A ledger of two tenants, and one of them who asks the API over it."""
    new_ledger(folder / "ledger.db")
    TwoTenants(folder / "ledger.db").close()
    inside = Inside(folder, folder / "ledger.db")
    prices = PriceBook(begins_at=0.0, currency="EUR", gpu_hour={"*": "1"})
    inside.ledger.set_price_book(prices)
    try:
        yield BlueAsks(inside, seed)
    finally:
        inside.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--asks", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, blue_asks(Path(folder), given.seed) as asks:
        began, told = time.monotonic(), ""
        for number in range(given.asks):
            if told := asks.leak() or (asks.leak_in_events() if number % 1000 == 0 else ""):
                break
        for (path, status), count in sorted(asks.statuses.items()):
            print(f"{count:7} {status} {path}")
        print(told or f"{given.asks} asks, {time.monotonic() - began:.0f} s: nothing is told")
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main())

"""Requests that come again and again under one key: each key does what it asks for once.

``python -m tests.api.repeats [--keys 500] [--repeats 20]``: threads send each request many times,
at once, to two API processes on one ledger, and cut some connections while the answer comes. A
third of the keys stops or starts a VM, a third makes a token, a third asks for what is refused.
"""

from __future__ import annotations

import argparse
import json
import queue
import random
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any

from tests.api.bench import fleet, opened, postgresql, report, say, vm_names, whole_trail
from tests.apiserver import ApiServer, UnixHttp, serving_api
from tests.e2e.support import Cli, until
from vgpumgr.store.sql_ledger import SqlLedger

VMS, AT_ONCE, CUT = 32, 8, 0.15
KINDS = ("power", "token", "refused")


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """What is asked for under the key of a number."""

    number: int

    @property
    def key(self) -> str:
        return f"key-{self.number}"

    @property
    def kind(self) -> str:
        return KINDS[self.number % len(KINDS)]

    @property
    def asked(self) -> tuple[str, dict[str, Any]]:
        """The path and the body."""
        of_kind = self.number // len(KINDS)
        if self.kind == "token":
            return "/v1/tokens", {"name": self.key, "role": "viewer"}
        names = [vm_names(VMS)[of_kind % VMS]] if self.kind == "power" else [f"no-{self.number}"]
        if of_kind // VMS % 2:
            return "/v1/vms:start", {"names": names}
        return "/v1/vms:stop", {"names": names, "force": True}


@dataclass(slots=True)
class Heard:
    """What the clients were told; safe to share between threads."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    sent: int = 0
    cut: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    operations: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    secrets: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def hear(self, request: KeyedRequest, status: int, body: Any) -> None:
        """One whole answer."""
        with self.lock:
            self.statuses[f"{request.kind} {status}"] += 1
            if status >= 500 or (status >= 400 and not body.get("code")):
                self.wrong.append(f"{request.key}: {status} {json.dumps(body)[:300]}")
            if status < 300 and request.kind == "power":
                self.operations[request.key].add(body.get("operation") or body["name"])
            if status < 300 and request.kind == "token":
                self.secrets[request.key] += 1


def send(server: ApiServer, request: KeyedRequest, chance: random.Random, heard: Heard) -> None:
    """Send it once; perhaps the connection is cut before the answer is there, or half-way."""
    path, body = request.asked
    wait = chance.choice(["", "?wait=20s"]) if request.kind == "power" else ""
    headers = {"Idempotency-Key": request.key, "Content-Type": "application/json"}
    cut, connection = chance.random() < CUT, UnixHttp(server.path)
    try:
        connection.request("POST", path + wait, json.dumps(body), headers)
        if cut:
            time.sleep(chance.random() * 0.2)
            with heard.lock:
                heard.cut += 1
            return
        answer = connection.getresponse()
        heard.hear(request, answer.status, json.loads(answer.read()))
    except (OSError, HTTPException, ValueError) as error:
        with heard.lock:
            heard.wrong.append(f"{request.key}: {type(error).__name__}: {error}")
    finally:
        connection.close()


def in_any_order(keys: int, repeats: int, chance: random.Random) -> Iterator[KeyedRequest]:
    """Each request many times, some of them mixed with each other."""
    for first in range(0, keys, AT_ONCE):
        some = [KeyedRequest(n) for n in range(first, min(first + AT_ONCE, keys))] * repeats
        chance.shuffle(some)
        yield from some


def bombard(servers: list[ApiServer], keys: int, repeats: int, threads: int, seed: int) -> Heard:
    """Send all of them from many threads."""
    heard, waiting = Heard(), queue.SimpleQueue[KeyedRequest]()
    for each in in_any_order(keys, repeats, random.Random(seed)):
        waiting.put(each)

    def client(number: int) -> None:
        chance = random.Random(seed * 1000 + number)
        while True:
            try:
                request = waiting.get_nowait()
            except queue.Empty:
                return
            with heard.lock:
                heard.sent += 1
                if heard.sent % 500 == 0:
                    say(f"{heard.sent} requests sent")
            send(chance.choice(servers), request, chance, heard)

    clients = [threading.Thread(target=client, args=(n,)) for n in range(threads)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    return heard


def judge(ledger: SqlLedger, heard: Heard, keys: int, before: set[str]) -> dict[str, int]:
    """Compare what was told with what is in the ledger; complaints go to ``heard.wrong``."""
    trail = whole_trail(ledger)
    begun = [
        r.operation for r in trail if r.event == "operation.begun" and r.operation not in before
    ]
    tokens = Counter(each.name for each in ledger.api_tokens())
    bound: dict[str, str] = {}
    for request in map(KeyedRequest, range(keys)):
        named = heard.operations.get(request.key, set())
        if len(named) > 1:
            heard.wrong.append(f"{request.key} names the operations {sorted(named)}")
        there, told = tokens[request.key], heard.secrets[request.key]
        if request.kind == "token" and (there != 1 or told > 1):
            heard.wrong.append(f"{request.key}: {there} tokens, told {told} times")
        for operation in named:
            found = ledger.request_of(operation)
            if found is None or found.key != request.key:
                heard.wrong.append(f"{request.key}: operation {operation} is under {found}")
            bound[operation] = request.key
    if twice := [each for each, number in Counter(begun).items() if number > 1]:
        heard.wrong.append(f"begun twice: {twice}")
    if stray := set(begun) - set(bound):
        heard.wrong.append(f"operations that no answer names: {sorted(stray)}")
    wanted = sum(KeyedRequest(n).kind == "power" for n in range(keys))
    if len(begun) != wanted:
        heard.wrong.append(f"{wanted} keys began {len(begun)} operations")
    return {"operations": len(begun), "tokens": len(tokens)}


def run(cli: Cli, keys: int, repeats: int, threads: int, seed: int) -> dict[str, Any]:
    """The trial on one ledger."""
    began = time.monotonic()
    with opened(cli) as ledger, serving_api(cli, name="a") as a, serving_api(cli, name="b") as b:
        before = {each.id for each in ledger.operations()}
        heard = bombard([a, b], keys, repeats, threads, seed)
        until(lambda: not ledger.operations(open_only=True), "the end of every operation")
        counts = judge(ledger, heard, keys, before)
    return {
        "keys": keys,
        "requests": heard.sent,
        "cut": heard.cut,
        "seconds": round(time.monotonic() - began, 1),
        **counts,
        "answers": dict(sorted(heard.statuses.items())),
        "wrong": heard.wrong[:20],
    }


def trial(asked: argparse.Namespace) -> dict[str, Any]:
    """On a file, and then smaller on PostgreSQL."""
    with fleet(VMS) as cli:
        on_file = run(cli, asked.keys, asked.repeats, asked.threads, asked.seed)
    figures: dict[str, Any] = {"sqlite": on_file, "wrong": on_file["wrong"]}
    with postgresql() as address:
        if address and asked.pg_keys:
            with fleet(VMS, address) as cli:
                found = run(cli, asked.pg_keys, asked.repeats, asked.threads, asked.seed)
            figures |= {"postgresql": found, "wrong": figures["wrong"] + found["wrong"]}
    return figures


def main() -> int:
    """Exit status 1 where a key did something twice, or not at all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=500)
    parser.add_argument("--pg-keys", type=int, default=60, help="on PostgreSQL; 0: not there")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    return report(trial, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())

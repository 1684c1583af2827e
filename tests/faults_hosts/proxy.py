"""A TCP proxy in front of the hosts' sshd that cuts connections after so many bytes.

A process of its own. On standard input a line of JSON per order: ``{"host", "listen", "to"}`` puts
it before a host, ``{"host", "cut_after"}`` cuts all connections of that host once as many more
bytes went over them (null: not any more). Each order, and each cut, is answered by a line.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from typing import Any

ADDRESS = "10.77.0.1"
_PIECE = 64 << 10


@dataclass
class Gate:
    """The way to one host: its open connections, and the bytes that may still go over them."""

    host: str
    to: str
    left: int | None = None
    open: set[asyncio.StreamWriter] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, both ways, until either end is gone."""
        self.open.add(writer)
        try:
            there, back = await asyncio.open_connection(self.to, 22)
            self.open.add(back)
            ways = (self._pump(reader, back), self._pump(there, writer))
            await asyncio.wait([asyncio.ensure_future(each) for each in ways])
            self._close(back)
        except OSError:
            pass
        self._close(writer)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(_PIECE):
                sink.write(self._passed(data))
                await sink.drain()
        with suppress(OSError, RuntimeError):
            sink.write_eof()

    def _passed(self, data: bytes) -> bytes:
        """What may go over; with the last byte that may, everything is cut."""
        if self.left is None:
            return data
        may = data[: self.left]
        self.left -= len(may)
        if self.left == 0:
            self.left = None
            asyncio.get_running_loop().call_soon(self.cut)
        return may

    def cut(self) -> None:
        """Reset every connection."""
        for each in self.open:
            each.transport.abort()
        self.open.clear()
        say({"cut": self.host})

    def _close(self, writer: asyncio.StreamWriter) -> None:
        self.open.discard(writer)
        writer.close()


def say(what: dict[str, Any]) -> None:
    """A line of JSON."""
    print(json.dumps(what), flush=True)


async def main() -> None:
    """Follow orders until standard input ends."""
    gates: dict[str, Gate] = {}
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(orders), sys.stdin
    )
    while line := await orders.readline():
        order = json.loads(line)
        if "listen" in order:
            gate = gates[order["host"]] = Gate(order["host"], order["to"])
            await asyncio.start_server(gate.serve, ADDRESS, order["listen"])
        else:
            gates[order["host"]].left = order["cut_after"]
        say({"did": order["host"]})


class Proxy:
    """The process, from outside. ``cuts`` counts what it has cut."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", sys.executable, "-I", str(Path(__file__))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.cuts: Queue[str] = Queue()
        self._done: Queue[str] = Queue()
        self._orders = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def before(self, host: str, port: int, to: str) -> str:
        """Put it before a host; where it is reached from now on."""
        self._order({"host": host, "listen": port, "to": to})
        return f"{ADDRESS}:{port}"

    def cut_after(self, host: str, count: int | None) -> None:
        """Cut everything to that host once as many more bytes went over; None: do not."""
        self._order({"host": host, "cut_after": count})

    def cuts_since(self) -> list[str]:
        """The hosts that were cut off since this was asked last."""
        found: list[str] = []
        with suppress(Empty):
            while True:
                found.append(self.cuts.get_nowait())
        return found

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def _order(self, order: dict[str, Any]) -> None:
        with self._orders:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            self._done.get(timeout=10)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            (self.cuts.put(said["cut"]) if "cut" in said else self._done.put(said["did"]))


if __name__ == "__main__":
    asyncio.run(main())

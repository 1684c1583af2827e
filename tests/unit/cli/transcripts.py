"""What was typed and what was printed, in a file: every command is run again and compared.

A transcript has lines ``$ vgpumgr …`` with the output below: standard output, standard error, and
``[exit N]`` where the command did not end with 0. ``$ cat > FILE <<END`` writes the lines up to
``END`` into a file, ``$ truncate -s NM FILE`` makes a disk image, ``$ ssh HOST virsh …`` is what
another administrator does, ``$ inject HOST FAULT`` what befalls a host. A minute passes
before each command, and none in it. Ids that are drawn
by chance are printed as ``ID1``, ``ID2``, … by when they first appear, and can be typed so;
digests, keys and signatures of the audit trail as ``DIGEST``.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shlex
import socket
import time
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest import mock

from tests.e2e.support import Ran, run_argv
from tests.ledgers import new_ledger
from vgpumgr.access.principal import Principal
from vgpumgr.app.composition import App
from vgpumgr.app.webhooks.receiver_address import ReceiverRules
from vgpumgr.identity.local_accounts import LocalAccounts
from vgpumgr.model.actor import LoginMethod
from vgpumgr.model.host import HostRecord
from vgpumgr.model.sim_fleet import SimFleet
from vgpumgr.sim.in_process import InProcessHosts
from vgpumgr.store import open_ledger

_UUID = re.compile(r"\b([0-9a-f]{8})(?:(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})?\b")
_MAC = re.compile(r"52:54:00(:[0-9a-f]{2}){3}")
# Of the trail's seal: they would be others after any change above them.
_KEY_ID = re.compile(r"\+[0-9a-f]{8}\+")
_DIGEST = re.compile(r"[A-Za-z0-9+/]{40,}=*")
STATE = "state"
_BEGIN, _BETWEEN_S = 1_800_000_000.0, 60.0
ADA = Principal(
    user="ada",
    groups=frozenset({"staff"}),
    method=LoginMethod.SHELL,
    uid=1000,
    is_local=True,
    owns_ledger=True,
)
_STRAY = """\
<domain type="kvm"><name>{}</name><memory unit="MiB">512</memory><vcpu>1</vcpu>
<os><type arch="x86_64" machine="q35">hvm</type></os></domain>"""


class _Ids:
    """Ids in place of those drawn by chance, and what a transcript calls them."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        self._drawn: dict[str, str] = {}
        self._named: dict[str, str] = {}

    def draw(self) -> uuid.UUID:
        drawn = uuid.UUID(int=self._random.getrandbits(128), version=4)
        self._drawn[str(drawn)[:8]] = str(drawn)
        return drawn

    def chance(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def named(self, text: str) -> str:
        return _UUID.sub(lambda found: self._name(found[0], found[1]), text)

    def _name(self, found: str, start: str) -> str:
        if start not in self._drawn:
            return found
        return self._named.setdefault(start, f"ID{len(self._named) + 1}")

    def typed(self, text: str) -> str:
        ids = {name: self._drawn[start] for start, name in self._named.items()}
        return re.sub(r"\bID\d+\b", lambda found: ids.get(found[0], found[0]), text)


class Program:
    """The program over simulated hosts in this process, all enrolled, in a folder of its own."""

    def __init__(self, folder: Path, fleet: SimFleet) -> None:
        self._folder = folder
        self._ids, self._now = _Ids(), _BEGIN
        self._open = partial(open_ledger, now=lambda: self._now)
        file = folder / STATE / "ledger.sqlite"
        with mock.patch("uuid.uuid4", self._ids.draw):
            new_ledger(file)
            with contextlib.closing(self._open(file)) as ledger:
                identity = ledger.fleet_id(), ledger.epoch()
                for host in fleet.hosts:
                    ledger.add_host(HostRecord(name=host.name, address=f"sim://{host.name}"))
            self._hosts = InProcessHosts(fleet, identity=lambda: identity)

    def close(self) -> None:
        self._hosts.close()

    def played(self, transcript: str) -> str:
        """The transcript as it is today."""
        told = []
        for command, text in commands(transcript):
            told.append(f"$ {command}\n")
            match command.split():
                case ["cat", ">", file, "<<END"]:
                    (self._folder / file).write_text(text)
                    told.append(f"{text}END\n")
                case ["truncate", "-s", size, file]:
                    (self._folder / file).write_bytes(bytes(int(size.removesuffix("M")) << 20))
                case ["ssh", host, "virsh", verb, domain]:
                    self._by_hand(host, verb, domain)
                case ["inject", host, *fault]:
                    self._hosts.fleet.inject(host, fault)
                case _:
                    told.append(self._typed(command))
        return "".join(told)

    def _typed(self, command: str) -> str:
        self._now += _BETWEEN_S
        _, *args = shlex.split(self._ids.typed(command))
        with self._world():
            ran = self._run(*args)
        said = _MAC.sub("52:54:00:MA:CA:DR", ran.out + ran.err)
        if args[:1] == ["audit"]:
            said = _DIGEST.sub("DIGEST", _KEY_ID.sub("+KEY-ID+", said))
        end = f"[exit {ran.code}]\n" if ran.code else ""
        return self._ids.named(said).replace(str(self._folder), "FOLDER") + end

    @contextlib.contextmanager
    def _world(self) -> Iterator[None]:
        """The transcript's clock, ids, hosts and folder."""
        with (
            contextlib.chdir(self._folder),
            mock.patch.dict(os.environ, TZ="UTC", VGPUMGR_LANES="1"),
            mock.patch.object(App, "sim_hosts", self._hosts),
            mock.patch("vgpumgr.store.open_ledger", self._open),
            mock.patch("time.time", lambda: self._now),
            mock.patch("uuid.uuid4", self._ids.draw),
            mock.patch("secrets.token_bytes", self._ids.chance),
            mock.patch.object(ReceiverRules, "resolve", _no_name),
            mock.patch.object(LocalAccounts, "by_uid", lambda *_: ADA),
            mock.patch.object(LocalAccounts, "by_name", lambda *_: ADA),
            mock.patch("socket.gethostname", lambda: "controller"),
            mock.patch("vgpumgr.app.composition.actor", lambda: "ada@controller"),
        ):
            time.tzset()
            yield
        time.tzset()

    def _run(self, *args: str) -> Ran:
        """One command, within the transcript's clock, ids and hosts."""
        return run_argv("vgpumgr", "--state-dir", STATE, *args)

    def _by_hand(self, host: str, verb: str, domain: str) -> None:
        domains = self._hosts.open(HostRecord(name=host, address=f"sim://{host}")).domains
        if verb == "define":
            domains.define(_STRAY.format(domain))
        else:
            domains.destroy(domain)
        if verb == "undefine":
            domains.undefine(domain)


def _no_name(*_: object) -> str:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def commands(transcript: str) -> Iterator[tuple[str, str]]:
    """Each command, with the text of the file that it writes."""
    lines = iter(transcript.splitlines(keepends=True))
    for line in lines:
        if line.startswith("$ "):
            here = line.rstrip().endswith("<<END")
            file = iter(lines.__next__, "END\n") if here else ()
            yield line[2:].rstrip(), "".join(file)

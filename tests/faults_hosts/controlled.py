"""The controller's process, from outside: started, told, killed, started again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from tests.faults_hosts.fleet import Fleet
from tests.faults_hosts.operators import CLAIMS_LOST
from vgpumgr.model.codec import to_plain

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-m", "tests.faults_hosts.controller")


class Ended(RuntimeError):
    """The process is not there any more."""


class Controller:
    """At most one process at a time; each has another ``life``. ``restarts`` are those that its
    lost claims made necessary.
    """

    def __init__(self, fleet: Fleet, ledger: str, **settings: Any) -> None:
        self.ledger = ledger
        self.log = fleet.folder / f"log-{Path(ledger).name.partition('?')[0]}.jsonl"
        self._file = fleet.folder / "order.json"
        self._order: dict[str, Any] = {
            **settings,
            "ledger": ledger,
            "state_dir": str(fleet.folder / "state"),
            "ssh_config": str(fleet.ssh_config),
            "log": str(self.log),
            "hosts": list(fleet.hosts),
            "records": [to_plain(each) for each in fleet.records.values()],
            "life": 0,
        }
        self._process: subprocess.Popen[str] | None = None
        self._said: Queue[str] = Queue()
        self.restarts = 0

    def start(self, within_s: float) -> bool:
        """Start it; has it gone on with all that was left within that time?"""
        self._order["life"] += 1
        self._file.write_text(json.dumps(self._order))
        complaints = self._file.with_name("controller.err").open("ab")
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *PROGRAM, str(self._file)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        )
        self._said = Queue()
        threading.Thread(target=_listen, args=(self._process, self._said), daemon=True).start()
        return self._heard("ready", within_s)

    def tell(self, words: str, within_s: float = 10.0) -> bool:
        """Give it an order; has it answered within that time? One that has ended because its
        claims were lost is started again first, as systemd would.
        """
        while True:
            try:
                self._say(words)
                return self._heard(words.split(" ")[0], within_s)
            except (BrokenPipeError, Ended):
                if not self._lost_its_claims():
                    raise
                self.restarts += 1
                if not self.start(within_s):
                    return False

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def events(self) -> list[dict[str, Any]]:
        """What its lives have written so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def _say(self, words: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{words}\n")
        self._process.stdin.flush()

    def _lost_its_claims(self) -> bool:
        assert self._process is not None
        return self._process.wait() == CLAIMS_LOST

    def _heard(self, word: str, within_s: float) -> bool:
        try:
            said = self._said.get(timeout=within_s)
        except Empty:
            return False
        if said != word:
            told = self._file.with_name("controller.err").read_text()[-2000:]
            raise Ended(f"the controller said {said!r} instead of {word}: {told}")
        return True


def _listen(process: subprocess.Popen[str], said: Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        said.put(line.strip())
    said.put("")

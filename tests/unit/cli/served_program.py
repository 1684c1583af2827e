"""The program of a transcript at a server: the application on a unix socket, from a thread.

Its workers are threads here, so that they see the clock, the ids and the hosts of the transcript; a
job and its events go through JSON as they do between processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import click
import uvicorn
from fastapi import Request

from tests.e2e.support import Ran, run_argv
from tests.unit.cli.transcripts import STATE, Program
from vgpumgr.api.application import make_application
from vgpumgr.api.live_answers import LiveAnswer
from vgpumgr.api.service import Service
from vgpumgr.api.worker import JobTeller, work
from vgpumgr.api.worker_pool import WorkerJob
from vgpumgr.app.access_control import AccessControl
from vgpumgr.app.composition import App
from vgpumgr.app.config import load_config
from vgpumgr.cli.root import root
from vgpumgr.identity.established import Established
from vgpumgr.model.actor import Actor
from vgpumgr.model.sim_fleet import SimFleet

AWAY = "away"
"""The state folder of the client, which stays empty."""
CONSOLES = frozenset({"pool connect", "vm connect", "vm console"})
"""A process of its own joins these, which does not know the hosts in this one."""
NOT_THERE = "this command works on the controller's own files"


class ThreadWorkers:
    """In place of worker processes: every job in a thread, with an app of its own."""

    def __init__(self, overrides: dict[str, str]) -> None:
        self._overrides = overrides

    def start(self) -> None:
        """Nothing is kept ready."""

    def close(self) -> None:
        """Nothing is kept."""

    def submit(self, job: WorkerJob) -> None:
        threading.Thread(target=self._work, args=(job,), daemon=True).start()

    def _work(self, job: WorkerJob) -> None:
        app = App(load_config(os.environ, Path.cwd(), self._overrides))
        heard = SimpleNamespace(write=lambda line: job.hear(json.loads(line)), flush=lambda: None)
        try:
            work(app, json.loads(json.dumps(job.asked)), JobTeller(heard))
        finally:
            app.close()


class ServedProgram(Program):
    """Every command is typed at a client. ``local`` are the commands that are not carried out at a
    server: they work on the files beside it, as the transcript has them.
    """

    def __init__(self, folder: Path, fleet: SimFleet) -> None:
        super().__init__(folder, fleet)
        self.local: set[str] = set()
        self._socket = folder / "api.sock"
        self._served = contextlib.ExitStack()
        self._served.enter_context(self._world())
        self._served.enter_context(self._serving())

    def close(self) -> None:
        self._served.close()
        super().close()

    def _run(self, *args: str) -> Ran:
        if _command(args) in CONSOLES:
            self.local.add(_command(args))
            return super()._run(*args)
        client = ("vgpumgr", "--state-dir", AWAY, "--server", f"unix:{self._socket}")
        ran = run_argv(*client, *args)
        if NOT_THERE not in ran.err:
            return ran
        self.local.add(_command(args))
        return super()._run(*args)

    @contextlib.contextmanager
    def _serving(self) -> Iterator[None]:
        overrides = {"state_dir": STATE}
        app = App(load_config(os.environ, Path.cwd(), overrides))
        service = Service(app, overrides)
        service.workers = ThreadWorkers(overrides)
        service.consoles.process.start = lambda: None
        # A second is longer here than a minute.
        service.answers.answer = lambda _, make, **_how: LiveAnswer(make())
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._socket))
        listener.listen()
        config = uvicorn.Config(make_application(service), log_level="error", access_log=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=_serve, args=(server, listener), daemon=True)
        with mock.patch("vgpumgr.api.service.authenticate", _ada):
            thread.start()
            try:
                yield
            finally:
                server.should_exit = True
                thread.join(30)
                service.close()
                app.close()
                listener.close()


def _command(args: Sequence[str]) -> str:
    """``store check``: the name of a command, without what follows it."""
    group = root.get_command(click.Context(root), args[0])
    return " ".join(args[:2]) if isinstance(group, click.Group) else args[0]


def _made_anew(_: object, make: Callable[[], bytes]) -> LiveAnswer:
    """No answer is kept: between two commands a minute passes here, and no second."""
    return LiveAnswer(make())


def _ada(access: AccessControl, _: Request) -> Established:
    """The one who types, with what the account of the tests may do."""
    return replace(access.of_account(os.geteuid()), actor=Actor(user="ada@controller"))


def _serve(server: uvicorn.Server, listener: Any) -> None:
    server.capture_signals = contextlib.nullcontext  # signals are the main thread's
    asyncio.run(server.serve(sockets=[listener]))

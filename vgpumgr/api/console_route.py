"""The websocket of consoles: a ticket is shown as a subprotocol, and VNC or serial bytes follow."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from anyio import to_thread
from fastapi import FastAPI, WebSocket
from starlette.status import HTTP_403_FORBIDDEN
from starlette.websockets import WebSocketDisconnect

from vgpumgr.api.authentication import own_origin
from vgpumgr.api.console_worker import WantedConsole
from vgpumgr.api.problems import problem
from vgpumgr.api.service import Service
from vgpumgr.app.console_tickets import TicketRefused
from vgpumgr.endpoints.consoles import CONSOLE_ENDED, PATH, PROTOCOL, TICKET
from vgpumgr.engine.pools import session_activity
from vgpumgr.identity.established import Established
from vgpumgr.model.actor import acting
from vgpumgr.model.console_ticket import ConsoleTicket
from vgpumgr.model.errors import AccessRefused, VgpumgrError
from vgpumgr.model.vm import VmRecord

LOOK_S = 10.0
"""How often it is looked whether a connection may go on."""
USED_S = 30.0
"""So often, at most, it is told that a connection is in use."""
PIECE = 256 << 10
_MAX_REASON = 120
NORMAL, ENDED, FAILED = 1000, 4001, 4002
"""Why a connection is closed: the console has ended; its viewer may not look on; none came."""
_SERVER_ENDS = 1012
_API_ENDED = "the API has ended"


def add_console_route(api: FastAPI, service: Service) -> None:
    """Add it."""

    @api.websocket(PATH)
    async def consoles(websocket: WebSocket) -> None:
        try:
            shown = await to_thread.run_sync(_taken, service, websocket)
        except VgpumgrError as error:
            await websocket.send_denial_response(problem(error, status=HTTP_403_FORBIDDEN))
            return
        await ConsoleConnection(service, websocket, *shown).run()


def _taken(service: Service, websocket: WebSocket) -> tuple[Established, ConsoleTicket, VmRecord]:
    """Who shows which ticket, which is used up; LoginRefused, AccessRefused or TicketRefused."""
    who = service.known(websocket)
    try:
        _require_own_origin(websocket)
        secret = _shown_ticket(websocket)
        service.consoles.prepare()
        with acting(who.actor):
            tickets = service.app.console_tickets
            ticket, vm = tickets.take(secret, who, service.consoles.name)
    except TicketRefused as error:
        service.refused(who.actor, AccessRefused(f"{error.message}: {error.reason}"))
        raise
    except AccessRefused as error:
        service.refused(who.actor, error)
        raise
    return who, ticket, vm


def _shown_ticket(websocket: WebSocket) -> str:
    """The secret among the subprotocols; empty where there is none."""
    offered = websocket.scope["subprotocols"]
    if PROTOCOL not in offered:
        raise AccessRefused(f"the subprotocol {PROTOCOL} is spoken", why="it was not offered")
    return next((each for each in offered if each.startswith(TICKET)), "").removeprefix(TICKET)


def _require_own_origin(websocket: WebSocket) -> None:
    """AccessRefused for a page of another origin; programs that are no browsers send none."""
    origin = websocket.headers.get("origin")
    if origin is None:
        return
    if origin.lower() != own_origin(websocket).lower():
        raise AccessRefused(
            "consoles are opened by pages of this server alone", why="the request is of another"
        )


@dataclass(slots=True)
class ConsoleConnection:
    """A viewer's connection, from the ticket's use to its end."""

    service: Service
    websocket: WebSocket
    who: Established
    ticket: ConsoleTicket
    vm: VmRecord
    sent: int = 0
    """Bytes that the viewer sent."""
    told: int = 0
    told_at: float = -USED_S
    joined: bool = False
    over: bool = False
    noting: threading.Lock = field(default_factory=threading.Lock)
    """A look at its use may end after it: what is noted of the session is noted in order."""

    async def run(self) -> None:
        """Until one side ends; then the ticket is closed."""
        why, error = _API_ENDED, None
        try:
            with self.service.consoles.counted():
                why = await self._connected()
        except VgpumgrError as failed:
            why, error = failed.message, failed
            with suppress(WebSocketDisconnect, RuntimeError):
                await self.websocket.accept(subprotocol=PROTOCOL)
                await self.websocket.close(FAILED, _short(failed.message))
        finally:
            # Even where the server ends, and has cancelled us.
            await asyncio.shield(to_thread.run_sync(self._close, why, error))

    async def _connected(self) -> str:
        vm = self.vm
        wanted = WantedConsole(host=vm.host, vm=vm.name, vm_id=vm.id, kind=self.ticket.kind)
        with await self.service.consoles.process.open(wanted) as console:
            with suppress(WebSocketDisconnect, RuntimeError):
                await self.websocket.accept(subprotocol=PROTOCOL)
            self.joined = True
            return await self._joined(console)

    async def _joined(self, console: socket.socket) -> str:
        """Carry both directions; why it ended."""
        ways: tuple[Coroutine[Any, Any, tuple[int, str]], ...] = (
            self._up(console),
            self._down(console),
            self._watched(),
        )
        tasks = [asyncio.create_task(way) for way in ways]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            code, why = next(task for task in tasks if task in done).result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if code:
            with suppress(WebSocketDisconnect, RuntimeError):
                await self.websocket.close(code, _short(why))
        return why

    async def _up(self, console: socket.socket) -> tuple[int, str]:
        loop = asyncio.get_running_loop()
        while True:
            message = await self.websocket.receive()
            if message["type"] == "websocket.disconnect":
                ended = message.get("code") == _SERVER_ENDS
                return 0, _API_ENDED if ended else "the viewer disconnected"
            data = message.get("bytes") or (message.get("text") or "").encode()
            self.sent += len(data)
            try:
                await loop.sock_sendall(console, data)
            except OSError:
                return NORMAL, CONSOLE_ENDED

    async def _down(self, console: socket.socket) -> tuple[int, str]:
        loop = asyncio.get_running_loop()
        try:
            while piece := await loop.sock_recv(console, PIECE):
                await self.websocket.send({"type": "websocket.send", "bytes": piece})
        except (WebSocketDisconnect, RuntimeError):
            return 0, "the viewer disconnected"
        except OSError:
            pass
        return NORMAL, CONSOLE_ENDED

    async def _watched(self) -> tuple[int, str]:
        self.sent += 1  # to connect is use, too
        while not (why := await to_thread.run_sync(self._look)):
            await asyncio.sleep(LOOK_S)
        return ENDED, why

    def _look(self) -> str:
        """Why it may not go on; use of a desktop is told meanwhile."""
        tickets = self.service.app.console_tickets
        try:
            if why := tickets.objection(self.ticket, self.vm.host):
                return why
            now = time.monotonic()
            if self.sent > self.told and now >= self.told_at + USED_S:
                self.told, self.told_at = self.sent, now
                self._used()
        except VgpumgrError:
            return ""  # the ledger is away: connections go on
        return ""

    def _used(self) -> None:
        """The user is there; a look that the viewer's leaving has overtaken does not say so."""
        with self.noting:
            if not self.over:
                engine = self.service.app.engine
                session_activity.heartbeat(engine, self.ticket.vm, self.ticket.user)

    def _close(self, why: str, error: VgpumgrError | None) -> None:
        with suppress(VgpumgrError), acting(self.who.actor):
            self.service.app.console_tickets.close(self.ticket, why, error)
            with self.noting:
                self.over = True
                if self.joined:
                    engine = self.service.app.engine
                    session_activity.viewer_left(engine, self.ticket.vm, self.ticket.user)


def _short(text: str) -> str:
    """As much as a close frame holds."""
    return text.encode()[:_MAX_REASON].decode(errors="ignore")

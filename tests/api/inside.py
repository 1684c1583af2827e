"""The API and its pages in this process, without a socket: requests go to the application, tokens
are real.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from anyio import CapacityLimiter

from vgpumgr.access.token_secret import secret_digest, token_text
from vgpumgr.api.service import Service
from vgpumgr.api.worker import JobTeller, work
from vgpumgr.api.worker_pool import WorkerJob
from vgpumgr.app import App
from vgpumgr.app.config import load_config
from vgpumgr.model.credential import ApiToken
from vgpumgr.model.role_binding import Role, RoleBinding
from vgpumgr.web.site import make_site

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Said:
    """A status, and all that came with it."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> Any:
        return json.loads(self.text)


class _Hearing(JobTeller):
    """Tells a job in this process."""

    def __init__(self, job: WorkerJob) -> None:
        self._job = job

    def tell(self, **event: object) -> None:
        self._job.hear(json.loads(json.dumps(event)))


class _NoLimits:
    """As many requests and wrong logins as a test makes."""

    def require_request(self, _who: object, *, changes: bool) -> None: ...

    def require_probe(self, _who: object) -> None: ...

    def count_login(self, _address: str) -> None: ...

    def login_succeeded(self, _address: str, _user: str = "") -> None: ...

    def count_password(self, _user: str) -> None: ...


class _WorkersHere:
    """Workers that are no processes."""

    def __init__(self, app: App) -> None:
        self._app = app

    def submit(self, job: WorkerJob) -> None:
        work(self._app, job.asked, _Hearing(job))


class Inside:
    """The application over the ledger in a folder; ``close`` it in the end."""

    def __init__(self, folder: Path, ledger: Path) -> None:
        overrides = {"state_dir": str(folder), "ledger": str(ledger)}
        self.app = App(load_config({"HOME": str(folder)}, folder, overrides))
        self.service = Service(self.app, overrides)
        self.service.workers = _WorkersHere(self.app)  # type: ignore[assignment]
        self.ledger = self.app.writable_ledger
        self.api = make_site(self.service)
        self._loop = asyncio.new_event_loop()
        self.service._loop = self._loop
        self.service.limits = _NoLimits()  # type: ignore[assignment]
        self.service.for_changes = self.service.for_uploads = CapacityLimiter(40)
        self.service.for_logins = CapacityLimiter(40)
        self._made = 0

    def close(self) -> None:
        self._loop.close()
        self.app.close()

    def bind(self, user: str, role: Role, tenant: str) -> None:
        """Give a user a role."""
        self.ledger.bind_role(RoleBinding(subject=f"user:{user}", role=role, tenant=tenant))

    def token(self, user: str, role: Role, tenant: str, *, expires_s: float = DAY_S) -> str:
        """A token's secret."""
        self._made += 1
        secret, now = token_text(self._made.to_bytes(32, "big")), time.time()
        token = ApiToken(
            id=f"token-{self._made}",
            name=f"t{self._made}",
            owner=f"user:{user}",
            role=role,
            tenant=tenant,
            created_at=now - 2 * DAY_S,
            expires_at=now + expires_s,
        )
        self.ledger.add_api_token(token, secret_digest(secret))
        return secret

    def revoke_last(self) -> None:
        """Revoke the token that was made last."""
        self.ledger.revoke_api_token(f"token-{self._made}")

    def ask(
        self,
        method: str,
        path: str,
        secret: str = "",
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Said:
        """One request; of a stream that does not end only its status is told."""
        asked = self._ask(method, path, secret, body, headers or {})
        return self._loop.run_until_complete(asked)

    def events(self, secret: str, after: int, most: int) -> list[str]:
        """The first events of a stream after a record, as many as there are."""
        return self._loop.run_until_complete(self._events(secret, after, most))

    async def _ask(
        self, method: str, path: str, secret: str, body: object, headers: Mapping[str, str]
    ) -> Said:
        place, _, query = path.partition("?")
        given = {"content-type": "application/json", **headers}
        if secret:
            given["authorization"] = f"Bearer {secret}"
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(place),
            "raw_path": place.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
            "client": ("192.0.2.1", 5),
            "server": ("vgpumgr", 443),
            "scheme": "https",
            "root_path": "",
            "http_version": "1.1",
        }
        sent: list[bytes] = []
        told: dict[str, str] = {}
        status = asyncio.get_running_loop().create_future()
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        if body is None:
            data = b""
        came = False

        async def receive() -> dict[str, Any]:
            nonlocal came
            if came:
                await asyncio.sleep(3600)
            came = True
            return {"type": "http.request", "body": data, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start" and not status.done():
                told.update((key.decode(), text.decode()) for key, text in message["headers"])
                status.set_result(message["status"])
            sent.append(message.get("body", b""))

        task = asyncio.ensure_future(self.api(scope, receive, send))  # type: ignore[arg-type]
        await asyncio.wait([task, status], return_when=asyncio.FIRST_COMPLETED)
        if place.startswith(("/v1/events", "/live")) and status.done() and status.result() == 200:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return Said(status.result(), b"".join(sent).decode(), told)

    async def _events(self, secret: str, after: int, most: int) -> list[str]:
        who = self.app.access.tokens.authenticate(secret)
        from vgpumgr.access.permission import Permission

        scope = who.grants.require(Permission.AUDIT_READ)
        self.service.changes._end = self.ledger.trail_since(None).end
        found: list[str] = []
        stream = self.service.changes.stream(after, scope)
        try:
            async with asyncio.timeout(5):
                async for event in stream:
                    found.append(event.decode())
                    if len(found) > most:
                        break
        except TimeoutError:
            pass
        await stream.aclose()
        return found

"""What the API's routes work with: the app, worker processes, and the trail as it grows."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from anyio import CapacityLimiter

from vgpumgr.api.authentication import address_of, authenticate, shows_login
from vgpumgr.api.live_answers import LiveAnswers
from vgpumgr.api.open_consoles import OpenConsoles
from vgpumgr.api.rate_limits import RateLimit, RateLimits
from vgpumgr.api.token_bucket import TokenBucket
from vgpumgr.api.trail_follower import TrailFollower
from vgpumgr.api.worker_pool import WorkerJob, WorkerPool
from vgpumgr.model.actor import Actor, acting
from vgpumgr.model.errors import AccessRefused, LoginRefused, NotPermitted, VgpumgrError
from vgpumgr.model.history import AccessEvent

if TYPE_CHECKING:
    from fastapi.requests import HTTPConnection

    from vgpumgr.access.permission import Permission
    from vgpumgr.app import App
    from vgpumgr.identity.established import Established

REFUSALS_A_MINUTE, ALL_REFUSALS_A_MINUTE = 60, 600
"""Refusals that the trail keeps of one address (over the unix socket: of one user), and of all."""
CHANGES_AT_ONCE = 64
"""Threads that wait for the ledger's write lock or for a worker; those of reads are others."""
UPLOADS_AT_ONCE = 16
"""Threads that write pieces of uploads."""
LOGINS_AT_ONCE = 16
"""Threads that wait for an identity provider or a directory."""
KEPT_JOBS = 1000
"""The number of jobs that are kept with their answers."""


class Service:
    """One API process. ``overrides`` are the settings by which its workers open the same fleet."""

    def __init__(self, app: App, overrides: Mapping[str, str]) -> None:
        self.app = app
        self.workers = WorkerPool(overrides)
        self.consoles = OpenConsoles(app, overrides)
        self.replaced = asyncio.Event()
        """Another ledger lies in the place of the one that was opened."""
        self.changes = TrailFollower(app.writable_ledger, self.replaced.set)
        self._loop: asyncio.AbstractEventLoop
        self.for_changes: CapacityLimiter
        self.for_uploads: CapacityLimiter
        self.for_logins: CapacityLimiter
        self.answers = LiveAnswers(app.writable_ledger.version)
        self.limits = RateLimits()
        self._refusals = RateLimit(lambda: TokenBucket(REFUSALS_A_MINUTE / 60, REFUSALS_A_MINUTE))
        self._all_refusals = TokenBucket(ALL_REFUSALS_A_MINUTE / 60, ALL_REFUSALS_A_MINUTE)
        self._jobs: OrderedDict[str, WorkerJob] = OrderedDict()

    def start(self) -> None:
        """Begin to follow the trail, and make workers ready; called in the event loop."""
        self._loop = asyncio.get_running_loop()
        self.for_changes = CapacityLimiter(CHANGES_AT_ONCE)
        self.for_uploads = CapacityLimiter(UPLOADS_AT_ONCE)
        self.for_logins = CapacityLimiter(LOGINS_AT_ONCE)
        self.workers.start()
        self.consoles.start()
        self.changes.start()

    def close(self) -> None:
        """Let running host calls end."""
        self.changes.close()
        self.consoles.close()
        self.workers.close()
        self.app.close()

    def wake(self, changed: asyncio.Event) -> Callable[[], None]:
        """A function that sets the event from any thread; called in a thread of the loop's."""

        def set_it() -> None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(changed.set)

        return set_it

    def known(self, request: HTTPConnection) -> Established:
        """Who asks; LoginRefused, or TooManyRequests where that was refused very often."""
        try:
            return authenticate(self.app.access, request)
        except LoginRefused as error:
            address = address_of(request)
            self.refused(Actor(user="", address=address), error)
            if shows_login(request):
                self.limits.count_login(address)
            raise

    def admitted(
        self, request: HTTPConnection, permission: Permission | None, *, changes: bool
    ) -> Established:
        """Who asks, and holds the permission somewhere; LoginRefused or AccessRefused."""
        who = self.known(request)
        self.limits.require_request(who, changes=changes)
        try:
            if permission is not None:
                who.grants.require(permission)
        except AccessRefused as error:
            self.refused(who.actor, error)
            raise
        return who

    def refused(self, actor: Actor, error: NotPermitted) -> None:
        """Keep in the trail that a request was refused; a flood of them is kept by its first, and
        hides no other's.
        """
        if self._refusals.of(actor.address or actor.user).take() and self._all_refusals.take():
            with suppress(VgpumgrError), acting(actor):
                self.app.writable_ledger.record_access(AccessEvent.REFUSED, error.message)

    def keep(self, job: WorkerJob) -> None:
        """Keep a job whose operation is known."""
        self._jobs[job.operation] = job
        while len(self._jobs) > KEPT_JOBS:
            self._jobs.popitem(last=False)

    def job(self, operation: str) -> WorkerJob | None:
        """The job of an operation that was begun here."""
        return self._jobs.get(operation)

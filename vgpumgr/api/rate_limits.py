"""How often a user may ask, and how often an address may fail to log in."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from vgpumgr.api.token_bucket import TokenBucket
from vgpumgr.model.errors import VgpumgrError

if TYPE_CHECKING:
    from vgpumgr.identity.established import Established

LOGINS_A_MINUTE = 5
"""Logins that are begun, and tokens or logins that are not taken, of one address."""
REQUESTS_A_SECOND, REQUESTS_AT_ONCE = 100.0, 1000.0
CHANGES_A_SECOND, CHANGES_AT_ONCE = 20.0, 200.0
PROBES_A_MINUTE = 12
"""Reads that have hosts probed first (``refresh``), of one user."""
MOST = 10_000
"""The number of users, and of addresses, that are remembered."""


class TooManyRequests(VgpumgrError):
    """Asked more often than may be; ``retry_s`` is when it may be asked again, in seconds."""

    code = "rate"

    def __init__(self, message: str, *, why: str = "", next: str = "", retry_s: float = 1) -> None:
        super().__init__(message, why=why, next=next)
        self.details = {"retry_s": max(1, math.ceil(retry_s))}


class RateLimit:
    """A bucket for each name; safe to share between threads. Who has long asked nothing is
    forgotten first, whose bucket would be full again anyway.
    """

    def __init__(self, made: Callable[[], TokenBucket], most: int = MOST) -> None:
        self._made = made
        self._most = most
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def of(self, name: str) -> TokenBucket:
        """The bucket of a name."""
        with self._lock:
            bucket = self._buckets.get(name)
            if bucket is None:
                bucket = self._buckets[name] = self._made()
            self._buckets.move_to_end(name)
            while len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
            return bucket


class RateLimits:
    """The limits of one API process."""

    def __init__(self) -> None:
        self._requests = RateLimit(lambda: TokenBucket(REQUESTS_A_SECOND, REQUESTS_AT_ONCE))
        self._changes = RateLimit(lambda: TokenBucket(CHANGES_A_SECOND, CHANGES_AT_ONCE))
        self._probes = RateLimit(lambda: TokenBucket(PROBES_A_MINUTE / 60, PROBES_A_MINUTE))
        self._logins = RateLimit(lambda: TokenBucket(LOGINS_A_MINUTE / 60, LOGINS_A_MINUTE))
        self._passwords = RateLimit(lambda: TokenBucket(LOGINS_A_MINUTE / 60, LOGINS_A_MINUTE))

    def require_request(self, who: Established, *, changes: bool) -> None:
        """TooManyRequests where a user asks too often; not over this machine's socket."""
        if not who.actor.address:
            return
        bucket = (self._changes if changes else self._requests).of(who.actor.user)
        if not bucket.take():
            kind = "changes" if changes else "requests"
            raise TooManyRequests(
                f"{who.actor.user} asks too often",
                why=f"{bucket.rate:g} {kind} a second are answered",
                retry_s=bucket.wait_s(),
            )

    def require_probe(self, who: Established) -> None:
        """TooManyRequests where a user has hosts probed too often: a read that makes hosts work."""
        bucket = self._probes.of(who.actor.user)
        if who.actor.address and not bucket.take():
            raise TooManyRequests(
                f"{who.actor.user} has hosts probed too often",
                why=f"{PROBES_A_MINUTE} reads a minute may have them probed first",
                next="ask without refresh: `serve` keeps what is told up to date",
                retry_s=bucket.wait_s(),
            )

    def count_login(self, address: str) -> None:
        """A login was begun, or a login or token not taken: TooManyRequests for more than may be.
        One that succeeds is counted no longer (``login_succeeded``).
        """
        bucket = self._logins.of(address)
        if address and not bucket.take():
            raise TooManyRequests(
                "too many logins from this address",
                why=f"{LOGINS_A_MINUTE} a minute may be begun or fail",
                retry_s=bucket.wait_s(),
            )

    def login_succeeded(self, address: str, user: str = "") -> None:
        """A login that was counted, of a user with a password or not, does not count: a whole
        office may have one address.
        """
        self._logins.of(address).put()
        if user:
            self._passwords.of(user.casefold()).put()

    def count_password(self, user: str) -> None:
        """A password is shown for a user, from wherever: TooManyRequests for more than may be, so
        that many addresses together guess no more, nor have the directory lock the user out.
        """
        bucket = self._passwords.of(user.casefold())
        if not bucket.take():
            raise TooManyRequests(
                "too many logins of this user",
                why=f"{LOGINS_A_MINUTE} a minute may be tried",
                retry_s=bucket.wait_s(),
            )

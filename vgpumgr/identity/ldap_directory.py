"""A directory over LDAP: TLS with a certificate that is checked, one deadline for a login, no
referrals. Needs python-ldap.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from vgpumgr.identity.directory_login import BindRefused, Entry
from vgpumgr.model.errors import HostUnreachable, LoginRefused

MAX_BYTES = 256 * 1024
_LEAST_S = 0.1
_SYSTEM_CAS = "/etc/ssl/certs/ca-certificates.crt"


class LdapAttempt:
    """The binds of one login, at the first of ``urls`` that answers."""

    def __init__(
        self, urls: Sequence[str], ca: Path | None = None, timeout_s: float = 10.0
    ) -> None:
        self._urls = tuple(urls)
        self._ca = str(ca or ssl.get_default_verify_paths().cafile or _SYSTEM_CAS)
        self._until = time.monotonic() + timeout_s

    def __call__(self, dn: str, password: str) -> LdapConnection:
        """A connection that has bound; BindRefused, or HostUnreachable where no server answers."""
        if not dn or not password:
            raise BindRefused("a bind without a name or a password is anonymous")
        for tried, url in enumerate(self._urls):
            left = max(_LEAST_S, self._until - time.monotonic())
            try:
                bound = _bound(
                    url, self._ca, left / (len(self._urls) - tried), self._until, dn, password
                )
            except HostUnreachable:
                if url == self._urls[-1]:
                    raise
                continue
            self._urls = (url,)
            return bound
        raise HostUnreachable("the settings name no directory", next="set auth.ldap.url")


def _bound(
    url: str, ca: str, open_s: float, until: float, dn: str, password: str
) -> LdapConnection:
    connection = LdapConnection(url, ca, open_s, until)
    try:
        connection.bind(dn, password)
    except BaseException:
        connection.close()
        raise
    return connection


class LdapConnection:
    """A connection to one server, on which nothing is said before it is secured. It takes
    ``open_s`` seconds at most to open, all that it is asked is done ``until`` (monotonic seconds).
    """

    def __init__(self, url: str, ca: str, open_s: float, until: float) -> None:
        self._url = url
        self._until = until
        self._ldap = _library()
        if not os.access(ca, os.R_OK):
            raise LoginRefused(f"the certificates {ca} cannot be read", next="set auth.ldap.ca")
        self._connection: Any = self._ldap.initialize(url)
        try:
            self._set_options(ca, open_s)
            if not url.startswith("ldaps://"):
                self._connection.start_tls_s()
        except self._ldap.LDAPError as error:
            self.close()
            self._unreachable(error)

    def _set_options(self, ca: str, open_s: float) -> None:
        ldap, options = self._ldap, self._connection.set_option
        options(ldap.OPT_PROTOCOL_VERSION, ldap.VERSION3)
        options(ldap.OPT_REFERRALS, ldap.OPT_OFF)
        options(ldap.OPT_NETWORK_TIMEOUT, open_s)
        options(ldap.OPT_TIMEOUT, open_s)
        options(ldap.OPT_X_TLS_REQUIRE_CERT, ldap.OPT_X_TLS_DEMAND)
        options(ldap.OPT_X_TLS_CACERTFILE, ca)
        options(ldap.OPT_X_TLS_PROTOCOL_MIN, ldap.OPT_X_TLS_PROTOCOL_TLS1_2)
        options(ldap.OPT_X_TLS_NEWCTX, 0)

    def bind(self, dn: str, password: str) -> None:
        """Bind; BindRefused where the directory does not take it."""
        try:
            self._connection.result3(
                self._connection.simple_bind(dn, password), timeout=self._left()
            )
        except (self._ldap.SERVER_DOWN, self._ldap.TIMEOUT, self._ldap.CONNECT_ERROR) as error:
            self._unreachable(error)
        except self._ldap.LDAPError as error:
            raise BindRefused(_told(error)) from error

    def search(self, base: str, condition: str, attribute: str, most: int) -> list[Entry]:
        """The entries below ``base`` that a filter fits, at most ``most``; what is beyond that, or
        larger than ``MAX_BYTES``, is not read.
        """
        ldap, found, size = self._ldap, [], 0
        try:
            asked = self._connection.search_ext(
                base,
                ldap.SCOPE_SUBTREE,
                condition,
                [attribute],
                timeout=self._left(),
                sizelimit=most,
            )
            while True:
                kind, answers, *_ = self._connection.result3(asked, all=0, timeout=self._left())
                for dn, attributes in answers or ():
                    if dn is not None:  # else it is a referral, which is not followed
                        entry = _entry(dn, attributes)
                        found.append(entry)
                        size += len(dn) + sum(map(len, entry.values))
                if kind == ldap.RES_SEARCH_RESULT or len(found) >= most:
                    return found
                if size > MAX_BYTES:
                    self._odd(base, f"it is larger than {MAX_BYTES >> 10} KiB")
        except ldap.SIZELIMIT_EXCEEDED as error:
            if len(found) >= most:
                return found
            self._odd(base, f"after {len(found)} entries: {_told(error)}", error)
        except (ldap.SERVER_DOWN, ldap.TIMEOUT, ldap.CONNECT_ERROR) as error:
            self._unreachable(error)
        except ldap.LDAPError as error:
            self._odd(base, _told(error), error)

    def close(self) -> None:
        """End the connection."""
        try:
            self._connection.unbind_ext_s()
        except self._ldap.LDAPError:
            pass

    def __enter__(self) -> LdapConnection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _left(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise HostUnreachable(
                "the directory answers too slowly",
                why=self._url,
                next="try again in a while",
            )
        return left

    def _unreachable(self, error: Exception) -> NoReturn:
        raise HostUnreachable(
            "the directory cannot be reached",
            why=f"{self._url}: {_told(error)}",
            next="vgpumgr auth test --user NAME",
        ) from error

    def _odd(self, base: str, why: str, error: Exception | None = None) -> NoReturn:
        raise LoginRefused(
            "the directory does not answer as it should",
            why=f"{base}: {why}",
            next="vgpumgr auth test --user NAME",
        ) from error


def _library() -> Any:
    try:
        import ldap
    except ImportError as error:
        raise LoginRefused(
            "logins at a directory need python-ldap",
            why=str(error),
            next="pip install 'vgpumgr[ldap]'",
        ) from error
    return ldap


def _entry(dn: str, attributes: dict[str, list[bytes]]) -> Entry:
    """One attribute was asked for; a server may spell its name otherwise, or send more."""
    values = next(iter(attributes.values()), []) if len(attributes) <= 1 else []
    return Entry(dn, tuple(value.decode("utf-8", "replace") for value in values))


def _told(error: Exception) -> str:
    """What the library tells: what it was, and what the server said to it."""
    told = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
    words = [str(told[each]) for each in ("desc", "info") if told.get(each)]
    return ": ".join(words) or type(error).__name__

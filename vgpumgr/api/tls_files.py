"""The server's certificate with its key, read again once they were renewed."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from vgpumgr.model.errors import UsageError

RELOAD_S = 2.0
MAX_BYTES = 1 << 20
_log = logging.getLogger("vgpumgr.api")


class TlsFiles:
    """A certificate and its key, PEM. A pair that is not whole, does not belong together or has
    expired is never taken: connections to come use the one before.
    """

    def __init__(self, certificate: Path, key: Path, context: ssl.SSLContext) -> None:
        self._files = (certificate, key)
        self._context = context
        self._seen = self._times()
        self._told = ""

    async def follow(self) -> None:
        """Look for renewed files, for ever."""
        while True:
            await asyncio.sleep(RELOAD_S)
            self.look()

    def look(self) -> bool:
        """Take what has changed; was it taken?"""
        now = self._times()
        if now == self._seen:
            return False
        try:
            certificate, key = (_read(each) for each in self._files)
            require_usable(certificate, key)
        except (OSError, ValueError, UsageError) as error:
            if str(error) != self._told:
                _log.warning("the renewed certificate is not taken: %s", error)
            self._told = str(error)
            return False
        _load(self._context, certificate, key)
        self._seen, self._told = now, ""
        _log.warning("the certificate was read again")
        return True

    def _times(self) -> list[tuple[int, int]]:
        with suppress(OSError):
            found = [each.stat() for each in self._files]
            return [(each.st_mtime_ns, each.st_size) for each in found]
        return []


def require_usable(certificate: bytes, key: bytes) -> None:
    """UsageError or ssl.SSLError (an OSError) where TLS cannot be spoken with them now."""
    # A failed load leaves a context without a key: a context of its own is tried first.
    _load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)
    until = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    if until < datetime.now(UTC):
        raise UsageError(f"it expired on {until:%Y-%m-%d}")


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    with _in_memory(certificate) as first, _in_memory(key) as second:
        context.load_cert_chain(first, second, password="")


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """A path that has just these bytes: the files themselves may change between two looks."""
    number = os.memfd_create("vgpumgr-tls")
    try:
        os.write(number, data)
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES)

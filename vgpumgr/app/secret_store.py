"""Where secrets are read and set: files of this controller, or credentials from systemd."""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vgpumgr.app.secret_files import SecretFiles, read_file
from vgpumgr.model.errors import NotFound, NotPermitted, UsageError, VgpumgrError
from vgpumgr.model.role_binding import EVERY_TENANT
from vgpumgr.model.secret import MAX_SECRET_BYTES, SecretRecord, SecretState, SecretValue
from vgpumgr.model.vm import NAME

_KEY = ".digest-key"
_KEY_BYTES = 32


class SecretStore:
    """The secrets of this controller. ``credentials`` is the folder of systemd's credentials, which
    are the fleet's, and come before files of the same name.
    """

    def __init__(self, root: Path, credentials: Path | None = None) -> None:
        self._files = SecretFiles(root)
        self._credentials = credentials

    def read(self, tenant: str, name: str) -> SecretValue:
        """A secret of exactly that tenant (``*``: of the fleet); NotFound, or NotPermitted where
        its file is not safe.
        """
        if self.is_credential(tenant, name):
            return SecretValue(self._read_credential(name))
        return SecretValue(self._files.read(tenant, name))

    def path(self, tenant: str, name: str) -> Path:
        """The file of a secret, for a program that reads it; raises what ``read`` does."""
        self.read(tenant, name)
        if self._credentials is not None and self.is_credential(tenant, name):
            return self._credentials / name
        return self._files.path(tenant, name)

    def names(self) -> frozenset[tuple[str, str]]:
        """Tenant and name of every secret of which there is a value here."""
        return frozenset((*self._files.names(), *self._credential_names()))

    def is_credential(self, tenant: str, name: str) -> bool:
        """Does systemd give it to this process?"""
        return (tenant, name) in self._credential_names()

    def state(self, tenant: str, name: str, record: SecretRecord | None) -> tuple[SecretState, str]:
        """Its state, and why it cannot be read where it cannot."""
        try:
            value, key = self.read(tenant, name), self._files.read_own(_KEY)
        except NotFound:
            return SecretState.MISSING, ""
        except VgpumgrError as error:
            return SecretState.UNREADABLE, f"{error.why}: {error.next}"
        if self.is_credential(tenant, name):
            return SecretState.PRESENT, ""
        if record is None:
            return SecretState.UNRECORDED, ""
        same = key is not None and hmac.compare_digest(
            record.digest, _digest(key, value.reveal(), "secret", tenant, name)
        )
        return SecretState.PRESENT if same else SecretState.CHANGED, ""

    @contextmanager
    def replacing(self, tenant: str, name: str, value: SecretValue) -> Iterator[str]:
        """The block gets the keyed digest of a new value, which is in its place once that has ended
        well. UsageError for a value that cannot be one.
        """
        _require_value(value)
        if self.is_credential(tenant, name):
            raise _given_by_systemd(name)
        with self._files.locked():
            digest = _digest(self._made_key(), value.reveal(), "secret", tenant, name)
            with self._files.replacing(tenant, name, value.reveal()):
                yield digest

    @contextmanager
    def removing(self, tenant: str, name: str) -> Iterator[bool]:
        """The block, which is told whether there is a value, comes before its removal."""
        if self.is_credential(tenant, name):
            raise _given_by_systemd(name)
        with self._files.locked():
            yield (tenant, name) in self.names()
            self._files.remove(tenant, name)

    def mark(self, text: str) -> str:
        """A digest of a text that allows no guess, by which it is known again."""
        with self._files.locked():
            return _digest(self._made_key(), text.encode(errors="surrogatepass"), "request")

    def _made_key(self) -> bytes:
        key = self._files.read_own(_KEY)
        if key is None:
            self._files.write_own(_KEY, key := secrets.token_bytes(_KEY_BYTES))
        if len(key) != _KEY_BYTES:
            raise NotPermitted(
                "the key of the secrets' digests cannot be used",
                why=f"{self._files.root / _KEY} does not have {_KEY_BYTES} bytes",
                next="put it back from a copy; or remove it, and set every secret again",
            )
        return key

    def _credential_names(self) -> frozenset[tuple[str, str]]:
        if self._credentials is None:
            return frozenset()
        with suppress(OSError):
            found = [each.name for each in self._credentials.iterdir()]
            return frozenset((EVERY_TENANT, each) for each in found if re.fullmatch(NAME, each))
        return frozenset()

    def _read_credential(self, name: str) -> bytes:
        assert self._credentials is not None
        folder = os.open(self._credentials, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return read_file(folder, name, self._credentials / name, others=True)
        finally:
            os.close(folder)


def _digest(key: bytes, value: bytes, *about: str) -> str:
    """Of the value and what it is of: equal values of two secrets have digests that differ."""
    whole = "\0".join(about).encode() + b"\0" + value
    return hmac.digest(key, whole, "sha256").hex()


def _require_value(value: SecretValue) -> None:
    if not len(value):
        raise UsageError("the secret is empty", next="vgpumgr secret set NAME < FILE")
    if len(value) > MAX_SECRET_BYTES:
        raise UsageError(
            f"the secret has more than {MAX_SECRET_BYTES >> 10} KiB",
            next="keep a large file elsewhere, and its key here",
        )


def _given_by_systemd(name: str) -> NotPermitted:
    return NotPermitted(
        f"the secret {name} is a credential of systemd, which is changed in the unit",
        next=f"systemctl edit vgpumgr-serve.service: LoadCredentialEncrypted={name}:PATH",
    )

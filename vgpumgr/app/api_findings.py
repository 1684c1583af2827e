"""What is wrong with the API's settings before it listens: its certificate, its key, its socket."""

from __future__ import annotations

import ssl
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from vgpumgr.app.config import Config
from vgpumgr.model.errors import VgpumgrError
from vgpumgr.model.examination import CheckOutcome, Finding
from vgpumgr.model.formats import span_words

_CHECK = "api"
_DAY_S = 86_400.0
EXPIRES_S = 21 * _DAY_S
"""A certificate with less time than that left is a finding."""


def api_findings(config: Config) -> Iterator[Finding]:
    """Every fault of what is set; nothing where the API is not set up."""
    yield from _socket(config.api_socket)
    if config.api_listen:
        yield from _tls(config, time.time())


def _tls(config: Config, now: float) -> Iterator[Finding]:
    certificate, key = config.api_certificate, config.api_key
    if certificate is None or key is None:
        yield _bad(
            f"TLS is set at {config.api_listen} without a certificate and its key",
            "api: {certificate: FILE, key: FILE} in the settings",
        )
        return
    unread = [
        _bad(f"{each} cannot be read: {why}", f"ls -lL {each}; namei -l {each}")
        for each in (certificate, key, config.api_client_ca)
        if each is not None and (why := _unreadable(each))
    ]
    if unread:
        yield from unread
        return
    yield from _key(key)
    found = [*_pair(certificate, key), *_dates(certificate, now), *_client_ca(config.api_client_ca)]
    yield from found
    if not any(each.mark is CheckOutcome.BAD for each in found):
        text = f"https://{config.api_listen} with {certificate}"
        yield Finding(check=_CHECK, mark=CheckOutcome.OK, text=text)


def _unreadable(path: Path) -> str:
    try:
        with path.open("rb"):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _key(key: Path) -> Iterator[Finding]:
    """Its group may read it: so keys are shared with a service."""
    if key.stat().st_mode & stat.S_IROTH:
        yield _bad(f"other users may read the key {key}", f"chmod o-r {key}")
    if key.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield _bad(f"other users may change the key {key}", f"chmod go-w {key}")


def _pair(certificate: Path, key: Path) -> Iterator[Finding]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password=_refuse_password)
    except (ssl.SSLError, VgpumgrError) as error:
        if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
            text = f"the key {key} is not that of the certificate {certificate}"
        else:
            why = getattr(error, "reason", "") or str(error)
            text = f"the certificate {certificate} with the key {key} cannot be used: {why}"
        yield _bad(
            text, f"openssl x509 -in {certificate} -noout -text; openssl pkey -in {key} -check"
        )


def _refuse_password() -> str:
    """OpenSSL would ask the terminal."""
    raise VgpumgrError("the key is encrypted")


def _client_ca(path: Path | None) -> Iterator[Finding]:
    if path is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(path)
    except ssl.SSLError as error:
        why = error.reason or str(error)
        next = f"openssl x509 -in {path} -noout -text"
        yield _bad(f"the CA of clients {path} cannot be used: {why}", next)


def _dates(path: Path, now: float) -> Iterator[Finding]:
    from cryptography import x509  # slow to import

    try:
        certificate = x509.load_pem_x509_certificates(path.read_bytes())[0]
    except ValueError:
        return  # told as a pair that cannot be used
    begins = certificate.not_valid_before_utc.timestamp()
    ends = certificate.not_valid_after_utc.timestamp()
    renew = f"openssl x509 -in {path} -noout -dates; renew it (it is taken without a restart)"
    if now < begins:
        yield _bad(f"the certificate {path} is valid in {span_words(begins - now)} only", renew)
    elif now >= ends:
        yield _bad(f"the certificate {path} expired {span_words(now - ends)} ago", renew)
    elif ends - now < EXPIRES_S:
        text = f"the certificate {path} expires in {span_words(ends - now)}"
        yield Finding(check=_CHECK, mark=CheckOutcome.WARN, text=text, next=renew)


def _socket(path: Path | None) -> Iterator[Finding]:
    """A user who may write to the folder can put a socket of their own there, and is asked with
    tokens and commands of others.
    """
    if path is None or not path.parent.exists():
        return
    mode = path.parent.stat().st_mode
    if mode & stat.S_IWOTH or (mode & stat.S_IWGRP):
        text = f"other users may put a socket of their own into {path.parent}"
        yield _bad(text, f"chmod go-w {path.parent}")


def _bad(text: str, next: str) -> Finding:
    return Finding(check=_CHECK, mark=CheckOutcome.BAD, text=text, next=next)

"""The mail server of the settings: a message is handed to it over SMTP, in bounded time.

A password is sent over TLS alone, and is read where it is used: it is in no setting, log or record.
"""

from __future__ import annotations

import re
import smtplib
import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Self

from vgpumgr.app.config import Config
from vgpumgr.app.setting_values import MailSecurity
from vgpumgr.model.actor import carried
from vgpumgr.model.errors import UsageError, VgpumgrError
from vgpumgr.model.notification import is_mail_address
from vgpumgr.model.role_binding import EVERY_TENANT
from vgpumgr.model.secret import SecretReader

TIMEOUT_S = 20.0
"""The longest that the server may keep one step of the exchange waiting."""
EXCHANGE_S = 120.0
"""The longest that all steps may take, however many bytes come."""
_PORTS = {MailSecurity.STARTTLS: 587, MailSecurity.TLS: 465, MailSecurity.NONE: 25}
_PLACE = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\s]+)(?::([0-9]{1,5}))?")


class _Deadline:
    """Cuts an exchange that is under way at its end; what waits for its answer then fails."""

    def __init__(self, longest_s: float) -> None:
        self.smtp: smtplib.SMTP | None = None
        self.over = False
        self._longest_s = longest_s
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        wait = carried(self._wait)
        threading.Thread(target=wait, name="mail-deadline", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _wait(self) -> None:
        left_s = self._longest_s
        while not self._ended.wait(left_s):
            self.over, left_s = True, 1.0  # it may be connecting, which has an end of its own
            sock = self.smtp.sock if self.smtp is not None else None
            if sock is not None:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)


class _BoundedSmtp(smtplib.SMTP):
    """SMTP that a deadline knows from its greeting on."""

    def __init__(self, deadline: _Deadline, *args: Any, **named: Any) -> None:
        deadline.smtp = self
        super().__init__(*args, **named)


class _BoundedSmtpTls(_BoundedSmtp, smtplib.SMTP_SSL):
    """The same over TLS from the beginning."""


class NotSent(Exception):
    """The server did not take a message; the text says why. ``final``: no attempt will help."""

    def __init__(self, why: str, *, final: bool = False) -> None:
        super().__init__(why)
        self.final = final


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """Where mail is handed to, and as whom. ``secret`` names the password, a secret of the fleet;
    ``ca`` a file of certificates to trust in place of the system's.
    """

    host: str
    port: int
    security: MailSecurity
    sender: str
    user: str = ""
    secret: str = ""
    ca: Path | None = None
    timeout_s: float = TIMEOUT_S
    exchange_s: float = EXCHANGE_S

    def send(self, message: EmailMessage, to: tuple[str, ...], secrets: SecretReader) -> str:
        """Hand it over; the addresses that were refused while others were taken, in words. NotSent
        where none was taken.
        """
        with _Deadline(self.exchange_s) as deadline:
            try:
                return self._sent(message, to, secrets, deadline)
            except NotSent as error:
                if not deadline.over:
                    raise
                why = f"the exchange took longer than {self.exchange_s:g} s"
                raise NotSent(f"{self.host}:{self.port}: {why}") from error

    def _sent(
        self, message: EmailMessage, to: tuple[str, ...], secrets: SecretReader, deadline: _Deadline
    ) -> str:
        try:
            password = self._password(secrets)
            with self._connection(deadline) as server:
                if password:
                    server.login(self.user, password)
                refused = server.send_message(message, self.sender, list(to))
        except smtplib.SMTPRecipientsRefused as error:
            raise NotSent(_refused(error.recipients), final=_is_final(error.recipients)) from error
        except smtplib.SMTPAuthenticationError as error:
            raise NotSent(f"the login of {self.user} is refused: {_answer(error)}") from error
        except smtplib.SMTPResponseException as error:
            raise NotSent(f"the mail server answers {_answer(error)}") from error
        except ssl.SSLCertVerificationError as error:
            why = f"its certificate is not accepted: {error.verify_message}"
            raise NotSent(f"{self.host}:{self.port}: {why}") from error
        except TimeoutError as error:
            why = f"no answer within {self.timeout_s:g} s"
            raise NotSent(f"{self.host}:{self.port}: {why}") from error
        except (smtplib.SMTPException, OSError, ValueError) as error:
            raise NotSent(f"{self.host}:{self.port}: {_words(error)}") from error
        except VgpumgrError as error:
            raise NotSent(f"{error.message}: {error.why or error.next}") from error
        return _refused(refused) if refused else ""

    def _password(self, secrets: SecretReader) -> str:
        if not self.user:
            return ""
        return secrets.read(EVERY_TENANT, self.secret).reveal().decode().rstrip("\r\n")

    def _connection(self, deadline: _Deadline) -> smtplib.SMTP:
        context = ssl.create_default_context(cafile=self.ca)
        place = (deadline, self.host, self.port)
        if self.security is MailSecurity.TLS:
            return _BoundedSmtpTls(*place, timeout=self.timeout_s, context=context)
        server = _BoundedSmtp(*place, timeout=self.timeout_s)
        if self.security is MailSecurity.STARTTLS:
            try:
                server.starttls(context=context)
                server.ehlo()
            except BaseException:
                server.close()
                raise
        return server


def mail_server(config: Config) -> MailServer | None:
    """The one of the settings; None where they name none. UsageError where they do not agree."""
    if not config.mail_server:
        return None
    found = _PLACE.fullmatch(config.mail_server)
    port = int(found[2]) if found and found[2] else _PORTS[config.mail_security]
    if found is None or not 0 < port < 65536:
        raise UsageError(
            f"the setting mail_server is no address: {config.mail_server!r:.80}",
            next="mail_server: mail.example.com:587",
        )
    if not config.mail_from:
        raise UsageError("mail has no sender", next="mail_from: vgpumgr@example.com")
    if not is_mail_address(config.mail_from):
        raise UsageError(
            f"the setting mail_from is no mail address: {config.mail_from!r:.80}",
            next="mail_from: vgpumgr@example.com",
        )
    if config.mail_user and not config.mail_password:
        raise UsageError(
            "mail_user is set, and no secret with its password",
            next="vgpumgr secret set NAME; mail_password: NAME",
        )
    if config.mail_user and config.mail_security is MailSecurity.NONE:
        raise UsageError(
            "a password is not sent without TLS", next="mail_security: starttls, or tls"
        )
    if config.mail_ca is not None and not config.mail_ca.is_file():
        raise UsageError(f"no file {config.mail_ca}", next="mail_ca: a file of certificates")
    return MailServer(
        host=found[1].strip("[]"),
        port=port,
        security=config.mail_security,
        sender=config.mail_from,
        user=config.mail_user,
        secret=config.mail_password,
        ca=config.mail_ca,
    )


def _answer(error: smtplib.SMTPResponseException) -> str:
    said = error.smtp_error
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    return f"{error.smtp_code} {text[:200]}"


def _refused(recipients: dict[str, tuple[int, bytes]]) -> str:
    parts = (
        f"{to} ({code} {said.decode(errors='replace')[:100]})"
        for to, (code, said) in sorted(recipients.items())
    )
    return f"refused: {', '.join(parts)}"


def _is_final(recipients: dict[str, tuple[int, bytes]]) -> bool:
    return all(code >= 500 for code, _ in recipients.values())


def _words(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text or type(error).__name__

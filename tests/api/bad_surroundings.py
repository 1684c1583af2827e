"""What befalls a server from around it: certificates, an identity provider, the clock."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.api.bad_ledgers import is_problem, unread, works
from tests.apiserver import ApiServer, serving_api
from tests.certificates import Authority
from tests.e2e.support import Cli
from vgpumgr.api.server import RELOAD_S

CLOCK = Path(__file__).with_name("jumping_clock.c")
DAY_S = 86400


class Certificates:
    """A certificate with its key, made and renewed in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._authority = Authority(folder / "ca")
        self.certificate, self.key = folder / "server-cert.pem", folder / "server-key.pem"
        self.renew()

    @property
    def tls(self) -> tuple[str, ...]:
        """The options by which the API takes them."""
        return ("--certificate", str(self.certificate), "--key", str(self.key))

    def renew(self) -> None:
        """A new pair."""
        self._authority.issue("IP:127.0.0.1", self._folder)

    def expire(self) -> None:
        """A pair that has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "old")])
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
            .not_valid_after(datetime(2020, 2, 1, tzinfo=UTC))
            .sign(key, hashes.SHA256())
        )
        plain = serialization.NoEncryption()
        pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        self.key.write_bytes(key.private_bytes(pem, form, plain))
        self.certificate.write_bytes(made.public_bytes(pem))


def shown(server: ApiServer) -> int:
    """The serial number of the certificate that is shown; 0 where none is."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        suppress(OSError),
        socket.create_connection(("127.0.0.1", server.port), 5) as plain,
        context.wrap_socket(plain) as secure,
    ):
        found = secure.getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(found).serial_number if found else 0
    return 0


def certificates(cli: Cli) -> list[str]:
    """Half-written, of another key, expired, gone: the one before is used; a good one is taken."""
    files = Certificates(cli.folder / "tls")
    wrong = []
    with serving_api(cli, files.tls, name="tls") as server:
        first = shown(server)
        whole = files.certificate.read_bytes()

        def of_another_key() -> None:
            kept = files.key.read_bytes()
            files.renew()
            files.key.write_bytes(kept)

        def gone() -> None:
            files.certificate.unlink()

        def half() -> None:
            files.certificate.write_bytes(whole[: len(whole) // 2])

        for spoil in (half, of_another_key, files.expire, gone):
            spoil()
            time.sleep(RELOAD_S * 1.5)
            if (now := shown(server)) != first:
                wrong.append(f"{spoil.__name__}: {now} is shown")
        files.renew()
        time.sleep(RELOAD_S * 2)
        if shown(server) in {0, first}:
            wrong.append("a renewed certificate is not taken")
    return wrong


def provider_away(cli: Cli) -> list[str]:
    """Logins fail with a problem, all else goes on."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    environ = {
        "VGPUMGR_AUTH_OIDC_ISSUER": f"https://127.0.0.1:{port}",
        "VGPUMGR_AUTH_OIDC_CLIENT_ID": "vgpumgr",
    }
    with mock.patch.dict(os.environ, environ), serving_api(cli, name="login") as server:
        answer = server.ask("POST", "/v1/logins")
        wrong = [] if is_problem(answer, 502) else [f"a login: {answer}"]
        shown = {"Authorization": "Bearer vgs_nothing"}
        answer = server.ask("GET", "/v1/vms", headers=shown)
        wrong += [] if is_problem(answer, 401) else [f"a session: {answer}"]
        return wrong + unread(server)


def clock_jumps(cli: Cli) -> list[str]:
    """The clock goes days ahead and back: requests are answered, operations end."""
    compiler = shutil.which("cc")
    if compiler is None:
        return []
    library, jump = cli.folder / "clock.so", cli.folder / "jump"
    argv = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(CLOCK), "-ldl"]
    subprocess.run(argv, check=True)
    jump.write_text("0")
    wrong = []
    environ = {"LD_PRELOAD": str(library), "JUMP_FILE": str(jump)}
    with mock.patch.dict(os.environ, environ), serving_api(cli, name="clock") as server:
        made = server.ask("POST", "/v1/tokens", {"name": "short", "role": "viewer"})
        shown = {"Authorization": f"Bearer {made.body['secret']}"}
        for seconds in (40 * DAY_S, -2 * DAY_S, 0):
            jump.write_text(str(seconds))
            wrong += [f"{seconds} s: {each}" for each in unread(server) + works(server)]
            status = server.ask("GET", "/v1/vms", headers=shown).status
            if status != (401 if seconds > 0 else 200):
                wrong.append(f"{seconds} s: a token of a month gets {status}")
    return wrong


def surrounding_cases(cli: Cli) -> dict[str, Callable[[], list[str]]]:
    """All of them; each has a server of its own."""
    return {
        "certificates": lambda: certificates(cli),
        "identity provider away": lambda: provider_away(cli),
        "clock jumps": lambda: clock_jumps(cli),
    }

"""The certified OpenID provider of npm, as a process: `oidc-provider`."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.npm import installed

PACKAGE = "oidc-provider@9"
SERVER = Path(__file__).with_name("npm_provider.mjs")
CLIENT, SECRET = "vgpumgr", "s3cret/+"


@contextmanager
def npm_provider(folder: Path, back: str, *, install: bool = True) -> Iterator[str]:
    """The address of one that runs, and sends users back there; who logs in is in the groups
    ``cad`` and ``ops``. Without ``install`` its packages are in the folder already.
    """
    if install:
        installed(folder, PACKAGE)
    shutil.copy(SERVER, folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "log"
    with log.open("w") as out:
        argv = ["node", SERVER.name, str(port), back]
        server = subprocess.Popen(argv, cwd=folder, stdout=out, stderr=out)
    until = time.monotonic() + 30
    while "up" not in log.read_text().split() and time.monotonic() < until:
        assert server.poll() is None, log.read_text()
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(10)


def provider_settings(issuer: str, folder: Path) -> dict[str, str]:
    """The environment of a server whose users log in there; the secret's file is in the folder."""
    secret = folder / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    return {
        "VGPUMGR_AUTH_OIDC_ISSUER": issuer,
        "VGPUMGR_AUTH_OIDC_CLIENT_ID": CLIENT,
        "VGPUMGR_AUTH_OIDC_CLIENT_SECRET_FILE": str(secret),
        "VGPUMGR_AUTH_OIDC_USER_CLAIM": "preferred_username",
        "VGPUMGR_AUTH_OIDC_SCOPES": "openid profile groups",
    }

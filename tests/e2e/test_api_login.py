"""A login from the command line at an OpenID provider, over TLS, and what follows from it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from tests import oidc_provider
from tests.apiserver import ApiServer, serving_api
from tests.certificates import Authority
from tests.e2e.support import Cli, Ran, host, new_cli, run_argv, vm

pytestmark = pytest.mark.mainline


class Colleague:
    """A user on another machine: a home folder, and nothing of the controller's."""

    def __init__(self, home: Path, api: ApiServer, ca: Path) -> None:
        self.home = home
        self.ok("context", "add", "prod", "--server", api.url, "--ca", str(ca))

    def __call__(self, *args: str, stdin: bytes = b"") -> Ran:
        environ = {"HOME": str(self.home), "XDG_CONFIG_HOME": str(self.home / "config")}
        with mock.patch.dict(os.environ, environ):
            os.environ.pop("VGPUMGR_STATE_DIR", None)
            return run_argv("vgpumgr", *args, stdin=stdin)

    def ok(self, *args: str) -> Ran:
        ran = self(*args)
        assert ran.code == 0, (args, ran.out, ran.err)
        return ran


@pytest.fixture(scope="module")
def provider() -> Iterator[oidc_provider.Provider]:
    with oidc_provider.running() as running:
        yield running


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    with new_cli() as made:
        made.sim_up(host("h1", ("T4", 2)))
        made.ok("apply", "-f", made.documents(vm("desk-a", "T4-4Q")))
        yield made


@pytest.fixture(scope="module")
def api(cli: Cli, provider: oidc_provider.Provider) -> Iterator[ApiServer]:
    Authority(cli.folder / "ca").issue("IP:127.0.0.1", cli.folder)
    tls = (
        "--certificate",
        f"{cli.folder}/server-cert.pem",
        "--key",
        f"{cli.folder}/server-key.pem",
    )
    secret = cli.folder / "client-secret"
    secret.write_text(oidc_provider.SECRET)
    secret.chmod(0o600)
    environ = {
        "VGPUMGR_AUTH_OIDC_ISSUER": provider.issuer,
        "VGPUMGR_AUTH_OIDC_CLIENT_ID": oidc_provider.CLIENT,
        "VGPUMGR_AUTH_OIDC_CLIENT_SECRET_FILE": str(secret),
    }
    with mock.patch.dict(os.environ, environ), serving_api(cli, tls=tls) as server:
        yield server


@pytest.fixture
def ada(tmp_path: Path, api: ApiServer, cli: Cli) -> Colleague:
    return Colleague(tmp_path, api, cli.folder / "ca-cert.pem")


def log_in(ada: Colleague, provider: oidc_provider.Provider) -> Ran:
    """Type the code in a browser while the command waits."""
    ended = threading.Event()

    def agree() -> None:
        while not ended.wait(0.05):
            for code in provider.devices:
                provider.devices[code] = "done"

    thread = threading.Thread(target=agree)
    thread.start()
    try:
        return ada.ok("login")
    finally:
        ended.set()
        thread.join()


def test_a_login_gives_what_its_groups_have(
    ada: Colleague, provider: oidc_provider.Provider, cli: Cli
) -> None:
    assert ada("vm", "list").code == 8
    assert "logged in as u-1" in log_in(ada, provider).err
    refused = ada("vm", "list")
    assert (refused.code, "no role" in refused.err) == (8, True)
    cli.ok("role", "grant", "group:ops", "operator")
    assert "desk-a" in ada.ok("vm", "list").out
    ada.ok("vm", "stop", "desk-a", "--force")
    trail = cli.items("audit", "list", "--user", "u-1", "--limit", "0")
    assert {"access.login", "operation.begun"} <= {each["event"] for each in trail}
    ada.ok("logout")
    assert ada("vm", "list").code == 8


@pytest.mark.thorough
def test_an_unknown_authority_is_not_spoken_to(
    ada: Colleague, api: ApiServer, tmp_path: Path
) -> None:
    Authority(tmp_path / "other")
    ada.ok("context", "add", "x", "--server", api.url, "--ca", f"{tmp_path}/other/ca-cert.pem")
    ran = ada("vm", "list")
    assert (ran.code, "certificate" in ran.err.lower()) == (6, True)

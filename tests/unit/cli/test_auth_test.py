"""`vgpumgr auth test`: a login at the provider of the settings, and who that would be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import oidc_provider
from tests.e2e.support import run_argv
from tests.ledgers import new_ledger
from tests.oidc_provider import SECRET, Claims


def test_it_shows_who_one_would_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_ledger(tmp_path / "ledger.sqlite")
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    with oidc_provider.running() as provider:
        for name, value in (
            ("ISSUER", provider.issuer),
            ("CLIENT_ID", "vgpumgr"),
            ("CLIENT_SECRET_FILE", str(secret)),
            ("USER_CLAIM", "preferred_username"),
        ):
            monkeypatch.setenv(f"VGPUMGR_AUTH_OIDC_{name}", value)
        begun = provider.device

        def ended_at_once(base: str) -> Claims:
            found = begun(base)
            provider.devices[found["device_code"]] = "done"
            return found

        monkeypatch.setattr(provider, "device", ended_at_once)
        state = ("--state-dir", str(tmp_path))
        argv = ("role", "grant", "group:cad", "tenant-user", "--tenant", "blue")
        assert run_argv("vgpumgr", *state, *argv).code == 0
        shown = run_argv("vgpumgr", *state, "auth", "test")
        assert "activate?code=ABCD-EFGH" in shown.err
        assert "group:cad, group:ops, user:ada" in shown.out
        assert "tenant-user in blue" in shown.out
        found = json.loads(run_argv("vgpumgr", *state, "auth", "test", "-o", "json").out)
        assert found["permissions"]["desktop:connect"] == ["blue"]
        del provider.claims["groups"]
        refused = run_argv("vgpumgr", *state, "auth", "test")
        assert refused.code == 8 and "the login has no claim groups" in refused.err

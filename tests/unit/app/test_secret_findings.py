"""What `doctor` says of secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ledgers import new_ledger
from vgpumgr.app import App
from vgpumgr.app.config import load_config
from vgpumgr.app.stored_findings import secret_findings
from vgpumgr.model.examination import CheckOutcome
from vgpumgr.model.host import Fence, HostRecord
from vgpumgr.model.role_binding import EVERY_TENANT
from vgpumgr.model.secret import SecretValue


@pytest.fixture
def app(tmp_path: Path) -> App:
    new_ledger(tmp_path / "ledger.sqlite")
    return App(load_config({"HOME": str(tmp_path)}, tmp_path, {"state_dir": str(tmp_path)}))


def test_doctor_names_what_is_missing_changed_or_open(app: App) -> None:
    assert list(secret_findings(app)) == []
    for name in ("sound", "changed", "open"):
        with app.secrets.replacing(EVERY_TENANT, name, SecretValue(b"value")) as digest:
            app.writable_ledger.set_secret(EVERY_TENANT, name, digest)
    [sound] = secret_findings(app)
    assert (sound.mark, sound.text) == (CheckOutcome.OK, "3 secrets")
    app.secrets.path(EVERY_TENANT, "changed").write_bytes(b"other")
    app.secrets.path(EVERY_TENANT, "open").chmod(0o644)
    fence = Fence(off=("/bin/off", "{secret}"), status=("/bin/status",), secret="missing")
    app.writable_ledger.add_host(HostRecord(name="h1", address="sim://h1", fence=fence))
    changed, missing, opened = secret_findings(app)
    assert {each.mark for each in (changed, missing, opened)} == {CheckOutcome.BAD}
    assert "changed has another value" in changed.text
    assert "missing has no value on this machine (used by host h1)" in missing.text
    assert "0644" in opened.text and "chmod 600" in opened.text
    assert changed.next == "vgpumgr secret set changed --tenant '*'"
    app.close()

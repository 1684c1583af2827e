"""Secrets as files: ours alone, whole or not at all, and never led elsewhere."""

from __future__ import annotations

import logging
import os
import pickle
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from vgpumgr.app.secret_files import FLEET, SecretFiles
from vgpumgr.app.secret_store import SecretStore
from vgpumgr.model.errors import NotFound, NotPermitted, UsageError
from vgpumgr.model.role_binding import EVERY_TENANT
from vgpumgr.model.secret import MAX_SECRET_BYTES, SecretRecord, SecretState, SecretValue

MARK = b"marker-hunter2"


@pytest.fixture
def store(tmp_path: Path) -> SecretStore:
    return SecretStore(tmp_path / "state" / "secrets")


def put(store: SecretStore, value: bytes = MARK, tenant: str = "cad", name: str = "key") -> str:
    with store.replacing(tenant, name, SecretValue(value)) as digest:
        return digest


def record(digest: str) -> SecretRecord:
    return SecretRecord(tenant="cad", name="key", digest=digest, set_at=1.0, set_by="ada")


def test_a_value_is_ours_alone_whatever_the_umask(store: SecretStore, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        put(store)
        put(store, tenant=EVERY_TENANT)
    finally:
        os.umask(before)
    root = tmp_path / "state" / "secrets"
    modes = {
        str(each.relative_to(root)): stat.S_IMODE(each.stat().st_mode)
        for each in (root, *root.rglob("*"))
    }
    folders = {".": 0o700, "cad": 0o700, FLEET: 0o700}
    files = {"cad/key": 0o600, f"{FLEET}/key": 0o600, ".digest-key": 0o600}
    assert modes == folders | files
    assert store.read("cad", "key").reveal() == MARK
    assert store.path("cad", "key") == root / "cad" / "key"
    assert store.names() == {("cad", "key"), (EVERY_TENANT, "key")}


def test_a_secret_is_of_one_tenant(store: SecretStore) -> None:
    put(store)
    for tenant in ("red", EVERY_TENANT):
        with pytest.raises(NotFound):
            store.read(tenant, "key")


@pytest.mark.parametrize("name", ["../key", "a/b", "", ".", "..", ".key", "A", "a\n", "x" * 64])
def test_no_name_leads_elsewhere(store: SecretStore, name: str) -> None:
    with pytest.raises(UsageError, match="is not a name"):
        put(store, name=name)
    with pytest.raises(UsageError, match="is not a name"):
        put(store, tenant=name)
    with pytest.raises(UsageError, match="is not a name"):
        store.read("cad", name)


@pytest.mark.parametrize("value", [b"", b"x" * (MAX_SECRET_BYTES + 1)], ids=["none", "too large"])
def test_its_size_is_bounded(store: SecretStore, value: bytes) -> None:
    with pytest.raises(UsageError):
        put(store, value)


def test_links_are_refused(store: SecretStore, tmp_path: Path) -> None:
    put(store)
    away = tmp_path / "away"
    away.write_bytes(MARK)
    away.chmod(0o600)
    path = store.path("cad", "key")
    path.unlink()
    path.symlink_to(away)
    for use in (lambda: store.read("cad", "key"), lambda: put(store, b"other")):
        with pytest.raises(NotPermitted, match="is not used"):
            use()
    assert away.read_bytes() == MARK
    path.unlink()
    other = tmp_path / "other"
    path.parent.rename(other)
    path.parent.symlink_to(other)
    for use in (lambda: store.read("cad", "key"), lambda: put(store, b"other")):
        with pytest.raises(NotPermitted, match="is not used"):
            use()
    assert not (other / "key").exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602])
def test_a_file_that_others_can_read_is_refused(store: SecretStore, mode: int) -> None:
    put(store)
    path = store.path("cad", "key")
    path.chmod(mode)
    with pytest.raises(NotPermitted) as refused:
        store.read("cad", "key")
    assert f"{mode:04o}" in refused.value.why and f"chmod 600 {path}" in refused.value.next
    path.chmod(0o600)
    path.parent.chmod(0o750)
    with pytest.raises(NotPermitted) as refused:
        store.read("cad", "key")
    assert f"chmod 700 {path.parent}" in refused.value.next


def test_where_the_ledger_refuses_the_value_stays_as_it_was(store: SecretStore) -> None:
    put(store)
    with pytest.raises(NotFound), store.replacing("cad", "key", SecretValue(b"other")):
        raise NotFound("no ledger")
    assert store.read("cad", "key").reveal() == MARK
    assert [each.name for each in store.path("cad", "key").parent.iterdir()] == ["key"]


def test_what_a_killed_process_left_is_no_secret_and_goes(store: SecretStore) -> None:
    put(store)
    folder = store.path("cad", "key").parent
    (folder / ".key.0123").write_bytes(MARK)
    assert store.names() == {("cad", "key")}
    put(store, b"other")
    assert [each.name for each in folder.iterdir()] == ["key"]


def test_its_digest_says_whether_it_is_what_was_set(store: SecretStore, tmp_path: Path) -> None:
    assert store.state("cad", "key", record("")) == (SecretState.MISSING, "")
    digest = put(store)
    assert store.state("cad", "key", record(digest))[0] is SecretState.PRESENT
    assert store.state("cad", "key", None)[0] is SecretState.UNRECORDED
    store.path("cad", "key").write_bytes(b"other")
    assert store.state("cad", "key", record(digest))[0] is SecretState.CHANGED
    store.path("cad", "key").chmod(0o644)
    state, why = store.state("cad", "key", record(digest))
    assert state is SecretState.UNREADABLE and "chmod 600" in why


def test_the_key_of_the_digests_is_looked_after_too(store: SecretStore, tmp_path: Path) -> None:
    digest = put(store)
    key = tmp_path / "state" / "secrets" / ".digest-key"
    key.chmod(0o644)
    assert store.state("cad", "key", record(digest))[0] is SecretState.UNREADABLE
    with pytest.raises(NotPermitted, match="is not used"):
        put(store)
    key.chmod(0o600)
    key.unlink()
    assert store.state("cad", "key", record(digest))[0] is SecretState.CHANGED
    assert put(store) != digest
    key.write_bytes(b"short")
    with pytest.raises(NotPermitted, match="key of the secrets' digests"):
        put(store)


def test_a_digest_is_of_one_secret_and_needs_the_key(store: SecretStore, tmp_path: Path) -> None:
    digests = {put(store), put(store, name="other"), put(store, tenant="red"), put(store, b"x")}
    digests.add(put(SecretStore(tmp_path / "another")))
    digests |= {store.mark("marker-hunter2"), store.mark("x")}
    assert len(digests) == 7
    assert store.mark("x") == SecretStore(tmp_path / "state" / "secrets").mark("x")


def test_a_credential_of_systemd_is_the_fleets_and_is_only_read(tmp_path: Path) -> None:
    given = tmp_path / "credentials"
    given.mkdir()
    (given / "key").write_bytes(MARK)
    (given / "key").chmod(0o440)
    store = SecretStore(tmp_path / "secrets", given)
    assert store.read(EVERY_TENANT, "key").reveal() == MARK
    assert store.path(EVERY_TENANT, "key") == given / "key"
    assert store.state(EVERY_TENANT, "key", None) == (SecretState.PRESENT, "")
    with pytest.raises(NotFound):
        store.read("cad", "key")
    with pytest.raises(NotPermitted, match="credential of systemd"):
        put(store, tenant=EVERY_TENANT)
    with pytest.raises(NotPermitted), store.removing(EVERY_TENANT, "key"):
        pass


def test_no_text_made_of_a_value_shows_it(caplog: pytest.LogCaptureFixture) -> None:
    @dataclass(frozen=True)
    class Holder:
        value: SecretValue

    value = SecretValue(MARK)
    texts = [
        str(value),
        repr(value),
        f"{value} {value!r} {value:>40}",
        f"{Holder(value)}",
        f"{[value]}",
    ]
    logging.getLogger("vgpumgr").warning("value %s %r", value, value)
    assert MARK.decode() not in "".join([*texts, caplog.text])
    with pytest.raises(TypeError, match="not written anywhere"):
        pickle.dumps(value)


def test_of_many_at_once_the_last_digest_is_of_the_value(store: SecretStore) -> None:
    recorded: list[str] = []

    def write(number: int) -> None:
        with store.replacing("cad", "key", SecretValue(b"%d" % number)) as digest:
            recorded.append(digest)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(40)))
    assert len(set(recorded)) == 40
    assert store.state("cad", "key", record(recorded[-1]))[0] is SecretState.PRESENT


def test_a_folder_that_others_can_read_hides_no_other_tenants_secrets(store: SecretStore) -> None:
    digest = put(store)
    put(store, tenant="red")
    store.path("cad", "key").parent.chmod(0o755)
    assert store.names() == {("red", "key")}
    state, why = store.state("cad", "key", record(digest))
    assert state is SecretState.UNREADABLE and "chmod 700" in why


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_refused_at_once(store: SecretStore, kind: str) -> None:
    put(store)
    path = store.path("cad", "key")
    path.unlink()
    path.mkdir(0o700) if kind == "folder" else os.mkfifo(path, 0o600)
    with pytest.raises(NotPermitted, match="is not used"):
        store.read("cad", "key")
    with pytest.raises(NotPermitted, match="is not used"):
        put(store)


@pytest.mark.root
def test_what_root_sets_is_the_state_folders_owners(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    os.chown(state, 4242, 4242)
    files = SecretFiles(state / "secrets")
    with files.locked(), files.replacing("cad", "key", b"value"):
        pass
    made = [state / "secrets", state / "secrets/cad", state / "secrets/cad/key"]
    assert {(each.stat().st_uid, each.stat().st_gid) for each in made} == {(4242, 4242)}

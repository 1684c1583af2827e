"""Every column of every table: whoever damages what is decoded is told by `store check`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.store import values
from tests.unit.store.lived import every_table
from vgpumgr.model.errors import LedgerError
from vgpumgr.store.admin import maintenance
from vgpumgr.store.admin.row_check import DECODERS
from vgpumgr.store.schema import metadata

# Text that is taken as it is, whatever it says. Everything else is decoded, or a number.
PLAIN = {
    "allocation": "id vm_id vm host gpu profile framework device type_id parent",
    "api_request": "user_name key digest endpoint attempt operation",
    "api_token": "id name owner secret_hash tenant",
    "audit": "by event operation task vm host gpu allocation profile device detail"
    " tenant method address credential",
    "checkpoint": "root edge note",
    "backup_target": "name set_by",
    "booking": "id user_group profile tenant",
    "desktop": "id pool name vm_id image host owner why",
    "gpu": "id host device uuid serial vendor_device supply state_why",
    "host": "name address supply last_error",
    "image": "id name version format sha256 source",
    "image_copy": "id image host pool",
    "calendar": "name",
    "layout": "gpu host layout operation",
    "licence": "edition",
    "notification": "name why",
    "flavour": "name set_by",
    "login_session": "id secret_hash user_name address why",
    "logoff_move": "id vm_id vm user_name host why outcome",
    "meta": "fleet_id frozen_why",
    "operation": "id kind started_by summary worker tenant method vm_tenant",
    "pool": "id name tenant",
    "pool_ask": "id pool user_name",
    "pool_session": "id pool desktop name user_name booking why",
    "power_budget": "name",
    "power_cap": "gpu host",
    "price_book": "",
    "profile_disk": "tenant pool user_name storage_pool volume vm_id",
    "queue": "id name vm_id why tenant",
    "quota": "tenant",
    "refusal": "host gpu vm operation task what why",
    "request": "vm vm_id tenant",
    "role_binding": "subject tenant created_by",
    "seal": "hash",
    "secret": "tenant name digest set_by",
    "step": "task kind detail host",
    "task": "id operation vm_id vm host verb error peer",
    "ticket": "id vm_id vm user machine key address answer code why next tenant digest login",
    "unit": "gpu_id kind allocation_id",
    "vm": "id name host definition tenant",
    "vm_backup": "id vm_id vm tenant target pool host fault task parent",
    "webhook": "id name tenant url why created_by",
}
KEYS = {"id", "seq", "number", "slot", "leaf", "size"}
TEXTS = ('{"a', "{}", '["\\ud800", 7, {"b": []}]')
# Objects of which every member has a default.
MAY_BE_EMPTY = {
    ("calendar", "days"),
    ("flavour", "spec"),
    ("allocation", "extra"),
    ("api_request", "answer"),
    ("audit", "consumption"),
    ("quota", "limits"),
    ("step", "args"),
    ("gpu", "health"),
    ("host", "settings"),
    ("layout", "goal"),
    ("request", "reasons"),
    ("vm", "snapshots"),
}


def decoded(table: str) -> list[str]:
    names = [column.name for column in metadata.tables[table].columns]
    return [each for each in names if each not in {*PLAIN[table].split(), *KEYS}]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bytes]:
    """A ledger with a row in every table."""
    path = tmp_path_factory.mktemp("lived") / "l"
    every_table(path)
    values.close_all()
    found = maintenance.check(path).problems
    assert not [each for each in found if each.what.startswith("damaged")]
    yield path.read_bytes()


def told(sound: bytes, path: Path, table: str, column: str, text: str) -> list[str]:
    """What the check says of the ledger with this in the first row of this column."""
    path.touch(mode=0o600)
    path.write_bytes(sound)
    with closing(sqlite3.connect(path)) as raw, raw:
        first = (
            "SELECT min(slot) FROM unit" if table == "unit" else f'SELECT min(rowid) FROM "{table}"'
        )
        key = "slot" if table == "unit" else "rowid"
        changed = f'UPDATE "{table}" SET "{column}" = ? WHERE {key} = ({first})'
        assert raw.execute(changed, (text,)).rowcount == 1
    try:
        return [each.what for each in maintenance.check(path).problems]
    except LedgerError as error:
        assert (table, error.code) == ("meta", "ledger.damaged"), error
        return [error.message.replace("a row's", "meta 1's")]


def test_every_table_has_its_reader_and_every_column_its_kind() -> None:
    assert {table.name for table in DECODERS} == set(metadata.tables) == set(PLAIN)
    for table, columns in metadata.tables.items():
        assert set(PLAIN[table].split()) <= set(columns.columns.keys())


@pytest.mark.thorough
@pytest.mark.parametrize("table", sorted(metadata.tables))
def test_a_damaged_value_is_told_with_its_row(sound: bytes, tmp_path: Path, table: str) -> None:
    """Text that nobody wrote, in each column that is decoded or a number."""
    for column in decoded(table):
        for text in TEXTS:
            if text == "{}" and (table, column) in MAY_BE_EMPTY:
                continue
            found = told(sound, tmp_path / "l", table, column, text)
            assert found, f"{text} in {table}.{column}"
            assert all(each.startswith(f"damaged: {table} ") for each in found), (column, found)


def test_text_that_is_no_text_is_damage(sound: bytes, tmp_path: Path) -> None:
    path = tmp_path / "l"
    path.write_bytes(sound)
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("UPDATE vm SET spec = CAST(? AS TEXT)", (b"\xfe",))
    with pytest.raises(LedgerError, match="damaged") as caught:
        maintenance.check(path)
    assert caught.value.code == "ledger.damaged"

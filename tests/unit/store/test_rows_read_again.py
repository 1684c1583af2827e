"""Rows that were read before: the same values again, and only where the row is the same."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from sqlalchemy import select, update

from tests.unit.store.values import allocation, board, facts, fleet, gpu, see, start, vm
from vgpumgr.model.codec import dump
from vgpumgr.model.host import UnchangedLook
from vgpumgr.model.vm import VmSpec
from vgpumgr.store import SqlLedger
from vgpumgr.store.ledger.gpu_texts import dump_gpu, load_gpu
from vgpumgr.store.ledger.row_memo import RowMemo
from vgpumgr.store.ledger.vms import _spec as read_spec
from vgpumgr.store.schema import gpu as gpu_table


def lived(url: str) -> SqlLedger:
    """Two alike hosts; a VM on the first."""
    ledger = fleet(url, ["h1", "h2"], gpus=2)
    owner = vm("desk")
    ledger.reserve(start(allocation(owner, ledger.gpus("h1")[0], [0, 1]), vms=[owner]))
    return ledger


def rows(ledger: SqlLedger) -> list[object]:
    return [*ledger.hosts(), *ledger.gpus(), *ledger.vms(), *ledger.allocations()]


def test_what_did_not_change_is_the_very_same(url: str) -> None:
    ledger = lived(url)
    before = rows(ledger)
    assert all(a is b for a, b in zip(before, rows(ledger), strict=True))
    of_one = [*ledger.gpus("h1"), *ledger.vms("h1"), *ledger.allocations("h1"), ledger.host("h1")]
    assert all(any(each is other for other in before) for each in of_one)


def test_what_changed_is_as_it_is_now_and_the_rest_is_the_same(url: str) -> None:
    ledger = lived(url)
    before = rows(ledger)
    see(ledger, "h2", board("h2", 1), board("h2", 2, health_detail="warm"))
    changed = [each for each in rows(ledger) if not any(each is other for other in before)]
    assert changed == [ledger.gpus("h2")[1]]
    assert ledger.gpus("h2")[1].facts == board("h2", 2, health_detail="warm")


def test_a_look_that_shows_nothing_new_leaves_the_facts_the_same(url: str) -> None:
    ledger = lived(url)
    before = ledger.host("h1")
    ledger.looked_again([UnchangedLook(host="h1", before=100.0, at=130.0)])
    after = ledger.host("h1")
    assert after.observed_at == 130.0
    assert after.facts is before.facts
    assert after.labels is before.labels
    ledger.update_host(replace(after, cordoned=True))
    assert ledger.host("h1").cordoned
    assert ledger.host("h1").facts is before.facts


def test_alike_boards_share_what_they_show_and_keep_their_own_evidence(url: str) -> None:
    ledger = lived(url)
    (one, _), (other, _) = ledger.gpus("h1"), ledger.gpus("h2")
    assert one.facts.mdev_types is other.facts.mdev_types
    assert one.facts == board("h1", 1)
    assert other.facts == board("h2", 1)


def test_texts_of_an_older_vgpumgr_hold_the_evidence_too(url: str) -> None:
    ledger = lived(url)
    old = {**json.loads(dump_gpu(board("h1", 1))), "uuid": "GPU-h1-1", "serial": "S-h1-1"}
    it = gpu_table.c.id == ledger.gpus("h1")[0].id
    with ledger._database.write() as connection:
        connection.execute(update(gpu_table).where(it).values(facts=json.dumps(old)))
    assert ledger.gpus("h1")[0].facts == board("h1", 1)
    see(ledger, "h1", board("h1", 1), board("h1", 2))
    with ledger._database.read() as connection:
        texts = set(connection.execute(select(gpu_table.c.facts)).scalars())
    assert not any("S-h" in text for text in texts)
    assert len(texts) == 2


def test_a_card_has_the_evidence_it_is_read_with() -> None:
    seen = gpu(numa_node=1, vgpu_capabilities=("a", "b"))
    assert load_gpu(dump_gpu(seen), seen.uuid, seen.serial) == seen
    assert load_gpu(dump_gpu(seen)) == replace(seen, uuid=None, serial=None)
    assert load_gpu(dump_gpu(seen), "GPU-other").uuid == "GPU-other"


def test_no_more_is_remembered_than_about_what_there_is() -> None:
    memo = RowMemo(lambda _, text: [text])
    for number in range(5000):
        memo.of(number, number, str(number))
    first = memo.of(0, 0, "0")
    assert memo.of(0, 0, "0") is first
    memo.listed(2500)
    assert memo.of(0, 0, "0") is first
    memo.listed(10)
    assert len(memo) == 0
    assert memo.of(0, 0, "0") == first


def test_what_cannot_be_read_is_not_remembered() -> None:
    tries: list[str] = []

    def make(text: str) -> object:
        tries.append(text)
        return json.loads(text)

    memo = RowMemo(make)
    for _ in range(2):
        with pytest.raises(ValueError, match="Expecting"):
            memo.of("a", "{")
    assert memo.of("a", "{}") == {}
    assert tries == ["{", "{", "{}"]


def test_a_host_shows_which_gpus_it_has(url: str) -> None:
    ledger = lived(url)
    kept = ledger.host("h1").facts
    assert kept is not None
    names = ("device", "path", "model", "vendor_device")
    for one, seen in zip(kept.gpus, facts("h1", board("h1", 1), board("h1", 2)).gpus, strict=True):
        assert [getattr(one, name) for name in names] == [getattr(seen, name) for name in names]
        assert one.mdev_types == ()


@pytest.mark.parametrize("name", ["desk-01", 'a"b', "back\\", 'x","vcpus":9,"y":"', "é\0"])
def test_a_spec_is_read_as_it_was_written_whatever_its_name(name: str) -> None:
    spec = VmSpec(name=name, vcpus=2, memory_mib=512, gpus=(), labels={"name": "x"})
    assert read_spec(dump(spec)) == spec
    long = replace(spec, labels={"text": "x" * 9000})
    assert read_spec(dump(long)) == long


def test_vms_that_differ_in_their_name_share_the_rest() -> None:
    one, two = (VmSpec(name=n, vcpus=2, memory_mib=512, gpus=(), labels={"a": "b"}) for n in "ab")
    read = [read_spec(dump(each)) for each in (one, two)]
    assert read == [one, two]
    assert read[0].labels is read[1].labels

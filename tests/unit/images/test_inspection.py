"""What is taken for a disk image, and what is refused, with what is wrong with it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.images.files import CLUSTER, DATA, L1, L2, VIRTUAL, Bytes, cd, qcow2
from vgpumgr.engine.steps.image_file import opened
from vgpumgr.image_inspection import Inspected, inspect
from vgpumgr.model.errors import BadImage

SECTOR = bytes(512)


def test_a_whole_image_is_taken() -> None:
    made = qcow2()
    found = inspect(Bytes(made), "qcow2")
    assert found == Inspected(format="qcow2", virtual_bytes=VIRTUAL, file_bytes=len(made))
    assert inspect(Bytes(qcow2(version=2, header_length=0, refcount_order=0)), "qcow2") == found
    raw = inspect(Bytes(SECTOR * 7), "raw")
    assert raw == Inspected(format="raw", virtual_bytes=3584, file_bytes=3584)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"version": 1}, "version 1"),
        ({"version": 4}, "version 4"),
        ({"cluster_bits": 8}, "cluster size"),
        ({"cluster_bits": 22}, "cluster size"),
        ({"header_length": 100}, "header of 100"),
        ({"header_length": 105}, "header of 105"),
        ({"virtual": 0}, "without a single byte"),
        ({"virtual": 3 << 40}, "2048 GiB are allowed"),
        ({"virtual": 1 << 63}, "virtual size"),
        ({"crypt": 1}, "encrypted"),
        ({"crypt": 2}, "encrypted"),
        ({"snapshots": 1}, "snapshots inside"),
        ({"features": 1 << 0}, "dirty"),
        ({"features": 1 << 1}, "corrupt"),
        ({"features": 1 << 2}, "another file"),
        ({"features": 1 << 9}, "unknown incompatible"),
        ({"features": 1 << 3}, "contradict"),
        ({"compression": 1}, "contradict"),
        ({"features": 1 << 3, "compression": 7}, "unknown compression type 7"),
        ({"refcount_order": 7}, "refcounts"),
        ({"refcount_clusters": 0}, "refcount table of 0"),
        ({"refcount_clusters": 0x8000_0000}, "refcount table of"),
        ({"refcount_offset": CLUSTER + 8}, "refcount table at 0x10008 is not aligned"),
        ({"refcount_entry": 9 * CLUSTER}, "the refcount block at 0x90000 lies beyond"),
        ({"l1_size": 0}, "L1 table of 0 entries, 1 are needed"),
        ({"l1_size": 0xFFFF_FFFF}, "L1 table of 4294967295"),
        ({"l1_offset": 0}, "L1 table at 0x0"),
        ({"l1_offset": 1 << 40}, "the L1 table at 0x10000000000 lies beyond"),
        ({"l1_entry": L2 + 512}, "L2 table at 0x40200 is not aligned"),
        ({"l1_entry": 1 << 48}, "L2 table at 0x1000000000000 lies beyond"),
        ({"l2_entry": DATA + 512}, "not aligned"),
        ({"l2_entry": 8 * CLUSTER}, "a data cluster at 0x80000 lies beyond"),
        ({"l2_entry_2": 1 << 62 | 9 * CLUSTER}, "a data cluster at 0x90000 lies beyond"),
    ],
)
def test_what_contradicts_itself_or_its_file_is_refused(
    fields: dict[str, object], why: str
) -> None:
    with pytest.raises(BadImage) as refused:
        inspect(Bytes(qcow2(**fields)), "qcow2", name="/a b.qcow2")
    assert refused.value.message == "/a b.qcow2 cannot be used"
    assert why in refused.value.why


def test_a_table_that_is_named_twice_cannot_make_us_read_for_ever() -> None:
    made = bytearray(qcow2(l1_size=4))
    made[L1 + 8 : L1 + 16] = made[L1 : L1 + 8]
    with pytest.raises(BadImage) as refused:
        inspect(Bytes(bytes(made)), "qcow2")
    assert "used twice" in refused.value.why


@pytest.mark.parametrize("length", [0, 3, 20, 71, 90, 103, 200, CLUSTER, L1, L2 + 8, DATA])
def test_a_file_that_was_cut_off_is_refused(length: int) -> None:
    with pytest.raises(BadImage):
        inspect(Bytes(qcow2()[:length]), "qcow2")


@pytest.mark.parametrize(
    ("data", "declared", "why"),
    [
        (SECTOR, "qcow2", "no qcow2 image"),
        (qcow2(), "raw", "a qcow2 image, not raw"),
        (SECTOR + b"x", "raw", "cut off"),
        (SECTOR + b"conectix" + bytes(504), "raw", "vhd"),
        (bytes(0x8000) + b"\x01CD001" + bytes(512 * 70 - 0x8006), "raw", "ISO 9660"),
        (SECTOR, "iso", "no ISO 9660"),
        (qcow2(), "iso", "a qcow2 image, not iso"),
        (b"KDMV" + SECTOR, "iso", "vmdk"),
        (b"KDMV" + SECTOR, "raw", "vmdk"),
        (b"# Disk DescriptorFile\n" + SECTOR, "raw", "vmdk"),
        (b"vhdxfile" + SECTOR, "raw", "vhdx"),
        (bytes(0x40) + b"\x7f\x10\xda\xbe" + SECTOR, "raw", "vdi"),
        (b"QED\x00" + SECTOR, "raw", "qed"),
        (b"LUKS\xba\xbe" + SECTOR, "raw", "luks"),
        (b"\x1f\x8b" + SECTOR, "raw", "gzip"),
    ],
)
def test_the_content_must_be_what_is_declared(data: bytes, declared: str, why: str) -> None:
    with pytest.raises(BadImage) as refused:
        inspect(Bytes(data), declared)
    assert why in refused.value.why


def test_a_cd_is_taken_whole() -> None:
    whole = cd()
    assert inspect(Bytes(whole), "iso") == Inspected(
        format="iso", virtual_bytes=len(whole), file_bytes=len(whole)
    )
    for length in (0x8005, 0x8006, 0x8100, len(whole) - 2048):
        with pytest.raises(BadImage, match="cannot be used") as refused:
            inspect(Bytes(whole[:length]), "iso")
        assert length == 0x8005 or "cut off" in refused.value.why
    with pytest.raises(BadImage) as refused:
        inspect(Bytes(whole), "raw")
    assert refused.value.next == "--format iso"


def test_the_largest_disk_is_a_setting() -> None:
    with pytest.raises(BadImage) as refused:
        inspect(Bytes(SECTOR * 3), "raw", most_bytes=1024)
    assert "image_max" in refused.value.next
    assert inspect(Bytes(SECTOR * 2), "raw", most_bytes=1024).virtual_bytes == 1024


QEMU_TAKES = [
    ("qcow2", ()),
    ("qcow2", ("-o", "compat=0.10")),
    ("qcow2", ("-o", "cluster_size=512")),
    ("qcow2", ("-o", "cluster_size=2M")),
    ("qcow2", ("-o", "extended_l2=on,cluster_size=128k")),
    ("qcow2", ("-o", "preallocation=metadata")),
    ("qcow2", ("-o", "compression_type=zstd")),
    ("qcow2", ("-o", "refcount_bits=1")),
    ("raw", ()),
]
QEMU_REFUSED = [
    ("qcow2", ("-o", "data_file=data.raw"), "another file"),
    ("vmdk", (), "vmdk"),
    ("vmdk", ("-o", "subformat=monolithicFlat"), "vmdk"),
    ("vpc", (), "vhd"),
    ("vhdx", (), "vhdx"),
    ("vdi", (), "vdi"),
    ("qed", (), "qed"),
]


def qemu_img(*words: str, folder: Path) -> None:
    program = shutil.which("qemu-img")
    if program is None:
        pytest.skip("qemu-img is not installed")
    subprocess.run([program, *words], cwd=folder, check=True, capture_output=True)


def judged(path: Path, declared: str) -> Inspected:
    with opened(str(path)) as file:
        return inspect(file, declared)


@pytest.mark.parametrize(("kind", "options"), QEMU_TAKES)
def test_what_qemu_makes_is_taken(tmp_path: Path, kind: str, options: tuple[str, ...]) -> None:
    qemu_img("create", "-q", "-f", kind, *options, "made", "5M", folder=tmp_path)
    assert judged(tmp_path / "made", kind).virtual_bytes == 5 << 20


@pytest.mark.parametrize("words", [(), ("-c",), ("-c", "-o", "compression_type=zstd")])
def test_what_qemu_fills_is_taken_and_refused_when_cut(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "data").write_bytes(os.urandom(1 << 20) + b"text " * 40_000 + bytes(1 << 20 | 192))
    qemu_img("convert", *words, "-f", "raw", "-O", "qcow2", "data", "made", folder=tmp_path)
    size = judged(tmp_path / "made", "qcow2").file_bytes
    os.truncate(tmp_path / "made", size // 2)
    with pytest.raises(BadImage) as refused:
        judged(tmp_path / "made", "qcow2")
    assert "cut off" in refused.value.why


@pytest.mark.parametrize(("kind", "options", "why"), QEMU_REFUSED)
def test_other_formats_of_qemu_are_refused_by_name(
    tmp_path: Path, kind: str, options: tuple[str, ...], why: str
) -> None:
    qemu_img("create", "-q", "-f", kind, *options, "made", "5M", folder=tmp_path)
    for declared in ("raw", "qcow2"):
        with pytest.raises(BadImage) as refused:
            judged(tmp_path / "made", declared)
        assert why in refused.value.why or declared == "raw"


def test_overlays_and_snapshots_of_qemu_are_refused(tmp_path: Path) -> None:
    qemu_img("create", "-q", "-f", "qcow2", "base", "5M", folder=tmp_path)
    words = ("create", "-q", "-f", "qcow2", "-b", "base", "-F", "qcow2", "over")
    qemu_img(*words, folder=tmp_path)
    with pytest.raises(BadImage) as refused:
        judged(tmp_path / "over", "qcow2")
    assert "backing file: base" in refused.value.why
    assert "qemu-img convert" in refused.value.next
    qemu_img("snapshot", "-c", "before", "base", folder=tmp_path)
    with pytest.raises(BadImage) as refused:
        judged(tmp_path / "base", "qcow2")
    assert "snapshots" in refused.value.why


def test_what_is_no_plain_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(BadImage, match="not a plain file"), opened(str(path)):
            pass


def test_a_file_is_read_with_its_holes(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.write(b"a" * 5000)
        file.seek(3 << 20)
        file.write(b"b" * 5000)
        file.truncate(9 << 20)
    with opened(str(path)) as image:
        pieces = list(image.pieces())
    assert b"".join(bytes(e) if isinstance(e, int) else e for e in pieces) == path.read_bytes()
    assert max((each for each in pieces if isinstance(each, int)), default=1 << 20) >= 1 << 20

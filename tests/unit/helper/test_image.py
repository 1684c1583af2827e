"""The image inspector: what it reads, what it refuses, and that nothing else comes out of it."""

import struct
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vgpumgr.helper.facts.image_header import HEAD_BYTES, inspect

BACKING_FORMAT, DATA_FILE = 0xE2792ACA, 0x44415441


def qcow2(
    *,
    version: int = 3,
    virtual: int = 1 << 30,
    backing: bytes = b"",
    crypt: int = 0,
    features: int = 0,
    extensions: tuple[tuple[int, bytes], ...] = (),
    cluster_bits: int = 16,
    header_length: int = 104,
    backing_offset: int = 1024,
) -> bytes:
    head = struct.pack(
        ">4sIQIIQIIQQIIQ",
        b"QFI\xfb",
        version,
        backing_offset if backing else 0,
        len(backing),
        cluster_bits,
        virtual,
        crypt,
        0,
        0,
        0,
        0,
        0,
        0,
    )
    if version == 3:
        head += struct.pack(">QQQII", features, 0, 0, 4, header_length)
    for kind, data in extensions:
        head += struct.pack(">II", kind, len(data)) + data + bytes(-len(data) % 8)
    head = head.ljust(1024, b"\0")
    return (head + backing).ljust(65536, b"\0")


RAW_BACKING = ((BACKING_FORMAT, b"raw"),)


@pytest.mark.parametrize("version", [2, 3])
def test_a_plain_qcow2_tells_its_virtual_size(version):
    assert inspect(qcow2(version=version), 65536) == {
        "format": "qcow2",
        "virtual_bytes": 1 << 30,
        "backing": None,
        "backing_format": None,
        "data_file": None,
        "encrypted": False,
    }


def test_anything_without_a_known_magic_is_raw_of_its_own_size():
    assert inspect(b"\xeb\x3c\x90" + bytes(509), 5 << 30) == {
        "format": "raw",
        "virtual_bytes": 5 << 30,
        "backing": None,
        "backing_format": None,
        "data_file": None,
        "encrypted": False,
    }


@pytest.mark.parametrize("version", [2, 3])
def test_a_backing_file_is_reported_as_written(version):
    head = qcow2(version=version, backing=b"../../etc/shadow", extensions=RAW_BACKING)
    assert inspect(head, 65536)["backing"] == "../../etc/shadow"


def test_a_data_file_is_reported_with_or_without_its_feature_bit():
    extensions = ((DATA_FILE, b"/etc/shadow"),)
    for features in (4, 0):
        head = qcow2(features=features, extensions=extensions)
        assert inspect(head, 65536)["data_file"] == "/etc/shadow"


@pytest.mark.parametrize("crypt", [1, 2])
def test_encryption_is_reported(crypt):
    assert inspect(qcow2(crypt=crypt), 65536)["encrypted"] is True


@pytest.mark.parametrize(
    ("start", "name"),
    [
        (b"QFI\xfb\x00\x00\x00\x01" + bytes(100), "version 1"),
        (b"QFI\xfb\x00\x00\x00\x04" + bytes(100), "version 4"),
        (b"QED\0", "qed"),
        (b"KDMV\1\0\0\0", "vmdk"),
        (b"COWD", "vmdk"),
        (b"# Disk DescriptorFile\nversion=1", "vmdk"),
        (
            b"<<< Oracle VM VirtualBox Disk Image >>>\n".ljust(64, b"\0") + b"\x7f\x10\xda\xbe",
            "vdi",
        ),
        (b"vhdxfile", "vhdx"),
        (b"conectix", "vhd"),
        (b"LUKS\xba\xbe\0\2", "luks"),
        (b"WithoutFreeSpace", "parallels"),
        (b"WithouFreSpacExt", "parallels"),
        (b"Bochs Virtual HD Image", "bochs"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
    ],
)
def test_other_formats_are_refused_by_name(start, name):
    with pytest.raises(ValueError, match=name):
        inspect(start.ljust(512, b"\0"), 512)


@pytest.mark.parametrize(
    ("head", "complaint"),
    [
        (qcow2(backing=b"base.qcow2"), "not declared"),
        (qcow2(backing=b"\xff\xfe", extensions=RAW_BACKING), "not UTF-8"),
        (qcow2(backing=b"a\nb", extensions=RAW_BACKING), "not printable"),
        (qcow2(backing=b"x" * 1024, extensions=RAW_BACKING), "1024 bytes"),
        (qcow2(backing=b"x", backing_offset=1 << 60), "outside the header cluster"),
        (qcow2(backing=b"x", backing_offset=65536, extensions=RAW_BACKING), "points past"),
        (qcow2(features=4), "not named"),
        (qcow2(features=2), "corrupt"),
        (qcow2(features=1 << 40), "unknown incompatible"),
        (qcow2(cluster_bits=8), "cluster size"),
        (qcow2(cluster_bits=1 << 31), "cluster size"),
        (qcow2(header_length=100), "header of 100"),
        (qcow2(header_length=1 << 31), "header of 2147483648"),
        (qcow2(extensions=((7, bytes(2000)),), cluster_bits=9), "runs past"),
        (qcow2(virtual=1 << 63), "virtual size"),
        (qcow2(extensions=RAW_BACKING * 2), "twice"),
        (qcow2(extensions=((7, b""),))[:108], "points past"),
        (qcow2()[:50], "points past"),
        (b"", "empty"),
    ],
)
def test_a_header_that_contradicts_itself_is_refused(head, complaint):
    with pytest.raises(ValueError, match=complaint):
        inspect(head, len(head))


def test_an_endless_extension_list_is_refused():
    """Each extension is well-formed; the list runs into the end of what was read."""
    endless = tuple((0x1000 + n, b"") for n in range(20000))
    with pytest.raises(ValueError, match="points past"):
        inspect(qcow2(extensions=endless, cluster_bits=21)[:65536], 1 << 20)


KEYS = {"format", "virtual_bytes", "backing", "backing_format", "data_file", "encrypted"}
MUTATIONS = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=12)


@settings(deadline=None)
@given(
    head=st.one_of(
        st.binary(max_size=400),
        st.binary(max_size=400).map(lambda rest: b"QFI\xfb\0\0\0\3" + rest),
        st.binary(max_size=400).map(lambda rest: b"QFI\xfb\0\0\0\2" + rest),
    ),
    size=st.integers(-1, 1 << 62),
)
def test_any_bytes_give_an_answer_or_a_value_error(head, size):
    check(head, size)


@settings(deadline=None)
@given(changes=MUTATIONS, cut=st.integers(0, 1100))
def test_a_damaged_header_gives_an_answer_or_a_value_error(changes, cut):
    head = bytearray(qcow2(backing=b"base.raw", extensions=(*RAW_BACKING, (DATA_FILE, b"d.raw"))))
    for position, value in changes:
        head[position] = value
    check(bytes(head[:cut]) if cut < 1000 else bytes(head), len(head))


def check(head: bytes, size: int) -> None:
    try:
        answer = inspect(head, size)
    except ValueError:
        return
    assert set(answer) == KEYS
    assert answer["format"] in {"raw", "qcow2"}
    for key in ("backing", "backing_format", "data_file"):
        assert answer[key] is None or str(answer[key]).isprintable()


@pytest.mark.libvirtd
@pytest.mark.parametrize("compat", ["0.10", "1.1"])
def test_it_agrees_with_qemu_img(tmp_path, compat):
    base, overlay, outside = tmp_path / "b.raw", tmp_path / "o.qcow2", tmp_path / "d.qcow2"
    create = ["qemu-img", "create", "-q"]
    run = {"check": True, "timeout": 60}
    subprocess.run([*create, "-f", "raw", base, "64M"], **run)
    options = f"compat={compat},backing_file={base},backing_fmt=raw"
    subprocess.run([*create, "-f", "qcow2", "-o", options, overlay, "1G"], **run)
    assert look(base)["virtual_bytes"] == 64 << 20
    assert look(overlay)["virtual_bytes"] == 1 << 30
    assert look(overlay)["backing"] == str(base)
    if compat == "1.1":
        data = f"data_file={tmp_path}/secret"
        subprocess.run([*create, "-f", "qcow2", "-o", data, outside, "1M"], **run)
        assert look(outside)["data_file"] == f"{tmp_path}/secret"


def look(path):
    return inspect(path.read_bytes()[:HEAD_BYTES], path.stat().st_size)

"""Uploads grow durably, one writer at a time, within limits, each for its own user."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from unittest import mock

import pytest

from vgpumgr.engine.images import upload_folder
from vgpumgr.engine.images.image_upload import (
    DigestDiffers,
    ImageUpload,
    OffsetDiffers,
    UploadLimits,
    UploadsFull,
    UploadTooLong,
    require_digest,
)
from vgpumgr.engine.images.upload_folder import UploadFolder
from vgpumgr.model.errors import Conflict, InUse, NotFound, VgpumgrError

DATA = random.Random(1).randbytes(100_000)
SHA256 = hashlib.sha256(DATA).hexdigest()
LIMITS = UploadLimits(most_bytes=1 << 20, most_staged=2 << 20, keep_s=60.0, most_open=4)


class Uploads:
    """A folder, in a time of the test's, and one user of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 1000.0
        self.folder = self.reopened()

    def reopened(self) -> UploadFolder:
        """As another process has it."""
        return UploadFolder(self.path, LIMITS, now=lambda: self.now)

    def begin(self, size: int = len(DATA), user: str = "ada", name: str = "a.raw") -> ImageUpload:
        return self.folder.begin(user, name, size, SHA256)[0]

    def send(self, id_: str, start: int, end: int) -> ImageUpload:
        writer = self.folder.writer("ada", id_, start)
        try:
            writer.write(DATA[start:end])
        finally:
            kept = writer.close()
        return kept


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path / "state" / "uploads")


@pytest.fixture
def short_files() -> Iterator[None]:
    """No file of this process grows beyond 64 KiB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("seed", range(5))
def test_cut_anywhere_and_resumed_it_is_the_file(uploads: Uploads, seed: int) -> None:
    draw = random.Random(seed)
    begun = uploads.begin()
    at = 0
    while at < len(DATA):
        writer = uploads.folder.writer("ada", begun.id, at)
        end = min(len(DATA), at + draw.randrange(1, 40_000))
        writer.write(DATA[at:end])
        if draw.random() < 0.5:
            os.close(writer._handle)  # the process is killed: what was not made durable is not told
        else:
            writer.close()
        uploads.folder = uploads.reopened()
        found, new = uploads.folder.begin("ada", "a.raw", len(DATA), SHA256)
        assert (found.id, new) == (begun.id, False)
        at = found.offset
    with uploads.folder.held("ada", begun.id) as (upload, path):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == upload.sha256


def test_a_killed_process_loses_no_more_than_was_not_durable(uploads: Uploads) -> None:
    begun = uploads.begin()
    with mock.patch.object(upload_folder, "SYNC_BYTES", 10_000):
        writer = uploads.folder.writer("ada", begun.id, 0)
        for at in range(0, 50_000, 4_000):
            writer.write(DATA[at : at + 4_000])
    os.close(writer._handle)
    found = uploads.reopened().upload("ada", begun.id)
    assert found.offset == 48_000, "by the fourth time that it was made durable"


def test_another_user_finds_nothing(uploads: Uploads) -> None:
    id_ = uploads.begin().id
    for ask in (
        lambda: uploads.folder.upload("bob", id_),
        lambda: uploads.folder.writer("bob", id_, 0),
        lambda: uploads.folder.held("bob", id_).__enter__(),
        lambda: uploads.folder.discard("bob", id_),
    ):
        with pytest.raises(NotFound):
            ask()
    assert uploads.folder.uploads("bob") == ()
    assert uploads.begin(user="bob").id != id_


@pytest.mark.parametrize("id_", ["../a", "", "0" * 31, "0" * 32 + "\n", "/etc/passwd", "lock"])
def test_an_id_is_no_path(uploads: Uploads, id_: str) -> None:
    found = asdict(uploads.begin()) | {"id": id_}
    beyond = uploads.path / f"{id_}.json"
    if id_.startswith("../"):
        beyond.write_text(json.dumps(found))
        beyond.with_suffix(".part").write_text("")
    with pytest.raises(NotFound):
        uploads.folder.discard("ada", id_)


def test_files_and_folder_are_the_controller_s_alone(uploads: Uploads) -> None:
    uploads.begin(name="../../secret; rm -rf")
    modes = {path.stat().st_mode & 0o777 for path in uploads.path.iterdir()}
    assert (modes, uploads.path.stat().st_mode & 0o777) == ({0o600}, 0o700)
    assert all(each.name == "lock" or each.stem.isalnum() for each in uploads.path.iterdir())


def test_of_two_writers_one_is_refused(uploads: Uploads) -> None:
    id_ = uploads.begin().id
    writer = uploads.folder.writer("ada", id_, 0)
    for ask in (
        lambda: uploads.reopened().writer("ada", id_, 0),
        lambda: uploads.reopened().discard("ada", id_),
        lambda: uploads.reopened().held("ada", id_).__enter__(),
    ):
        with pytest.raises(InUse):
            ask()
    writer.write(DATA[:10])
    writer.close()
    with pytest.raises(OffsetDiffers) as refused:
        uploads.folder.writer("ada", id_, 0)
    assert refused.value.as_dict()["offset"] == 10
    assert uploads.send(id_, 10, 20).offset == 20


def test_a_part_is_not_imported_and_other_bytes_are_refused(uploads: Uploads) -> None:
    upload = uploads.begin()
    uploads.send(upload.id, 0, 99_999)
    with pytest.raises(Conflict, match="not whole"), uploads.folder.held("ada", upload.id):
        pass
    with pytest.raises(DigestDiffers):
        require_digest(upload, "0" * 64)


def test_what_is_too_much_is_refused(uploads: Uploads) -> None:
    with pytest.raises(UploadTooLong, match="is too long"):
        uploads.begin((1 << 20) + 1)
    for number in range(2):
        uploads.begin(1 << 20, name=f"{number}.raw")
    with pytest.raises(UploadsFull, match="would have"):
        uploads.begin(1)
    assert uploads.begin(1, user="bob").bytes == 1
    for upload in uploads.folder.uploads("ada"):
        uploads.folder.discard("ada", upload.id)
    for number in range(4):
        uploads.begin(1, name=f"{number}.raw")
    with pytest.raises(UploadsFull, match="4 uploads"):
        uploads.begin(1)


def test_more_than_was_announced_is_refused(uploads: Uploads) -> None:
    id_ = uploads.begin(10).id
    writer = uploads.folder.writer("ada", id_, 0)
    with pytest.raises(UploadTooLong):
        writer.write(DATA[:11])
    assert writer.close().offset == 0


def test_the_disk_is_never_filled(uploads: Uploads) -> None:
    id_ = uploads.begin().id
    disk = mock.Mock(f_bavail=7, f_frsize=4096, f_blocks=99)
    with mock.patch.object(os, "statvfs", lambda _: disk):
        with pytest.raises(UploadsFull, match="disk of uploads is full"):
            uploads.begin(10, name="other.raw")  # the rest of the first would not come
        writer = uploads.folder.writer("ada", id_, 0)
        writer.write(DATA[:100])
        disk.f_bavail = 4
        with pytest.raises(UploadsFull):
            writer.write(DATA[100:200])
        writer.close()
    assert uploads.folder.upload("ada", id_).offset == 100, "what came is kept"


@pytest.mark.usefixtures("short_files")
def test_a_file_that_cannot_grow_is_told_and_kept(uploads: Uploads) -> None:
    id_ = uploads.begin().id
    uploads.send(id_, 0, 60_000)
    with pytest.raises(UploadsFull) as refused:
        uploads.send(id_, 60_000, 100_000)
    assert (refused.value.why, str(uploads.path) in str(refused.value.as_dict())) == (
        "File too large",
        False,
    )
    assert uploads.folder.upload("ada", id_).offset == 64 << 10


def test_what_is_sent_no_further_is_purged(uploads: Uploads) -> None:
    old, held = uploads.begin(), uploads.begin(name="held.raw")
    writer = uploads.reopened().writer("ada", held.id, 0)
    uploads.now += 61.0
    fresh = uploads.begin(name="fresh.raw")
    assert uploads.folder.purge() == (old,)
    assert {each.id for each in uploads.folder.uploads("ada")} == {fresh.id, held.id}
    assert not uploads.path.joinpath(f"{old.id}.part").exists()
    writer.close()


def test_files_without_a_state_are_purged_when_they_are_old(uploads: Uploads) -> None:
    kept = uploads.begin()
    stray, damaged = uploads.path / f"{'0' * 32}.part", uploads.path / f"{'1' * 32}.json"
    stray.write_text("x")
    damaged.write_text("{")
    uploads.folder.purge()
    assert stray.exists()
    uploads.now = os.stat(stray).st_mtime + upload_folder.STRAY_S + 1
    uploads.send(kept.id, 0, 1)
    uploads.folder.purge()
    assert (stray.exists(), damaged.exists()) == (False, False)
    assert uploads.folder.upload("ada", kept.id).offset == 1


def test_a_folder_that_cannot_be_is_told_without_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(VgpumgrError) as refused:
        UploadFolder(tmp_path / "file" / "uploads", LIMITS).begin("ada", "a", 1, SHA256)
    assert str(tmp_path) not in str(refused.value.as_dict())


def test_zeros_take_no_room(uploads: Uploads) -> None:
    id_ = uploads.begin(1 << 20).id
    writer = uploads.folder.writer("ada", id_, 0)
    for piece in (bytes(300_000), b"x" * 100, bytes((1 << 20) - 300_100)):
        writer.write(piece)
    assert writer.close().whole
    with uploads.folder.held("ada", id_) as (_, path):
        assert (path.read_bytes().strip(b"\0"), path.stat().st_size) == (b"x" * 100, 1 << 20)
        assert path.stat().st_blocks * 512 < 100_000

"""The folder of uploads: image files that grow, each next to its state.

Several processes may work in it: to change an upload is to hold a lock on its file, which ends
with the process. A file is called by the id of its upload, never by a name that was sent.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path

from vgpumgr.engine.images.image_upload import (
    ImageUpload,
    OffsetDiffers,
    UploadLimits,
    UploadsFull,
    UploadTooLong,
    disk_errors,
)
from vgpumgr.model.errors import Conflict, InUse, NotFound
from vgpumgr.model.formats import size_words

SYNC_BYTES = 32 << 20
"""What came is made durable so often: at most so much is sent again after a crash."""
RESERVE_BYTES, RESERVE_SHARE = 1 << 30, 0.05
"""What stays free in the folder's file system: the less of both."""
STRAY_S = 3600.0
"""The age of a file without a state that no process makes any more."""

BLOCK_BYTES = 64 << 10
_ZEROS = bytes(BLOCK_BYTES)
_ID = re.compile(r"[0-9a-f]{32}")
_OPEN = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW


class UploadFolder:
    """The uploads in a folder of mode 0700, which is made with the first. Whose an upload is, every
    method asks: another user's is NotFound.
    """

    def __init__(
        self, folder: Path, limits: UploadLimits, now: Callable[[], float] = time.time
    ) -> None:
        self._folder = folder
        self.limits = limits
        self._now = now

    def begin(self, user: str, name: str, size: int, sha256: str) -> tuple[ImageUpload, bool]:
        """The upload of a file, and whether it is new: the same file of the same user goes on where
        it was. UploadTooLong or UploadsFull where it may not come.
        """
        told = json.dumps([user, name, size, sha256]).encode()
        id_ = hashlib.sha256(told).hexdigest()[:32]
        with disk_errors():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._alone():
                if (known := self._found(id_)) is not None:
                    return known, False
                self._require_room(user, size)
                now = self._now()
                made = ImageUpload(
                    id=id_, user=user, name=name, bytes=size, sha256=sha256,
                    begun_at=now, seen_at=now,
                )  # fmt: skip
                os.close(os.open(self._file(id_), _OPEN | os.O_CREAT, 0o600))
                self.store(made)
        return made, True

    def uploads(self, user: str) -> tuple[ImageUpload, ...]:
        """Those of a user, the oldest first."""
        mine = (each for each in self._all() if each.user == user)
        return tuple(sorted(mine, key=lambda each: (each.begun_at, each.id)))

    def upload(self, user: str, id_: str) -> ImageUpload:
        """One of a user's."""
        found = self._found(id_)
        if found is None or found.user != user:
            raise NotFound(
                f"there is no upload {id_:.64}",
                why="it was discarded, was kept for too long, or is another user's",
                next="begin it anew: POST /v1/uploads",
            )
        return found

    def writer(self, user: str, id_: str, offset: int) -> UploadWriter:
        """Continues an upload; OffsetDiffers where it does not end at ``offset``, InUse while it
        is held elsewhere. Close it in the end.
        """
        handle = self._hold(self.upload(user, id_))
        try:
            upload = self.upload(user, id_)
            _require_end(upload, offset)
            with disk_errors():
                os.ftruncate(handle, offset)  # what is behind it may not be durable
        except BaseException:
            os.close(handle)
            raise
        return UploadWriter(self, upload, handle)

    @contextmanager
    def held(self, user: str, id_: str) -> Iterator[tuple[ImageUpload, Path]]:
        """A whole upload with its file, which nobody else touches meanwhile; Conflict where a part
        is missing.
        """
        with self._holding(self.upload(user, id_)):
            upload = self.upload(user, id_)
            if not upload.whole:
                raise Conflict(
                    f"the upload of {upload.name} is not whole",
                    why=f"{upload.offset} of {upload.bytes} bytes are here",
                    next=f"send the rest: PATCH /v1/uploads/{id_}",
                )
            with disk_errors():
                self.store(replace(upload, seen_at=self._now()))
            yield upload, self._file(id_)

    def discard(self, user: str, id_: str) -> ImageUpload:
        """Remove an upload with what is here of it; InUse while it is held elsewhere."""
        upload = self.upload(user, id_)
        with self._holding(upload):
            self.remove(id_)
        return upload

    def purge(self) -> tuple[ImageUpload, ...]:
        """Remove what was not touched for too long; what is held stays."""
        late = self._now() - self.limits.keep_s
        gone = []
        for upload in self._all():
            if upload.seen_at < late:
                with suppress(NotFound, InUse), self._holding(upload):
                    if self.upload(upload.user, upload.id).seen_at < late:
                        self.remove(upload.id)
                        gone.append(upload)
        self._remove_strays()
        return tuple(gone)

    def store(self, upload: ImageUpload) -> None:
        """Write its state durably, by who holds it."""
        draft = self._state(upload.id).with_suffix(".draft")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(draft, flags, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(asdict(upload), stream)
            stream.flush()
            os.fsync(handle)
        draft.replace(self._state(upload.id))
        self._sync()

    def remove(self, id_: str) -> None:
        """Remove its state and then its file, by who holds it."""
        with disk_errors():
            for path in (self._state(id_), self._file(id_)):
                path.unlink(missing_ok=True)
            self._sync()

    def require_free(self, wanted: int) -> None:
        """UploadsFull where the file system would have less left than it should."""
        found = os.statvfs(self._folder)
        free = found.f_bavail * found.f_frsize
        reserve = min(RESERVE_BYTES, int(found.f_blocks * found.f_frsize * RESERVE_SHARE))
        if free - wanted < reserve:
            sizes = size_words(free), size_words(wanted), size_words(reserve)
            raise UploadsFull(
                "the disk of uploads is full",
                why="{} are free, {} come, {} stay free".format(*sizes),
                next="make room on the controller, or discard uploads: GET /v1/uploads",
            )

    def now(self) -> float:
        """The time now."""
        return self._now()

    def _require_room(self, user: str, size: int) -> None:
        every = self._all()
        mine = [each for each in every if each.user == user]
        limits = self.limits
        if size > limits.most_bytes:
            raise UploadTooLong(
                f"the file of {size_words(size)} is too long",
                why=f"an upload has at most {size_words(limits.most_bytes)}",
                next="the setting upload_max of the server, like 512GiB",
            )
        if len(mine) >= limits.most_open:
            raise UploadsFull(f"{user} has {len(mine)} uploads", why="these are as many as may be",
                              next=_DISCARD)  # fmt: skip
        staged = sum(each.bytes for each in mine)
        if staged + size > limits.most_staged:
            raise UploadsFull(
                f"the uploads of {user} would have {size_words(staged + size)}",
                why=f"a user's have at most {size_words(limits.most_staged)}",
                next=_DISCARD,
            )
        self.require_free(size + sum(each.bytes - each.offset for each in every))

    def _all(self) -> list[ImageUpload]:
        try:
            names = [each.stem for each in self._folder.glob("*.json")]
        except OSError:
            return []
        return [found for name in names if (found := self._found(name)) is not None]

    def _found(self, id_: str) -> ImageUpload | None:
        """Its state; None where there is none that can be read."""
        if not _ID.fullmatch(id_):
            return None
        try:
            found = ImageUpload(**json.loads(self._state(id_).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        return found if found.id == id_ else None

    def _hold(self, upload: ImageUpload) -> int:
        """Its file, open and locked."""
        with disk_errors():
            try:
                handle = os.open(self._file(upload.id), _OPEN)
            except FileNotFoundError:
                raise NotFound(f"there is no upload {upload.id}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise InUse(
                f"the upload of {upload.name} is held",
                why="another request sends or imports it at this moment",
                next=f"look at it again in a while: GET /v1/uploads/{upload.id}",
            ) from None
        if not os.fstat(handle).st_nlink:
            os.close(handle)
            raise NotFound(f"there is no upload {upload.id}", why="it was discarded")
        return handle

    @contextmanager
    def _holding(self, upload: ImageUpload) -> Iterator[None]:
        handle = self._hold(upload)
        try:
            yield
        finally:
            os.close(handle)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One at a time begins an upload: what the limits count is what is there."""
        handle = os.open(self._folder / "lock", _OPEN | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _remove_strays(self) -> None:
        """Files whose state is gone, or cannot be read: their process has ended in between."""
        late = self._now() - STRAY_S
        with suppress(OSError), self._alone():
            for path in self._folder.iterdir():
                if path.name != "lock" and self._found(path.stem) is None:
                    with suppress(OSError):
                        if path.lstat().st_mtime < late:
                            path.unlink()

    def _file(self, id_: str) -> Path:
        return self._folder / f"{id_}.part"

    def _state(self, id_: str) -> Path:
        return self._folder / f"{id_}.json"

    def _sync(self) -> None:
        handle = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


_DISCARD = "import or discard one: GET and DELETE /v1/uploads"


def _require_end(upload: ImageUpload, offset: int) -> None:
    if upload.offset != offset:
        raise OffsetDiffers(upload.offset)


class UploadWriter:
    """Appends to an upload, which it holds. What came is durable when it is closed, and every
    ``SYNC_BYTES`` before.
    """

    def __init__(self, folder: UploadFolder, upload: ImageUpload, handle: int) -> None:
        self._folder = folder
        self.upload = upload
        self._handle = handle
        self._at = upload.offset

    @property
    def left(self) -> int:
        """How many bytes are still to come."""
        return self.upload.bytes - self._at

    def write(self, piece: bytes) -> None:
        """Append a piece; UploadTooLong where it goes beyond the end, UploadsFull where the disk
        has no room.
        """
        if len(piece) > self.left:
            raise UploadTooLong(
                f"more comes than the {self.upload.bytes} bytes that were announced",
                next="begin an upload of the right length: POST /v1/uploads",
            )
        with disk_errors():
            self._folder.require_free(len(piece))  # what came can then be kept
            self._put(piece)
        if self._at - self.upload.offset >= SYNC_BYTES:
            self._keep()

    def _put(self, piece: bytes) -> None:
        """Write it, but for blocks of zeros: nothing was written where they are, which stays so."""
        view = memoryview(piece)
        while view:
            block = view[: BLOCK_BYTES - self._at % BLOCK_BYTES]
            zeros = block == _ZEROS[: len(block)]
            put = len(block) if zeros else os.pwrite(self._handle, block, self._at)
            view, self._at = view[put:], self._at + put

    def close(self) -> ImageUpload:
        """Make durable what came, and let the upload go."""
        try:
            if self._at > self.upload.offset:
                self._keep()
        finally:
            os.close(self._handle)
        return self.upload

    def _keep(self) -> None:
        with disk_errors():
            os.ftruncate(self._handle, self._at)
            os.fsync(self._handle)
            kept = replace(self.upload, offset=self._at, seen_at=self._folder.now())
            self._folder.store(kept)
        self.upload = kept

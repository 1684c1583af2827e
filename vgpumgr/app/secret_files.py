"""Files of secrets: a folder per tenant, which no other user can read or lead elsewhere.

Every folder and file is opened by the one above it, and no link is followed.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from vgpumgr.model.errors import LedgerError, NotFound, NotPermitted, UsageError
from vgpumgr.model.role_binding import EVERY_TENANT
from vgpumgr.model.secret import MAX_SECRET_BYTES
from vgpumgr.model.vm import NAME

FLEET = "_fleet"
"""The folder of the fleet's own secrets: no tenant can be called so."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class SecretFiles:
    """The files below ``root``, which is made when the first is written."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, tenant: str, name: str) -> Path:
        """Where a secret lies."""
        return self.root / _folder_of(tenant) / _checked(name)

    def read(self, tenant: str, name: str) -> bytes:
        """A value; NotFound, or NotPermitted where others could have read or changed it."""
        path = self.path(tenant, name)
        try:
            with self._tenant(tenant) as folder:
                return read_file(folder, name, path)
        except FileNotFoundError as error:
            raise NotFound(f"no secret {name}", next="vgpumgr secret list") from error

    def read_own(self, name: str) -> bytes | None:
        """A file of ours in the root itself; None where there is none."""
        try:
            with self._opened() as root:
                return read_file(root, name, self.root / name)
        except FileNotFoundError:
            return None

    def names(self) -> Iterator[tuple[str, str]]:
        """Tenant and name of every secret's file, in folders that are safe."""
        for folder in self._listed(None):
            tenant = EVERY_TENANT if folder == FLEET else folder
            if tenant == EVERY_TENANT or re.fullmatch(NAME, folder):
                found = self._listed(tenant)
                yield from ((tenant, each) for each in found if re.fullmatch(NAME, each))

    def _listed(self, tenant: str | None) -> list[str]:
        """The names in a tenant's folder (None: in the root)."""
        try:
            with self._opened() if tenant is None else self._tenant(tenant) as folder:
                return sorted(_names_in(folder))
        except (FileNotFoundError, NotPermitted):
            return []

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process changes files at a time."""
        with _told(self.root):
            for each in (self.root.parent, self.root):
                each.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._opened() as root:
            fcntl.flock(root, fcntl.LOCK_EX)
            _inherit(root, self.root.parent.stat())
            yield

    @contextmanager
    def replacing(self, tenant: str, name: str, value: bytes) -> Iterator[None]:
        """The value lies ready on the disk while the block works, and is in its place once that has
        ended well. Within ``locked``.
        """
        path = self.path(tenant, name)
        with self._opened() as root, _told(path), suppress(FileExistsError):
            os.mkdir(path.parent.name, 0o700, dir_fd=root)
            os.fsync(root)
        with self._tenant(tenant) as folder:
            _inherit(folder, self.root.stat())
            with suppress(FileNotFoundError):
                _require_file(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
            _sweep(folder)
            with _told(path):
                draft = _written(folder, name, value)
            try:
                yield
            except BaseException:
                os.unlink(draft, dir_fd=folder)
                raise
            with _told(path):
                os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
                os.fsync(folder)

    def write_own(self, name: str, value: bytes) -> None:
        """A file of ours in the root. Within ``locked``."""
        with self._opened() as root, _told(self.root / name):
            draft = _written(root, name, value)
            os.rename(draft, name, src_dir_fd=root, dst_dir_fd=root)
            os.fsync(root)

    def remove_own(self, name: str) -> None:
        """No such file of ours in the root any more. Within ``locked``."""
        with self._opened() as root, suppress(FileNotFoundError), _told(self.root / name):
            os.unlink(name, dir_fd=root)
            os.fsync(root)

    def remove(self, tenant: str, name: str) -> bool:
        """Remove a value; was there one? Within ``locked``."""
        path = self.path(tenant, name)
        try:
            with self._tenant(tenant) as folder, _told(path):
                os.unlink(name, dir_fd=folder)
                os.fsync(folder)
        except FileNotFoundError:
            return False
        return True

    @contextmanager
    def _opened(self) -> Iterator[int]:
        descriptor = _folder(self.root, None, self.root)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _tenant(self, tenant: str) -> Iterator[int]:
        name = _folder_of(tenant)
        with self._opened() as root:
            descriptor = _folder(name, root, self.root / name)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _folder_of(tenant: str) -> str:
    return FLEET if tenant == EVERY_TENANT else _checked(tenant)


def _checked(name: str) -> str:
    if not re.fullmatch(NAME, name):
        raise UsageError(
            f"{name!r:.80} is not a name", why="small letters, digits and -, 63 at most"
        )
    return name


def _folder(name: str | Path, above: int | None, path: Path) -> int:
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=above)
    except FileNotFoundError:
        raise
    except OSError as error:
        why = f"it is no folder, or cannot be opened: {error.strerror}"
        raise _unsafe(path, why, f"ls -ld {path}; ls -ld {path.parent}") from error
    try:
        _require_ours(os.fstat(descriptor), path, "700")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_file(folder: int, name: str, path: Path, *, others: bool = False) -> bytes:
    """A file in an open folder; NotPermitted for a link or what is too large, and unless ``others``
    may look after its mode, where more users than its owner may read it.
    """
    try:
        descriptor = os.open(name, _FILE, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        why = f"it is a link, or cannot be opened: {error.strerror}"
        raise _unsafe(path, why, f"ls -l {path}") from error
    try:
        found = os.fstat(descriptor)
        _require_file(found, path)
        if not others:
            _require_ours(found, path, "600")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            value = file.read(MAX_SECRET_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(value) > MAX_SECRET_BYTES:
        raise _unsafe(path, f"it has more than {MAX_SECRET_BYTES >> 10} KiB", f"ls -l {path}")
    return value


def _require_file(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _unsafe(path, "it is no ordinary file", f"ls -l {path}")


def _require_ours(found: os.stat_result, path: Path, mode: str) -> None:
    if os.geteuid() and found.st_uid not in {0, os.geteuid()}:
        raise _unsafe(path, "it belongs to another user", f"ls -ld {path}")
    if found.st_mode & 0o077:
        why = f"its mode is {stat.S_IMODE(found.st_mode):04o}: others may have read it"
        raise _unsafe(path, why, f"chmod {mode} {path}, and put in a new value")


def _unsafe(path: Path, why: str, next: str) -> NotPermitted:
    return NotPermitted(f"the secret at {path} is not used", why=why, next=next)


def _written(folder: int, name: str, value: bytes) -> str:
    """The name of a new file with that value, which is on the disk."""
    draft = f".{name}.{secrets.token_hex(8)}"
    with os.fdopen(os.open(draft, _NEW, 0o600, dir_fd=folder), "wb") as file:
        try:
            os.fchmod(file.fileno(), 0o600)
            _inherit(file.fileno(), os.fstat(folder))
            file.write(value)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(draft, dir_fd=folder)
            raise
    return draft


def _inherit(made: int, above: os.stat_result) -> None:
    """Of what root makes, `serve` reads what is its own: the owner of the folder above."""
    if os.geteuid() == 0:
        os.fchown(made, above.st_uid, above.st_gid)


def _names_in(folder: int) -> list[str]:
    return os.listdir(folder)


def _sweep(folder: int) -> None:
    """Remove what processes left that were ended while they wrote."""
    for each in _names_in(folder):
        if each.startswith("."):
            os.unlink(each, dir_fd=folder)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """LedgerError for what the disk does not take."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        raise LedgerError(
            "the secret cannot be written",
            why=f"{error.strerror or error}: {path}",
            next=f"df -h {path.parent}; ls -ld {path.parent}",
        ) from error

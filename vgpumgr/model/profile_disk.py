"""Profile disks: a user's own disk, which follows the user to each desktop of a pool."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

PROFILE_TARGET = "vdz"
"""What the guest calls it: behind all disks that a file can name."""
PROFILE_SERIAL = "vgpumgr-profile"
"""By this serial the guest finds it, and a look at the host tells it from other disks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDiskSpec:
    """What a pool says of its users' own disks: ``pool`` is the storage pool, which hosts share.
    With ``keep`` the disks stay when the pool of desktops is deleted.
    """

    size_bytes: int
    pool: str
    keep: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDisk:
    """A user's disk. ``vm_id`` is the one VM that may have it attached; empty: none has.

    ``made`` is False until its volume was seen; ``keep`` what the pool said last. Written back it
    must be at its ``generation`` still; one of generation 0 is new.
    """

    tenant: str
    pool: str
    user: str
    storage_pool: str
    volume: str
    size_bytes: int
    keep: bool = True
    made: bool = False
    vm_id: str = ""
    generation: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        """The tenant, the pool and the user that it belongs to."""
        return self.tenant, self.pool, self.user


def profile_volume(tenant: str, pool: str, user: str, extension: str) -> str:
    """The name of its volume: of no two users the same, and safe whatever a user is called."""
    digest = sha256("\0".join((tenant, pool, user)).encode()).hexdigest()
    return f"profile-{pool}-{digest[:16]}.{extension}"


class ProfileDiskLedger(Protocol):
    """Profile disks in the ledger. Every method is one transaction."""

    def profile_disks(self) -> tuple[ProfileDisk, ...]:
        """Every profile disk, by its user's name."""

    def put_profile_disk(self, disk: ProfileDisk) -> ProfileDisk:
        """Write one that is as it was read, and return it as written; StaleGeneration where it is
        not, or where the VM has another one.
        """

    def forget_profile_disk(self, disk: ProfileDisk) -> None:
        """Forget one whose volume is deleted; StaleGeneration where it is not as it was read."""

"""Checks of a host's resources: room for disks, and a clock that agrees with ours."""

from __future__ import annotations

from vgpumgr.checks.check_results import CheckFix, bad, bootstrap, ok, unknown, unread, warn
from vgpumgr.model.examination import Examination, Finding

POOL = "default"
_GIB = 1 << 30
_LOW_BYTES, _LOW_SHARE, _FULL_BYTES = 10 * _GIB, 0.10, _GIB
_WARN_S, _BAD_S = 1.0, 30.0


def storage(x: Examination) -> Finding:
    """The storage pool that disks go to is active, starts with the host, and has room."""
    check = "storage"
    if any(each.part == "libvirt" for each in x.facts.unknown):
        return unknown(check, "libvirt does not answer")
    pool = next((each for each in x.facts.pools if each.name == POOL), None)
    if pool is None:
        by_hand = (
            f"virsh pool-define-as {POOL} dir --target /var/lib/libvirt/images && "
            f"virsh pool-build {POOL} && virsh pool-start {POOL} && virsh pool-autostart {POOL}"
        )
        return bad(check, f"no storage pool {POOL}", bootstrap(x, "libvirt", by_hand))
    if not pool.active:
        start = bootstrap(x, "libvirt", f"virsh pool-start {POOL}")
        return bad(check, f"storage pool {POOL} is not active", start)
    free, share = pool.available_bytes, pool.available_bytes / max(1, pool.capacity_bytes)
    room = f"{free / _GIB:.1f} GiB ({share:.0%}) free in {pool.path or POOL}"
    if free < _LOW_BYTES or share < _LOW_SHARE:
        answer = bad if free < _FULL_BYTES else warn
        return answer(check, room, CheckFix(by_hand=f"virsh vol-list {POOL}; df -h {pool.path}"))
    if x.seen.pools_at_boot is not None and POOL not in x.seen.pools_at_boot:
        auto = bootstrap(x, "libvirt", f"virsh pool-autostart {POOL}")
        return warn(check, f"storage pool {POOL} does not start with the host", auto)
    return ok(check, room)


def clock(x: Examination) -> Finding:
    """The host's clock agrees with ours as far as the call tells, and NTP keeps it."""
    check, offset = "clock", x.clock_offset_s
    if offset is None:
        return unknown(check, x.seen.why("now"))
    keep = CheckFix(by_hand="apt install systemd-timesyncd && timedatectl set-ntp true")
    surely = abs(offset) - x.clock_within_s
    where = "ahead of" if offset > 0 else "behind"
    if surely > _WARN_S:
        answer = bad if surely > _BAD_S else warn
        return answer(check, f"{surely:.1f} s {where} this machine's", keep)
    missing = unread(x, check, "synchronised")
    if missing is not None:
        return missing
    if not x.seen.synchronised:
        return warn(
            check, "it agrees with this machine's now, but nothing keeps it so: no NTP", keep
        )
    return ok(
        check,
        f"kept by NTP; agrees with this machine's within {abs(offset) + x.clock_within_s:.1f} s",
    )

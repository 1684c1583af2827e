"""The verbs for thin volumes of LVM's, in volume groups that are storage pools of libvirt's.

libvirt makes no thin volumes and grows none. A group has one thin pool, which new volumes are made
in; nothing here deletes a volume.
"""

from __future__ import annotations

import json
from typing import Any

from vgpumgr.helper import arguments, errors
from vgpumgr.helper.allowed_programs import LVCREATE, LVEXTEND, LVS
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.facts.pool_definitions import volume_groups

_S = 60.0
_COLUMNS = "lv_name,lv_attr,pool_lv,lv_size"
# lvs(8), lv_attr: the first character.
_THIN_POOL, _THIN_VOLUME = "t", "V"


def create(call: Call) -> dict[str, Any]:
    """Make one of that many bytes, or as a thin snapshot of ``source``; ``bytes`` 0 are then as
    many as that has. A volume of that name is refused.
    """
    group, name = _named(call)
    size = arguments.number(call.args, "bytes")
    source = arguments.volume(call.args, "source") if "source" in call.args else ""
    there = _volumes(call, group)
    if name in there:
        raise HelperError(errors.REFUSED, f"{group}/{name} exists already")
    pool = _thin_pool(group, there)
    if not source:
        if not size:
            arguments.bad("bytes", "0, and there is no source")
        wide = ("--thin", "--virtualsize", f"{size}b")
        _done(call, (LVCREATE, *_QUIET, "--wipesignatures", "n", *wide, "--name", name,
                     f"{group}/{pool}"), f"{group}/{name} was not made")  # fmt: skip
        return {"bytes": _bytes(call, group, name)}
    if there.get(source, ("", "", 0))[0] != _THIN_VOLUME:
        raise HelperError(errors.REFUSED, f"{group}/{source} is no thin volume")
    _done(call, (LVCREATE, *_QUIET, "--snapshot", "--setactivationskip", "n", "--name", name,
                 f"{group}/{source}"), f"{group}/{name} was not made")  # fmt: skip
    if _bytes(call, group, name) < size:
        _extend(call, group, name, size)
    return {"bytes": _bytes(call, group, name)}


def grow(call: Call) -> dict[str, Any]:
    """Make one as large as that; it never gets smaller."""
    group, name = _named(call)
    size = arguments.number(call.args, "bytes")
    if _bytes(call, group, name) < size:
        _extend(call, group, name, size)
    return {"bytes": _bytes(call, group, name)}


_QUIET = ("--yes", "--quiet")


def _extend(call: Call, group: str, name: str, size: int) -> None:
    argv = (LVEXTEND, "--quiet", "--size", f"{size}b", f"{group}/{name}")
    _done(call, argv, f"{group}/{name} did not grow")


def _named(call: Call) -> tuple[str, str]:
    """As root we change for others only what libvirt calls a pool."""
    group = arguments.volume(call.args, "group")
    name = arguments.volume(call.args, "name")
    if group not in volume_groups(call.system):
        why = "no pool of kind logical has that volume group"
        raise HelperError(errors.REFUSED, f"{group} is not a storage pool of libvirt's", why)
    return group, name


# What lvs tells of a volume: the kind, the thin pool that it is in, and its size in bytes.
_Volume = tuple[str, str, int]


def _volumes(call: Call, group: str) -> dict[str, _Volume]:
    argv = (LVS, "--reportformat", "json", "--units", "b", "--nosuffix", "-o", _COLUMNS, group)
    text = _done(call, argv, f"the volumes of {group} could not be listed")
    try:
        rows = json.loads(text[text.index("{") :])["report"][0]["lv"]
        return {
            str(row["lv_name"]): (str(row["lv_attr"])[:1], str(row["pool_lv"]), int(row["lv_size"]))
            for row in rows
        }
    except (ValueError, LookupError, TypeError) as error:
        why = f"{type(error).__name__} in {text[:200]!r}"
        raise HelperError(errors.UNKNOWN, f"what lvs says of {group} is unknown", why) from error


def _thin_pool(group: str, there: dict[str, _Volume]) -> str:
    found = [name for name, (kind, _, _) in there.items() if kind == _THIN_POOL]
    if len(found) == 1:
        return found[0]
    why = f"it has {', '.join(sorted(found)) or 'none'}"
    raise HelperError(errors.REFUSED, f"volume group {group} needs one thin pool", why)


def _bytes(call: Call, group: str, name: str) -> int:
    found = _volumes(call, group).get(name)
    if found is None:
        raise HelperError(errors.NOT_FOUND, f"no volume {group}/{name}")
    if found[0] != _THIN_VOLUME:
        raise HelperError(errors.REFUSED, f"{group}/{name} is no thin volume")
    return found[2]


def _done(call: Call, argv: tuple[str, ...], failed: str) -> str:
    """The output of a program that ended well."""
    try:
        status, said = call.system.run(argv, _S)
    except OSError as error:
        raise errors.from_effect(error, f"{argv[0]} could not be run") from error
    if status:
        why = said.strip()[-500:] or f"{argv[0]} ended with {status}"
        raise HelperError(errors.REFUSED, failed, why)
    return said

"""A VM has the name of its domain: what is wrong with one, and the rename that mends it. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from itertools import count

from vgpumgr.model.vm import NAME

_MOST = 63


def fault_of(name: str, vms: Collection[str], domains: Collection[str]) -> str:
    """Why a domain of that name cannot become a VM; empty where it can.

    ``vms`` are the fleet's, ``domains`` the names on its host: the name offered is in neither.
    """
    if not re.fullmatch(NAME, name):
        fault = (
            f"the name {name!r} is not a valid VM name: lower-case letters, digits and hyphens, "
        )
        fault += f"at most {_MOST}"
    elif name in vms:
        fault = f"the fleet has a VM {name} already"
    else:
        return ""
    new = _free(_legal(name), {*vms, *domains})
    return f"{fault} (while it is off: virsh domrename {shlex.quote(name)} {new})"


def _legal(name: str) -> str:
    found = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_MOST].strip("-")
    return found if re.fullmatch(NAME, found) else f"vm-{found}"[:_MOST].strip("-")


def _free(name: str, taken: Collection[str]) -> str:
    if name not in taken:
        return name
    numbered = (f"{name[: _MOST - 4]}-{number}" for number in count(2))
    return next(each for each in numbered if each not in taken)

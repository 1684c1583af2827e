"""The verbs for images of Ceph's, in pools that are storage pools of libvirt's.

Monitors, login and key come from libvirt's own files of the pool and its secret: no caller tells
them, and the key is in no argument, answer or log.
"""

from __future__ import annotations

import json
from typing import Any

from vgpumgr.helper import arguments, errors
from vgpumgr.helper.allowed_programs import RBD
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.facts.pool_definitions import CephSource, ceph_source

_S = 60.0
# A TiB at 100 MB/s.
_FLATTEN_S = 4 * 3600.0
# Made by libvirt for a clone (storage_backend_rbd.c: virStorageBackendRBDCloneImage).
_LIBVIRTS = "libvirt-"


def look(call: Call) -> dict[str, Any]:
    """What an image is laid over: ``POOL/NAME@SNAPSHOT``, or null."""
    pool, name = _named(call)
    return {"parent": _parent(call, pool, name)}


def flatten(call: Call) -> dict[str, Any]:
    """Have an image read as before without what it is laid over; one that stands alone is no error.

    The snapshot that libvirt made for the clone goes, where nothing else is laid over it. A call
    that is cut has changed no content.
    """
    pool, name = _named(call)
    parent = _parent(call, pool, name)
    if parent is None:
        return {"parent": None}
    _done(call, pool, ("flatten", "--no-progress", f"{pool.name}/{name}"), _FLATTEN_S)
    if parent.rpartition("@")[2].startswith(_LIBVIRTS):
        for verb in ("unprotect", "rm"):
            _tried(call, pool, ("snap", verb, parent))
    return {"parent": _parent(call, pool, name)}


def _named(call: Call) -> tuple[CephSource, str]:
    pool = arguments.file_name(call.args, "pool")
    name = arguments.volume(call.args, "name")
    found = ceph_source(call.system, pool)
    if found is None:
        why = "no pool of kind rbd has that name"
        raise HelperError(errors.REFUSED, f"{pool} is not a storage pool of libvirt's", why)
    if found.user and not found.key_file:
        why = "its secret is named by usage; the helper reads one that is named by UUID"
        raise HelperError(errors.REFUSED, f"the key of storage pool {pool} is not known", why)
    return found, name


def _parent(call: Call, pool: CephSource, name: str) -> str | None:
    said = _done(call, pool, ("info", "--format", "json", f"{pool.name}/{name}"), _S)
    try:
        parent = json.loads(said[said.index("{") :]).get("parent")
        if parent is None:
            return None
        within = f"{parent['pool_namespace']}/" if parent.get("pool_namespace") else ""
        return f"{parent['pool']}/{within}{parent['image']}@{parent['snapshot']}"
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__} in {said[:200]!r}"
        raise HelperError(errors.UNKNOWN, f"what rbd says of {name} is unknown", why) from error


def _done(call: Call, pool: CephSource, words: tuple[str, ...], seconds: float) -> str:
    status, said = _run(call, pool, words, seconds)
    if status:
        code = errors.NOT_FOUND if "No such file" in said else errors.REFUSED
        why = said.strip()[-500:] or f"rbd ended with {status}"
        raise HelperError(code, f"rbd {words[0]} of {words[-1]} failed", why)
    return said


def _tried(call: Call, pool: CephSource, words: tuple[str, ...]) -> None:
    """What is used by others stays."""
    _run(call, pool, words, _S)


def _run(call: Call, pool: CephSource, words: tuple[str, ...], seconds: float) -> tuple[int, str]:
    login = ("--id", pool.user, "--keyfile", pool.key_file) if pool.user else ()
    where = ("--conf", "/dev/null", "-m", ",".join(pool.monitors))
    try:
        return call.system.run((RBD, *where, *login, *words), seconds)
    except OSError as error:
        raise errors.from_effect(error, f"{RBD} could not be run") from error

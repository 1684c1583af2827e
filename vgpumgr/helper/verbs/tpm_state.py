"""The verbs for the state of emulated TPMs, which libvirt keeps by a domain's UUID where the domain
is defined (swtpm's files): read where a VM leaves, written where it goes.

What they hold is secret: it goes in requests and answers alone, and never of a domain that does not
carry the fleet's mark.
"""

from __future__ import annotations

import base64
import binascii
import errno
from typing import Any

from vgpumgr.helper import arguments, errors
from vgpumgr.helper.arguments import Call
from vgpumgr.helper.errors import HelperError
from vgpumgr.helper.facts import domain_files

FOLDER = "/var/lib/libvirt/swtpm"
"""Where libvirt's QEMU driver has them (qemu_tpm.c: ``STORAGEDIR/UUID/tpm2``)."""
_MARK = "carried-by-vgpumgr"
# swtpm's permanent state is some 10 kB, and never grows beyond what its TPM has room for.
_MOST_BYTES, _MOST_FILES = 256 << 10, 8


def read(call: Call) -> dict[str, Any]:
    """The ``tpm_state_read`` verb: each file with its bytes; none where there is no state."""
    return {"files": _files(call, _folder(_ours(call)))}


def write(call: Call) -> dict[str, Any]:
    """The ``tpm_state_write`` verb: write the files, and read them back. A state that is there and
    is another one is left, and refused.
    """
    uuid = _ours(call)
    folder, wanted = _folder(uuid), _told(call)
    there = _files(call, folder)
    if there and there != wanted and not call.system.exists(_mark(uuid)):
        raise HelperError(errors.REFUSED, f"{folder} holds the state of another TPM")
    try:
        call.system.store(_mark(uuid), "\n")
        for name, data in wanted.items():
            call.system.store_private(f"{folder}/{name}", base64.b64decode(data))
    except OSError as error:
        raise errors.from_effect(error, f"{folder} could not be written") from error
    if _files(call, folder) != wanted:
        raise HelperError(errors.REFUSED, f"{folder} is not what was written")
    return {"files": sorted(wanted)}


def remove(call: Call) -> dict[str, Any]:
    """The ``tpm_state_remove`` verb: what was written there by the verb above; what libvirt made
    itself stays. None there is no error.
    """
    uuid = _ours(call)
    folder = _folder(uuid)
    if not call.system.exists(_mark(uuid)):
        return {"removed": False}
    try:
        if call.system.exists(folder):
            for name in call.system.list(folder):
                call.system.remove(f"{folder}/{name}")
            call.system.remove(folder)
        call.system.remove(_mark(uuid))
        call.system.remove(f"{FOLDER}/{uuid}")
    except OSError as error:
        raise errors.from_effect(error, f"{folder} could not be removed") from error
    return {"removed": True}


def _ours(call: Call) -> str:
    """The UUID asked for, of a domain of the fleet's, or of none that the host has."""
    uuid = arguments.uuid(call.args, "uuid")
    domain_files.refuse_others(call.system, uuid, call.fleet)
    return uuid


def _folder(uuid: str) -> str:
    return f"{FOLDER}/{uuid}/tpm2"


def _mark(uuid: str) -> str:
    return f"{FOLDER}/{uuid}/{_MARK}"


def _files(call: Call, folder: str) -> dict[str, str]:
    """Each file as base64; a lock of swtpm's is no state."""
    if not call.system.exists(folder):
        return {}
    names = [name for name in call.system.list(folder) if not name.startswith(".")]
    if len(names) > _MOST_FILES:
        raise HelperError(errors.REFUSED, f"{folder} holds {len(names)} files, which is no TPM's")
    found, left = {}, _MOST_BYTES
    for name in names:
        try:
            data, size = call.system.read_bytes(f"{folder}/{name}", left, FOLDER)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno in {errno.EACCES, errno.EPERM}:
                raise HelperError(errors.NOT_PERMITTED, f"{folder} may not be read") from error
            raise errors.from_effect(error, f"{folder} could not be read") from error
        if size > left:
            raise HelperError(errors.REFUSED, f"{folder} is larger than a TPM's state")
        left -= size
        found[name] = base64.b64encode(data).decode()
    return found


def _told(call: Call) -> dict[str, str]:
    """The files of the request: names without a folder, bytes as base64."""
    given = call.args.get("files")
    if not isinstance(given, dict) or not 0 < len(given) <= _MOST_FILES:
        arguments.bad("files", "no object of a few files")
    for name, data in given.items():
        if not isinstance(data, str) or not _is_plain(name):
            arguments.bad("files", "not base64 by the names of files")
    try:
        sizes = [len(base64.b64decode(data, validate=True)) for data in given.values()]
    except (binascii.Error, ValueError):
        arguments.bad("files", "not base64 by the names of files")
    if sum(sizes) > _MOST_BYTES:
        arguments.bad("files", "larger than a TPM's state")
    return dict(given)


def _is_plain(name: str) -> bool:
    plain = name.replace("-", "").replace("_", "").replace(".", "")
    return plain.isascii() and plain.isalnum() and not name.startswith(".") and len(name) <= 64

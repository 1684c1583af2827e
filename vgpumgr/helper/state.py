"""Where the helper keeps what must survive a reboot, and durable writes to it."""

from __future__ import annotations

from vgpumgr.helper import errors
from vgpumgr.helper.system import System

FOLDER = "/var/lib/vgpumgr"
CLAIMS = f"{FOLDER}/claims"
EPOCH = f"{FOLDER}/epoch"  # one for all fleets: read where an older helper left it
EPOCHS = f"{FOLDER}/epochs"
KVM = f"{FOLDER}/kvm.json"
FLEETS = f"{FOLDER}/fleets"


def store(system: System, path: str, text: str) -> None:
    """Write durably; the error says that nothing else was done."""
    try:
        system.store(path, text)
    except OSError as error:
        raise errors.from_effect(error, f"{path} could not be written") from error


def remove(system: System, path: str) -> None:
    """Remove durably; a file that is gone already is no error."""
    try:
        system.remove(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise errors.from_effect(error, f"{path} could not be removed") from error

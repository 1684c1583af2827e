"""The state of simulated TPMs where libvirt and swtpm keep it: by the UUID of its domain."""

from __future__ import annotations

import base64
import secrets
from contextlib import suppress

from vgpumgr.helper.verbs.tpm_state import FOLDER
from vgpumgr.sim.machine.kernel import Kernel

_STATE = "tpm2/tpm2-00.permall"


def make(kernel: Kernel, uuid: str) -> None:
    """A TPM that is started for the first time gets keys of its own."""
    path = f"{FOLDER}/{uuid}/{_STATE}"
    if not kernel.tree.exists(path):
        kernel.store(path, base64.b64encode(secrets.token_bytes(32)).decode())


def forget(kernel: Kernel, uuid: str) -> None:
    """libvirt removes the folder with the definition."""
    folder = f"{FOLDER}/{uuid}"
    if uuid and kernel.tree.exists(folder):
        for below in (f"{folder}/tpm2", folder):
            if kernel.tree.exists(below):
                for name in kernel.tree.names(below):
                    kernel.remove(f"{below}/{name}")
                with suppress(OSError):
                    kernel.remove(below)

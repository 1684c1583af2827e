"""Says how QEMU can run Linux on this machine: ``kvm`` or ``qemu`` (software emulation).

It is the helper's own probe: this machine's kernel, booted. The answer is remembered in .lab/ for
this kernel and this QEMU.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from vgpumgr.helper import claims  # noqa: E402
from vgpumgr.helper.arguments import Call  # noqa: E402
from vgpumgr.helper.system import System  # noqa: E402
from vgpumgr.helper.verbs.kvm import kvm_probe  # noqa: E402

MEMORY = ROOT / ".lab/kvm.json"


class Here(System):
    """This machine, which is not a host of ours: the probe's memory lies in the checkout."""

    def read(self, path: str) -> str:
        return super().read(self._mine(path))

    def store(self, path: str, text: str) -> None:
        MEMORY.parent.mkdir(exist_ok=True)
        super().store(self._mine(path), text)

    @staticmethod
    def _mine(path: str) -> str:
        return str(MEMORY) if path == claims.KVM else path


verdict = kvm_probe(Call(Here(), {}))
print("kvm" if verdict["kvm"] else "qemu")

"""``qemu-img`` on a simulated host, as far as the helper runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpumgr.sim.libvirt.admission import DiskLocks
from vgpumgr.sim.libvirt.domain_needs import Disk
from vgpumgr.sim.libvirt.known_domains import KnownDomains
from vgpumgr.sim.libvirt.sim_storage import SimStorage


@dataclass(frozen=True, slots=True)
class QemuImg:
    """The program, with the files that it opens and the guests that have some of them open."""

    storage: SimStorage
    domains: KnownDomains

    def run(self, args: Sequence[str]) -> tuple[int, str]:
        """Nothing but ``rebase`` in its safe mode is there."""
        match list(args):
            case ["rebase", "-q", "-f", "qcow2", "-b", "", path]:
                return self._rebase(path, "")
            case ["rebase", "-q", "-f", "qcow2", "-b", below, "-F", _, path]:
                return self._rebase(path, below)
        return 1, f"qemu-img: unknown arguments {' '.join(args)}\n"

    def _rebase(self, path: str, below: str) -> tuple[int, str]:
        for each in (*self.storage.chain(path), *([below] if below else [])):
            if not self.storage.exists(each):
                return 1, f"qemu-img: Could not open '{each}': No such file or directory\n"
        locks = DiskLocks(self.domains.running(), self.storage.chain)
        if why := locks.refused(Disk(path=path, exclusive=True)):
            return 1, f"qemu-img: Could not open '{path}': {why}\n"
        self.storage.lay_over(path, below)
        return 0, ""

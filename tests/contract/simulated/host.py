"""A simulated host for the cases: its root shell, its faults, and the pairs of bench and list."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic

from tests.contract.bench import B, Cases
from tests.contract.nvml import Nvml
from vgpumgr.model.host import HostRecord
from vgpumgr.model.ports import Host
from vgpumgr.model.sim_fleet import SimFleet, SimHost
from vgpumgr.sim.in_process import InProcessHosts
from vgpumgr.sim.injection import inject
from vgpumgr.sim.simulated_host import SimulatedHost

_RUN_S = 60.0


@dataclass(frozen=True)
class SimMachine:
    """Fulfils ``Machine`` and ``Faults``: a reboot replaces all but the host itself."""

    simulated: SimulatedHost

    @property
    def nvml(self) -> Nvml:
        """nvidia-ml-py over the host's library."""
        return Nvml(lambda: self.simulated.system.nvml())

    def read(self, path: str) -> str:
        return self.simulated.system.read(path)

    def write(self, path: str, text: str) -> None:
        self.simulated.system.write(path, text)

    def exists(self, path: str) -> bool:
        return self.simulated.system.exists(path)

    def target(self, path: str) -> str:
        return posixpath.basename(self.simulated.system.link(path) or "")

    def run(self, *argv: str) -> tuple[int, str]:
        return self.simulated.system.run(argv, _RUN_S)

    def log(self) -> list[str]:
        return [line for gpu in self.simulated.kernel.nvidia.values() for line in gpu.log]

    def wait(self, seconds: float) -> None:
        self.simulated.system.wait(seconds)

    def reboot(self) -> None:
        inject(self.simulated, ["reboot"])

    @contextmanager
    def client(self, gpu: str, name: str) -> Iterator[None]:
        inject(self.simulated, ["gpu", gpu, "client", name])
        yield
        inject(self.simulated, ["clear"])

    def unbind_fails(self, gpu: str, times: int) -> None:
        inject(self.simulated, ["gpu", gpu, "fail", "unbind", str(times)])


@dataclass(frozen=True, kw_only=True)
class Run(Generic[B]):
    """Lists of cases on benches of one kind; each case gets a host of its own, just booted.

    After a case of ``boots`` the host is not compared with what it was.
    """

    name: str
    host: SimHost
    bench: Callable[[Host, SimMachine], B]
    lists: tuple[Cases[B], ...] = ()
    boots: tuple[Cases[B], ...] = ()


@contextmanager
def booted(host: SimHost) -> Iterator[tuple[Host, SimMachine]]:
    """The host, reached by its port, and by hand."""
    hosts = InProcessHosts(SimFleet(name="contract", hosts=(host,)), identity=lambda: ("c", 1))
    record = HostRecord(name=host.name, address=f"sim://{host.name}")
    try:
        yield hosts.open(record), SimMachine(hosts.fleet.hosts[host.name])
    finally:
        hosts.close()

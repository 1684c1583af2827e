"""Programs of the host that hold a GPU, as /proc shows them, and the driver's own /proc folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from vgpumgr.sim.linux.tree import Tree
from vgpumgr.sim.nvidia.gpu import NvidiaGpu

_FIRST_PID = 4001
_DRIVER = "/proc/driver/nvidia/gpus"


class Processes:
    """The clients of the GPUs; ``minor`` numbers of /dev/nvidia<n> follow the order of ``gpus``."""

    def __init__(self, tree: Tree, gpus: Mapping[str, NvidiaGpu]) -> None:
        self._tree = tree
        self._gpus = gpus
        self._minors = {address: number for number, address in enumerate(gpus)}
        self._pids: dict[tuple[str, str], int] = {}
        for address, minor in self._minors.items():
            tree.text(f"/dev/nvidia{minor}", "")
            tree.lazy(f"{_DRIVER}/{address}", partial(self._show, address))

    def start(self, address: str, name: str) -> None:
        """A program opens the GPU; one of that name that runs already stays."""
        if (address, name) in self._pids:
            return
        pid = self._pids[address, name] = _FIRST_PID + len(self._pids)
        self._gpus[address].clients.add(name)
        self._tree.text(f"/proc/{pid}/comm", f"{name[:15]}\n")
        node = f"/dev/nvidia{self._minors[address]}"
        self._tree.link(f"/proc/{pid}/fd/3", node, relative=False)

    def stop(self, address: str) -> None:
        """All programs let go of the GPU."""
        for (where, name), pid in list(self._pids.items()):
            if where == address:
                del self._pids[where, name]
                self._tree.drop(f"/proc/{pid}")
        self._gpus[address].clients.clear()

    def _show(self, address: str) -> None:
        gpu, minor = self._gpus[address], self._minors[address]
        self._tree.text(
            f"{_DRIVER}/{address}/information",
            f"Model: \t\t {gpu.board.name}\nGPU UUID: \t {gpu.uuid}\n"
            f"Bus Location: \t {address}\nDevice Minor: \t {minor}\n",
        )

"""Speed and errors of a simulated GPU's PCIe link (Linux 6.12 drivers/pci/pci-sysfs.c)."""

from __future__ import annotations

from vgpumgr.sim.linux.file_tree import FileTree
from vgpumgr.sim.linux.pci_function import Function
from vgpumgr.sim.nvidia.gpu_activity import GpuActivity

_SPEEDS = {1: "2.5 GT/s PCIe", 3: "8.0 GT/s PCIe", 4: "16.0 GT/s PCIe", 5: "32.0 GT/s PCIe"}
_GENERATIONS = {"maxwell": 3, "pascal": 3, "volta": 3, "turing": 3, "hopper": 5, "blackwell": 5}
_OTHERS = 4
_AER = {"correctable": "COR", "nonfatal": "NONFATAL", "fatal": "FATAL"}


def best_generation(activity: GpuActivity | None) -> int:
    """The PCIe generation of the board; hosts here have no lower one."""
    return _GENERATIONS.get(activity.gpu.model.arch, _OTHERS) if activity else _OTHERS


def generation(activity: GpuActivity | None) -> int:
    """The one in use: an idle GPU for displays lowers its link."""
    rests = activity is not None and not activity.has_hbm and activity.rests()
    return 1 if rests else best_generation(activity)


def show_link(tree: FileTree, function: Function, activity: GpuActivity | None) -> None:
    """Put the files of its speed, and the kernel's counts of its errors."""
    at = function.path

    def speed() -> str:
        """All ones are read of a function that fell off the bus."""
        if function.lost:
            return "Unknown\n"
        return f"{_SPEEDS[generation(activity)]}\n"

    tree.file(f"{at}/current_link_speed", speed)
    tree.text(f"{at}/max_link_speed", f"{_SPEEDS[best_generation(activity)]}\n")
    for kind, word in _AER.items():
        text = f"Undefined 0\nTOTAL_ERR_{word} 0\n"
        tree.text(f"{at}/aer_dev_{kind}", text)

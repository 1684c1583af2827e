"""The words of ``sim inject``: the one list of all faults and events of a simulated host.

``sim inject`` takes these words, its help and its errors show them, and a test types each
example.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """What to type after the host, what it does, and one way of typing it: ``example``.

    In an example ``ADDRESS`` is a GPU of the host, ``DOMAIN`` a running domain, ``UUID`` an mdev.
    """

    words: str
    text: str
    example: str = ""


TABLE = (
    Form("latency SECONDS", "every call takes so much longer", "latency 0.01"),
    Form("hang", "calls wait until `clear`"),
    Form("unreachable", "no call comes in"),
    Form("driver-hang", "what asks NVIDIA's driver waits until `clear`"),
    Form("refuse VERB ERRNO COUNT", "the verb fails COUNT times", "refuse mdev_create EIO 2"),
    Form("reboot", "what is not on disk is gone"),
    Form("off", "its power is cut"),
    Form("on", "it is switched on"),
    Form("gpu ADDRESS lost", "it falls off the bus"),
    Form("gpu ADDRESS ecc", "an uncorrectable memory error"),
    Form("gpu ADDRESS remap-failed", "a memory row could not be remapped: to be replaced"),
    Form("gpu ADDRESS remap-pending", "a replaced memory row waits for a reset"),
    Form(
        "gpu ADDRESS errors COUNT",
        "that number of uncorrected memory errors",
        "gpu ADDRESS errors 2",
    ),
    Form(
        "gpu ADDRESS retired COUNT",
        "that number of memory pages is retired",
        "gpu ADDRESS retired 61",
    ),
    Form("gpu ADDRESS sram", "its SRAM has more errors than NVIDIA allows"),
    Form("gpu ADDRESS recovery NUMBER", "the driver asks for that", "gpu ADDRESS recovery 1"),
    Form("gpu ADDRESS width COUNT", "its PCIe link is x COUNT", "gpu ADDRESS width 8"),
    Form("gpu ADDRESS hidden", "NVML gives no handle of it"),
    Form("gpu ADDRESS xid NUMBER", "the driver reports that Xid", "gpu ADDRESS xid 31"),
    Form("gpu ADDRESS busy", "its vGPUs want all of it"),
    Form("gpu ADDRESS calm", "its vGPUs do nothing"),
    Form("gpu ADDRESS hot", "it is too hot, and holds its clocks down"),
    Form("gpu ADDRESS unlicensed", "the guests of its vGPUs have lost their licences"),
    Form("gpu ADDRESS client NAME", "a program holds the GPU", "gpu ADDRESS client Xorg"),
    Form(
        "gpu ADDRESS fail WHAT COUNT",
        "a driver call fails: unbind, create, reset, or NVML's C name",
        "gpu ADDRESS fail create 1",
    ),
    Form("setup NAME", "it is set up badly, for `doctor` to find", "setup nouveau"),
    Form("guests boot SECONDS", "first boots of new guests take so long", "guests boot 60"),
    Form("guest DOMAIN users COUNT", "what its agent tells from now on", "guest DOMAIN users 1"),
    Form("guest DOMAIN address IP", "the same", "guest DOMAIN address 192.0.2.7"),
    Form("guest DOMAIN silent", "its agent does not answer, until the guest ends"),
    Form("guest DOMAIN boots SECONDS", "its first boot takes so long", "guest DOMAIN boots 60"),
    Form(
        "guest DOMAIN fails PROGRAM WORDS",
        "a program in it fails, and prints that",
        "guest DOMAIN fails nvidia-smi no driver",
    ),
    Form("guest DOMAIN no-programs", "its agent runs no programs"),
    Form("guest DOMAIN well", "its agent answers, and its programs end well"),
    Form("destroy DOMAIN", "somebody else switches it off"),
    Form("undefine DOMAIN", "somebody else makes libvirt forget it"),
    Form("remove-mdev UUID", "somebody else removes a vGPU that no guest uses"),
    Form(
        "lie VERB PATH JSON",
        "it answers so from then on",
        "lie probe result.nvml.gpus.0.memory_mib -1",
    ),
    Form("clear", "all is well again; what is off stays off"),
)
FORMS = " | ".join(form.words for form in TABLE)


def help_text() -> str:
    """The table, a line each."""
    width = max(len(form.words) for form in TABLE)
    return "\n".join(f"{form.words:<{width}}  {form.text}" for form in TABLE)

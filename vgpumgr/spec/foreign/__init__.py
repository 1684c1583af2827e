"""Layout files of other tools: NVIDIA's mig-parted and vgpu-device-manager; nvidia-smi's table.

Both keep named configurations in one file of ``version: v1``; one configuration is one Layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from vgpumgr.model.errors import UsageError
from vgpumgr.model.gpu import GpuFacts
from vgpumgr.model.layout import LayoutSpec
from vgpumgr.spec.foreign import mig_parted, nvidia_smi_listing, vgpu_device_manager
from vgpumgr.spec.foreign.conversion import ExportedLayouts, ForeignFormat, ImportedLayouts
from vgpumgr.spec.foreign.shared_format import top_keys
from vgpumgr.spec.spec_file import did_you_mean, either

__all__ = ["FORMATS", "ExportedLayouts", "ImportedLayouts", "read", "write"]

FORMATS: Mapping[str, ForeignFormat] = MappingProxyType(
    {"mig-parted": mig_parted.FORMAT, "vgpu-device-manager": vgpu_device_manager.FORMAT}
)


def read(
    data: bytes | str,
    source: str,
    config: str = "",
    gpus: Sequence[GpuFacts] = (),
    fleet: Sequence[GpuFacts] = (),
) -> ImportedLayouts:
    """One configuration of a file of either format, told by its keys, or what nvidia-smi lists.

    ``config`` may be empty where the file holds one. ``gpus`` are the GPUs of the one host that
    the file is for: they give its device numbers a meaning. ``fleet`` are GPUs whose drivers tell
    of boards that the catalogue does not hold. Raises SpecError for a file that cannot be read,
    UsageError for a configuration it does not hold.
    """
    if nvidia_smi_listing.is_listing(data):
        return nvidia_smi_listing.read(data, gpus)
    keys = top_keys(data, source)
    known = [each for each in FORMATS.values() if each.key in keys]
    if len(known) != 1:
        words = either([each.key for each in FORMATS.values()])
        raise UsageError(f"{source} is not a layout file of another tool", why=f"it has no {words}")
    return known[0].read(data, source, config, gpus, fleet)


def write(
    format_name: str,
    layouts: Sequence[LayoutSpec],
    gpus: Mapping[str, Sequence[GpuFacts]] = MappingProxyType({}),
) -> ExportedLayouts:
    """Layouts as a file of another tool; ``gpus`` by host, for layouts of single devices.

    Raises UsageError for a format that we do not write.
    """
    if format_name not in FORMATS:
        near = did_you_mean(format_name, FORMATS)
        raise UsageError(f"no format {format_name}", why=f"known are {', '.join(FORMATS)}{near}")
    return FORMATS[format_name].write(layouts, gpus)

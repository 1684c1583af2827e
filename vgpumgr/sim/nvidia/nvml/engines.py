"""Engines of a GPU instance: numbers of the catalogue's source that only NVML's structs need."""

from __future__ import annotations

from vgpumgr.catalog import Board, GiProfile
from vgpumgr.catalog.tables import table

_FIELDS = {
    "dec": "decoderCount",
    "enc": "encoderCount",
    "jpeg": "jpegCount",
    "ofa": "ofaCount",
    "ce": "copyEngineCount",
}


def engines(board: Board, profile: GiProfile) -> dict[str, int]:
    """NVML's field names → counts; a number of multiprocessors that nobody has seen is 0."""
    device = board.vendor_device.partition(":")[2]
    card = next(each for each in table("mig_profiles")["gpus"] if device in each["pci_devices"])
    row = next(each for each in card["gi_profiles"] if each["name"] == profile.name)
    counts = {_FIELDS[name]: int(count) for name, count in row["engines"].items()}
    return {**counts, "multiprocessorCount": row["sm_count"] or 0}

"""One part of the fields in a process, and what all parts come to."""

from __future__ import annotations

import gc
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests import sqltexts
from tests.hostile.tally import Tally
from tests.hostile.telling import Extent, run
from vgpumgr.helper.dispatch import VERBS

# Where ledgers lie, if there is such a folder: nobody pulls this machine's plug.
_MEMORY = Path("/dev/shm")


def one(extent: Extent, kept: Path | None) -> Tally:
    """One part; its figures so far are in a file of its own."""
    sqltexts.share()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    if _MEMORY.is_dir():
        tempfile.tempdir = str(_MEMORY)
    tally = run(extent, lambda so_far: written(so_far, kept))
    written(tally, kept)
    return tally


def summed(tallies: Iterable[Tally]) -> Tally:
    """All together."""
    total = Tally()
    for each in tallies:
        total.add(each)
    return total


def written(tally: Tally, file: Path | None) -> dict[str, object]:
    """The figures, and which verbs no trial asks for."""
    found = tally.plain()
    found["verbs_not_asked"] = sorted(set(VERBS) - set(found["verbs"]))
    if file:
        file.write_text(json.dumps(found, indent=1) + "\n")
    return found

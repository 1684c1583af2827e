"""Compiles the quick way to rate hosts, if this machine can; by itself: ``python hatch_build.py``.

Nothing needs it: without a compiler the package is as complete, and placement slower.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("vgpumgr/placement/scores/host_rating.c")
FLAGS = ("-O2", "-ffp-contract=off", "-std=c11", "-shared", "-fPIC")


def compiled(root: Path) -> str:
    """Why there is no library; empty where it lies beside its source now."""
    compiler = shlex.split(os.environ.get("CC", "")) or [shutil.which("cc") or ""]
    source, target = root / SOURCE, root / SOURCE.with_suffix(".so")
    if not compiler[0]:
        return "there is no C compiler"
    digest = f"-DSOURCE={zlib.crc32(source.read_bytes())}"
    made = target.with_suffix(f".{os.getpid()}")
    words = [*compiler, *FLAGS, digest, "-o", str(made), str(source), "-lm"]
    try:
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{compiler[0]} cannot be run: {error}"
    if ran.returncode:
        made.unlink(missing_ok=True)
        return f"{compiler[0]} failed: {ran.stderr.strip()}"
    made.replace(target)
    return ""


class CompiledRatingHook(BuildHookInterface):
    """Puts the library into the wheel, which is then for this kind of machine alone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds."""
        if self.target_name != "wheel":
            return
        if why := compiled(Path(self.root)):
            self.app.display_warning(f"placement stays without its compiled part: {why}")
            return
        build_data["artifacts"].append(str(SOURCE.with_suffix(".so")))
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"


if __name__ == "__main__":
    sys.exit(compiled(Path(__file__).parent) or 0)

"""Runs on the host: puts the helper in place as root, takes it away, or looks at what is there.

It is sent as text and imports nothing of ours (Python 3.9 or later). On stdin: one line of JSON,
then, to install, the zip of ``helper_launch.py``, unless the order names a file that holds it. On
stdout: one line of JSON. ``bundle.sha256`` in the helper's folder says which zip was installed.
"""

from __future__ import annotations

import compileall
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

LAUNCHER_TEXT = """\
#!/usr/bin/python3 -I
import sys
sys.path.insert(0, {folder!r})
from vgpumgr.helper.__main__ import main
sys.exit(main())
"""


def install(order: dict[str, Any], packed: bytes) -> None:
    """Replace ``folder`` whole, then write the sudo rule; root owns everything."""
    folder = Path(order["folder"])
    fresh = folder.with_name(folder.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o755, parents=True)
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        archive.extractall(fresh)
    compileall.compile_dir(str(fresh), quiet=2, stripdir=str(fresh), prependdir=str(folder))
    launcher = fresh / Path(order["launcher"]).name
    launcher.write_text(LAUNCHER_TEXT.format(folder=str(folder)))
    launcher.chmod(0o755)
    (fresh / "bundle.sha256").write_text(hashlib.sha256(packed).hexdigest() + "\n")
    _replace(folder, fresh)
    if order["sudoers_line"]:
        _allow(Path(order["sudoers"]), order["sudoers_line"])


def look(order: dict[str, Any]) -> dict[str, Any]:
    """What of the helper is there; whoever may log in may read it."""
    folder, state = Path(order["folder"]), Path(order["state"])
    digest, fleets = folder / "bundle.sha256", state / "fleets"
    return {
        "helper": folder.exists(),
        "bundle": digest.read_text().strip() if digest.exists() else "",
        "fleets": _marks(fleets) if fleets.exists() else [],
        "state": state.exists(),
    }


def _marks(fleets: Path) -> list[str]:
    """Of whole marks: the helper writes each beside its place first, and may be cut meanwhile."""
    return sorted(each.name for each in fleets.iterdir() if each.suffix != ".tmp")


def remove(order: dict[str, Any]) -> None:
    """Take the rule away, then the files; what is not there is no error."""
    Path(order["sudoers"]).unlink(missing_ok=True)
    shutil.rmtree(order["folder"], ignore_errors=True)


def _packed(order: dict[str, Any]) -> bytes:
    file = order.get("bundle")
    return Path(file).read_bytes() if file else sys.stdin.buffer.read()


def _replace(folder: Path, fresh: Path) -> None:
    old = folder.with_name(folder.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _allow(sudoers: Path, line: str) -> None:
    """Write the rule only after visudo read it without complaint (sudo skips names with a dot)."""
    if not sudoers.parent.is_dir():
        raise OSError(f"{sudoers.parent} does not exist: install sudo, or enrol as root")
    draft = sudoers.with_name(sudoers.name + ".new")
    draft.touch(mode=0o440)
    draft.write_text(line + "\n")
    draft.chmod(0o440)
    visudo = shutil.which("visudo", path="/usr/sbin:/usr/bin:/sbin:/bin")
    if visudo:
        checked = subprocess.run(
            [visudo, "-c", "-f", str(draft)], capture_output=True, text=True, check=False
        )
        if checked.returncode:
            draft.unlink()
            raise OSError(f"visudo refuses the rule: {checked.stdout}{checked.stderr}")
    draft.rename(sudoers)


def main() -> int:
    """Read the order, do it, answer."""
    os.umask(0o022)
    order = json.loads(sys.stdin.buffer.readline())
    try:
        answer: dict[str, Any] = {"ok": True, "why": ""}
        if order["do"] == "look":
            answer.update(look(order))
        elif order["do"] == "install":
            install(order, _packed(order))
        else:
            remove(order)
    except (OSError, zipfile.BadZipFile) as error:
        answer = {"ok": False, "why": str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

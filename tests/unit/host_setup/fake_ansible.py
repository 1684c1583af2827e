"""Stands in for ``ansible-playbook``: notes how it was called, says what a file holds, ends.

``fake_ansible.py FOLDER …``: FOLDER has ``says`` (lines), ``complains`` and ``status``; what came
in goes to ``called.json`` there.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from pathlib import Path

MAX_WAIT_S = 30


def main() -> int:
    folder = Path(sys.argv[1])
    workplace = Path.cwd()
    called = {
        "argv": sys.argv[2:],
        "environ": dict(os.environ),
        "files": {
            str(path.relative_to(workplace)): {
                "mode": stat.S_IMODE(path.stat().st_mode),
                "text": path.read_bytes().decode(errors="replace"),
            }
            for path in workplace.iterdir()
            if path.is_file()
        },
        "folder_mode": stat.S_IMODE(workplace.stat().st_mode),
    }
    (folder / "called.json").write_text(json.dumps(called))
    print((folder / "says").read_text(), end="", flush=True)
    sys.stderr.write((folder / "complains").read_text())
    end = time.monotonic() + MAX_WAIT_S
    while (folder / "waits").exists() and time.monotonic() < end:
        time.sleep(0.02)
    return int((folder / "status").read_text())


if __name__ == "__main__":
    sys.exit(main())

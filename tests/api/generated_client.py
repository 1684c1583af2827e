"""A client that is made of docs/openapi.json alone works: ``python -m tests.api.generated_client``.

`openapi-python-client` makes it in a virtual environment of its own, which is thrown away. It then
lists, applies under a key, waits, pages, and reads a problem, at a `vgpumgr api` on a simulated
fleet. Exits 1 where the generator warns of anything, or where the story ends otherwise.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tests.apiserver import serving_api
from tests.e2e.support import host, new_cli, vm

DESCRIPTION = Path(__file__).parents[2] / "docs" / "openapi.json"
GENERATOR = ("openapi-python-client>=0.29,<1", "ruff")
STORY = Path(__file__).with_name("generated_client_story.py")


def made(folder: Path) -> tuple[Path, str]:
    """The Python of an environment that has the client, and what the generator warned of."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", *GENERATOR], check=True)
    words = ["generate", "--path", DESCRIPTION, "--output-path", folder / "made" / "vgpumgr_client"]
    (folder / "made").mkdir()
    ran = subprocess.run(
        [python.with_name("openapi-python-client"), *words, "--meta", "none"],
        env={**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    said = [each for each in (ran.stdout + ran.stderr).splitlines() if each.strip()]
    return python, "\n".join(each for each in said if not each.startswith("Generating "))


def main() -> int:
    with tempfile.TemporaryDirectory() as place, new_cli() as cli:
        folder = Path(place)
        python, warned = made(folder)
        if warned:
            print(warned)
            return 1
        cli.sim_up(host("h1", ("T4", 2)), host("h2", ("T4", 1)))
        file = cli.documents(vm("made-a", "T4-4Q"), vm("made-b", "T4-4Q"))
        made_token = cli.ok("token", "create", "made", "--role", "operator", "-o", "json").json
        with serving_api(cli, loopback=True) as api:
            environ = {
                **os.environ,
                "PYTHONPATH": str(folder / "made"),
                "VGPUMGR_URL": api.reading_url,
                "VGPUMGR_TOKEN": made_token["secret"],
            }
            return subprocess.run([python, STORY, file], env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

"""Data is copied into a guest before it is ready; the script is run as it is, in a folder."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from vgpumgr import guests
from vgpumgr.guests.check_verdict import PASSED, verdict
from vgpumgr.model.guest import GuestAnswer
from vgpumgr.spec import SpecError, load

FACTS = {"name": "a", "host": "h1", "tenant": "t", "driver_branch": "550", "last_gpu": "0"}
HEAD = "apiVersion: vgpumgr/v1\nkind: VM\nname: a\n"


def spec(source: str, to: str):
    line = f"guest: {{preload: [{{from: '{source}', to: '{to}'}}]}}"
    [vm] = load(f"{HEAD}{line}\n", "a.yaml").vms
    return vm.guest


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[str]:
    """A server on the loopback with one file."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    (folder / "model.bin").write_bytes(b"weights")

    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(folder))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def script(tmp_path: Path, guest) -> tuple[Path, list[list[str]]]:
    """The script, whose state is kept in the folder, and the commands that call it."""
    config = yaml.safe_load(guests.user_data(guest, "debian-12", FACTS, None))
    [file] = [each for each in config["write_files"] if each["path"].endswith("preload-data")]
    path = tmp_path / "preload-data"
    path.write_text(file["content"].replace("/var/lib/vgpumgr", str(tmp_path / "state")))
    path.chmod(0o755)
    called = [each for each in config["runcmd"] if each[0].endswith("preload-data")]
    return path, called


@pytest.mark.thorough
@pytest.mark.parametrize("file, well", [("model.bin", True), ("other.bin", False)])
def test_a_guest_is_ready_when_the_copy_is_whole(tmp_path, mirror, file, well):
    target = tmp_path / "models"
    guest = spec(f"{mirror}/{file}", str(target))
    path, [[_, *words]] = script(tmp_path, guest)
    subprocess.run([path, *words], check=False, timeout=60)
    check = guests.checks(guest, "debian-12", FACTS)[-1]
    ran = subprocess.run(
        [path, *check.run[1:]], check=False, capture_output=True, text=True, timeout=60
    )
    said = verdict(check, GuestAnswer(status=ran.returncode, output=ran.stdout))
    if well:
        assert said == PASSED
        assert (target / "model.bin").read_bytes() == b"weights"
    else:
        assert said.why.startswith(f"{mirror}/{file} is not in {target}: curl: (22)")


@pytest.mark.parametrize(
    "source, to, says",
    [
        ("ftp://a/b", "/x", "from of preload-data is not an http"),
        ("nfs.lan:/a'; rm -rf /; '", "/x", ""),
        ("nfs.lan:/a", "x", "to of preload-data is not the folder"),
    ],
)
def test_what_cannot_be_copied_is_refused(source, to, says):
    with pytest.raises(SpecError) as error:
        spec(source.replace("'", "''"), to)
    assert says in str(error.value)


def test_two_folders_share_one_script():
    text = f"{HEAD}guest: {{preload: [{{from: 'a.lan:/a', to: /a}}, {{from: 'a.lan:/b', to: /b}}]}}"
    [vm] = load(text, "a.yaml").vms
    config = yaml.safe_load(guests.user_data(vm.guest, "debian-12", FACTS, None))
    assert len(config["write_files"]) == 1
    assert [each[1:] for each in config["runcmd"][-2:]] == [["a.lan:/a", "/a"], ["a.lan:/b", "/b"]]

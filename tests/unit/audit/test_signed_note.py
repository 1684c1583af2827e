"""Signed notes: what others sign and check in the same format, and what is refused."""

from __future__ import annotations

import base64
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from vgpumgr.app.trail_key import made_key, trail_key
from vgpumgr.audit import signed_note
from vgpumgr.audit.signed_note import body, open_note, public_key, sign_note, verifier_key
from vgpumgr.model.errors import LedgerError, NotFound, TrailTampered, UsageError
from vgpumgr.model.sealed_trail import TreeHead

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()
HEAD = TreeHead(origin="vgpumgr/f-1/3", size=1000, root=bytes(range(32)))
# The example of the format's first implementation (golang.org/x/mod/sumdb/note).
NEUMANN = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
SAID = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
)
SIGNED = (
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpR"
    "Zb6KE6RyyBwJnAM="
)


def test_a_head_comes_back_from_its_note() -> None:
    assert open_note(sign_note(HEAD, KEY), [bytes(32), PUBLIC]) == HEAD


def test_keys_and_signatures_are_those_of_the_format() -> None:
    key = public_key(NEUMANN)
    assert verifier_key("PeterNeumann", key) == NEUMANN
    assert signed_note._is_signed(SAID, SIGNED, "PeterNeumann", key)
    assert not signed_note._is_signed(SAID + " ", SIGNED, "PeterNeumann", key)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl program")
def test_openssl_agrees_with_the_signature(tmp_path: Path) -> None:
    """A verifier that is not ours, on the bytes that the note shows."""
    key = made_key(tmp_path)
    text, _, line = key.sign(HEAD).partition("\n\n")
    signature = base64.b64decode(line.split(" ")[2])[4:]
    (tmp_path / "key.pem").write_text(key.public_pem())
    (tmp_path / "signature").write_bytes(signature)

    def verified(text: str) -> bool:
        (tmp_path / "body").write_text(text)
        argv = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key.pem", "-rawin"]
        more = ["-in", "body", "-sigfile", "signature"]
        return subprocess.run([*argv, *more], cwd=tmp_path, capture_output=True).returncode == 0

    assert f"{text}\n" == body(HEAD)
    assert verified(f"{text}\n")
    assert not verified(f"{text}\n".replace("1000", "1001"))


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("1000", "1001"),
        ("f-1/3", "f-1/4"),
        ("AAEC", "AAED"),
        ("\n\n", "\n"),
        ("— ", "- "),
        ("1000", "9" * 5000),
        ("1000", "01000"),
        ("1000", "-1"),
    ],
)
def test_a_note_that_was_changed_is_refused(was: str, becomes: str) -> None:
    note = sign_note(HEAD, KEY)
    assert was in note
    with pytest.raises(TrailTampered, match="cannot be trusted"):
        open_note(note.replace(was, becomes), [PUBLIC])


def test_a_note_of_another_key_is_refused() -> None:
    other = Ed25519PrivateKey.generate()
    for note in (sign_note(HEAD, other), "", "x\n", "\n\n", "a\nb\nc\n\nd\n"):
        with pytest.raises(TrailTampered):
            open_note(note, [PUBLIC])


def test_a_public_key_is_read_from_both_of_its_forms(tmp_path: Path) -> None:
    key = made_key(tmp_path)
    assert public_key(key.public_pem()) == key.public
    assert public_key(f"{verifier_key('n', key.public)}\n") == key.public
    for wrong in ("", "n+1+", "n+00000000+AAAA", "-----BEGIN PUBLIC KEY-----\nx"):
        with pytest.raises(UsageError):
            public_key(wrong)


def test_the_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    with pytest.raises(NotFound, match="has no key"):
        trail_key(folder)
    made = made_key(folder)
    assert made_key(folder).public == trail_key(folder).public == made.public
    [file] = folder.iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == ("audit_ed25519", 0o600)
    assert folder.stat().st_mode & 0o777 == 0o700
    file.write_text("no key")
    with pytest.raises(LedgerError, match="cannot be used"):
        made_key(folder)

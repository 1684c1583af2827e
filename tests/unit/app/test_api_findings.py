"""What is wrong with the API's settings: certificate, key and socket."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from vgpumgr.app.api_findings import api_findings
from vgpumgr.app.config import Config
from vgpumgr.model.examination import CheckOutcome

DAY = datetime.timedelta(days=1)
NOW = datetime.datetime.now(datetime.UTC)


class Pair:
    """A certificate and its key in files."""

    def __init__(self, folder: Path, first: float = -1, last: float = 90) -> None:
        self.folder = folder
        self.certificate, self.key = folder / "gpu.pem", folder / "gpu.key"
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gpu")])
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(NOW + first * DAY)
            .not_valid_after(NOW + last * DAY)
            .sign(key, hashes.SHA256())
        )
        self.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        self.write_key(key, serialization.NoEncryption())

    def write_key(
        self, key: ec.EllipticCurvePrivateKey, how: serialization.KeySerializationEncryption
    ) -> None:
        form = serialization.PrivateFormat.PKCS8
        self.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, how))
        self.key.chmod(0o600)

    def config(self, **more: Path | str | None) -> Config:
        known: dict[str, Path | str | None] = {
            "api_listen": "127.0.0.1:8443",
            "api_certificate": self.certificate,
            "api_key": self.key,
            **more,
        }
        return Config(ledger="", state_dir=self.folder, **known)  # type: ignore[arg-type]

    def found(self, **more: Path | str | None) -> list[tuple[str, str]]:
        return [(str(each.mark), each.text) for each in api_findings(self.config(**more))]


def test_a_good_pair_is_ok_and_nothing_is_said_without_an_api(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    assert [mark for mark, _ in pair.found()] == ["ok"]
    assert pair.found(api_listen="") == []


@pytest.mark.parametrize(
    ("first", "last", "mark", "text"),
    [
        (-9, -2.5, "bad", "expired 3 d ago"),
        (-9, 20.5, "warn", "expires in 21 d"),
        (-9, 21.5, "ok", "https://127.0.0.1:8443"),
        (2.5, 90, "bad", "is valid in 3 d only"),
    ],
)
def test_dates_of_a_certificate(
    tmp_path: Path, first: float, last: float, mark: str, text: str
) -> None:
    found = Pair(tmp_path, first, last).found()
    assert found[0][0] == mark and text in found[0][1]


def test_another_key_and_an_encrypted_one_are_named(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    other = ec.generate_private_key(ec.SECP256R1())
    pair.write_key(other, serialization.NoEncryption())
    [(mark, text)] = pair.found()
    assert mark == "bad" and "is not that of the certificate" in text
    pair.write_key(other, serialization.BestAvailableEncryption(b"x"))
    [(mark, text)] = pair.found()
    assert mark == "bad" and "the key is encrypted" in text
    pair.certificate.write_text("no certificate")
    [(mark, text)] = pair.found()
    assert mark == "bad" and "cannot be used" in text


def test_files_that_are_away_or_open_to_others(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.key.chmod(0o644)
    assert ("bad", f"other users may read the key {pair.key}") in pair.found()
    pair.key.chmod(0o640)
    assert [mark for mark, _ in pair.found()] == ["ok"]
    pair.key.unlink()
    [(mark, text)] = pair.found()
    assert mark == "bad" and text == f"{pair.key} cannot be read: No such file or directory"
    [(mark, text)] = pair.found(api_key=None)
    assert "without a certificate and its key" in text
    ca = tmp_path / "ca.pem"
    ca.write_text("none")
    [(_, text)] = Pair(tmp_path).found(api_client_ca=ca)
    assert text.startswith(f"the CA of clients {ca} cannot be used")


def test_a_socket_folder_that_others_may_write_to(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    config = Config(ledger="", state_dir=tmp_path, api_socket=folder / "api.sock")
    folder.chmod(0o755)
    assert list(api_findings(config)) == []
    for mode in (0o775, 0o777, 0o1777):
        folder.chmod(mode)
        [each] = api_findings(config)
        assert each.mark is CheckOutcome.BAD and str(folder) in each.text

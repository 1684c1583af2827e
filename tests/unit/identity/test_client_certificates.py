"""Client certificates: which part names the user."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from vgpumgr.identity.client_certificates import CertificateField, certificate_principal
from vgpumgr.model.actor import LoginMethod
from vgpumgr.model.errors import LoginRefused

BEGINS, ENDS = 1_800_000_000, 1_800_100_000


def certificate(common: tuple[str, ...] = ("ada",), *names: x509.GeneralName) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, each) for each in common])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.fromtimestamp(BEGINS, UTC))
        .not_valid_after(datetime.fromtimestamp(ENDS, UTC))
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    made = builder.sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.DER)


MAIL, URI = x509.RFC822Name, x509.UniformResourceIdentifier


@pytest.mark.parametrize(
    ("part", "user"),
    [
        (CertificateField.COMMON_NAME, "ada"),
        (CertificateField.EMAIL, "ada@example.org"),
        (CertificateField.URI, "spiffe://example.org/ci"),
    ],
)
def test_names(part: CertificateField, user: str) -> None:
    der = certificate(("ada",), MAIL("ada@example.org"), URI("spiffe://example.org/ci"))
    who = certificate_principal(der, part, BEGINS + 1)
    assert (who.subjects, who.method) == ({f"user:{user}"}, LoginMethod.CERTIFICATE)


def test_the_certificate_itself() -> None:
    der = certificate()
    who = certificate_principal(der, CertificateField.FINGERPRINT, BEGINS)
    assert who.subject == f"user:sha256:{hashlib.sha256(der).hexdigest()}"


@pytest.mark.parametrize(
    ("der", "part"),
    [
        (certificate(()), CertificateField.COMMON_NAME),
        (certificate(("ada", "root")), CertificateField.COMMON_NAME),
        (certificate(("a b",)), CertificateField.COMMON_NAME),
        (certificate(), CertificateField.EMAIL),
        (certificate(("ada",), MAIL("a@x.org"), MAIL("b@x.org")), CertificateField.EMAIL),
        (certificate(("ada",), URI("https://x")), CertificateField.EMAIL),
        (b"", CertificateField.FINGERPRINT),
        (b"\x30\x03\x02\x01\x01", CertificateField.COMMON_NAME),
    ],
)
def test_what_names_no_user_or_several(der: bytes, part: CertificateField) -> None:
    with pytest.raises(LoginRefused):
        certificate_principal(der, part, BEGINS + 1)


@pytest.mark.parametrize("now", [BEGINS - 1, ENDS, ENDS + 1])
def test_a_certificate_has_its_time(now: float) -> None:
    with pytest.raises(LoginRefused, match="not valid now"):
        certificate_principal(certificate(), CertificateField.COMMON_NAME, now)

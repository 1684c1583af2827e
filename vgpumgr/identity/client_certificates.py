"""Client certificates as principals: which part of one is the user's name."""

from __future__ import annotations

import hashlib
import re
from enum import StrEnum
from typing import TYPE_CHECKING

from vgpumgr.access.principal import Principal
from vgpumgr.model.actor import LoginMethod
from vgpumgr.model.errors import LoginRefused

if TYPE_CHECKING:
    from cryptography import x509

_NAME = re.compile(r"[^\s\x00-\x1f\x7f]{1,200}")


class CertificateField(StrEnum):
    """The part of a certificate that names its user: the address or URI of its subjectAltName, the
    subject's common name, or the certificate itself (``sha256:`` and its digest).
    """

    EMAIL = "email"
    URI = "uri"
    COMMON_NAME = "cn"
    FINGERPRINT = "fingerprint"


def certificate_principal(der: bytes, part: CertificateField, now: float) -> Principal:
    """Who shows a certificate (DER) that TLS has verified against the client CA. ``now`` is Unix
    seconds: a connection may outlive a certificate. LoginRefused where the part names no user,
    or more than one.
    """
    from cryptography import x509

    try:
        certificate = x509.load_der_x509_certificate(der)
        begins = certificate.not_valid_before_utc.timestamp()
        ends = certificate.not_valid_after_utc.timestamp()
        names = [f"sha256:{hashlib.sha256(der).hexdigest()}"]
        if part is not CertificateField.FINGERPRINT:
            names = _names(certificate, part)
    except ValueError as error:
        raise LoginRefused("the client's certificate cannot be read", why=str(error)) from error
    if not begins <= now < ends:
        raise LoginRefused("the client's certificate is not valid now")
    if len(names) != 1 or not _NAME.fullmatch(names[0]):
        why = f"it has {len(names)} names of the kind {part}"
        raise LoginRefused("the client's certificate names no user", why=why)
    return Principal(user=names[0], method=LoginMethod.CERTIFICATE)


def _names(certificate: x509.Certificate, part: CertificateField) -> list[str]:
    from cryptography import x509

    if part is CertificateField.COMMON_NAME:
        found = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        return [str(each.value) for each in found]
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    kind = x509.RFC822Name if part is CertificateField.EMAIL else x509.UniformResourceIdentifier
    return [str(each) for each in names.get_values_for_type(kind)]

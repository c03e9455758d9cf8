"""What the farm's certificates look like. The only module that imports ``cryptography``.

An authority of the farm's own signs everything: nothing else is trusted, and its certificates are of no use
elsewhere. Who a certificate belongs to stands in a URI in its subject alternative name,
``tilewright:ROLE:NAME``. Its extended key usage has TLS itself refuse a runner that poses as the scheduler.
Profile: RFC 5280, as OpenSSL's strict checks (``X509_V_FLAG_X509_STRICT``) demand it.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey
Certificate = x509.Certificate


@dataclass(frozen=True)
class Fields:
    """What of a certificate counts here. Times are seconds since the epoch."""

    uris: tuple[str, ...]
    hosts: tuple[str, ...]
    serial: int
    not_before: float
    not_after: float


def new_key() -> Key:
    """A new ECDSA key on the curve P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def new_serial() -> int:
    """A random serial number of 159 bits."""
    return x509.random_serial_number()


def key_pem(key: Key) -> bytes:
    """The key as PKCS #8, not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def certificate_pem(certificate: Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def load_key(pem: bytes) -> Key:
    """Raises ``ValueError`` for anything but an unencrypted key of the kind that :func:`new_key` makes."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError as e:  # an encrypted key
        raise ValueError(str(e)) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not an elliptic curve key")
    return key


def load_certificate(pem: bytes) -> Certificate:
    """Raises ``ValueError`` for anything but a certificate."""
    return x509.load_pem_x509_certificate(pem)


def make_authority(key: Key, not_before: int, not_after: int) -> Certificate:
    """The certificate that an authority signs for itself."""
    # A name of its own tells two farms apart in error messages and in look-ups by name.
    name = _name(f"tilewright farm {secrets.token_hex(4)}")
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        _builder(name, name, key, new_serial(), not_before, not_after)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )


def make_certificate(
    authority: Certificate,
    authority_key: Key,
    key: Key,
    *,
    uri: str,
    hosts: Iterable[str],
    server: bool,
    serial: int,
    not_before: int,
    not_after: int,
) -> Certificate:
    """A certificate for ``key``. ``server``: it may answer TLS connections, and may not open any."""
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri)]
    names += [_host(h) for h in hosts]
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
    return (
        _builder(_name(uri.rpartition(":")[2]), authority.subject, key, serial, not_before, not_after)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_issuer_identifier(authority), critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def make_revocations(
    authority: Certificate, authority_key: Key, revoked: Mapping[int, float], not_before: int
) -> bytes:
    """The list (PEM) of revoked serial numbers, with the times when they were.

    It is valid for as long as the authority is: a farm that is left alone for a year must not stop because
    nobody signed the same list again.
    """
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.subject)
        .last_update(_date(not_before))
        .next_update(authority.not_valid_after_utc)
        .add_extension(x509.CRLNumber(len(revoked)), critical=False)
        .add_extension(_issuer_identifier(authority), critical=False)
    )
    for serial, when in revoked.items():
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(_date(int(when))).build()
        )
    return builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def read_revocations(pem: bytes, authority: Certificate) -> dict[int, float]:
    """Serial numbers and times of a list. Raises ``ValueError`` unless the authority signed it."""
    crl = x509.load_pem_x509_crl(pem)
    public = authority.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey) or not crl.is_signature_valid(public):
        raise ValueError("the authority did not sign it")
    return {entry.serial_number: entry.revocation_date_utc.timestamp() for entry in crl}


def fields(certificate: Certificate) -> Fields:
    """What a certificate states. Raises ``ValueError`` if its extensions are damaged."""
    uris: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        pass
    else:
        uris = tuple(names.get_values_for_type(x509.UniformResourceIdentifier))
        hosts = tuple(str(n.value) for n in names if isinstance(n, x509.DNSName | x509.IPAddress))
    return Fields(
        uris,
        hosts,
        certificate.serial_number,
        certificate.not_valid_before_utc.timestamp(),
        certificate.not_valid_after_utc.timestamp(),
    )


def signed_by(certificate: Certificate, authority: Certificate) -> bool:
    """Whether the authority issued the certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, serial: int, not_before: int, not_after: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(_date(not_before))
        .not_valid_after(_date(not_after))
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _issuer_identifier(authority: Certificate) -> x509.AuthorityKeyIdentifier:
    subject = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(subject)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _date(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)

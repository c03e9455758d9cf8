"""The format of the farm's certificates, and signatures by their keys. The only module that uses ``cryptography``.

The farm's own authority signs all certificates. The farm trusts no other authority, and its certificates are of no use
elsewhere. A URI in the subject alternative name states the holder: ``tilewright:ROLE:NAME:SERIAL``. By the extended key
usage, TLS itself refuses a runner that poses as a server.
Profile: RFC 5280, as OpenSSL's strict checks (``X509_V_FLAG_X509_STRICT``) demand it.
Importing this raises ``FarmError`` where ``cryptography`` is missing.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tilewright.errors import UsageError
from tilewright.farm.addresses import ip_of
from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.pki.identity import Peer, parse_identity
from tilewright.farm.pki.private_files import explained

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    raise FarmError(
        "the farm's certificates need the package cryptography", "Run: pip install 'tilewright[farm]'"
    ) from None

Key = ec.EllipticCurvePrivateKey
Certificate = x509.Certificate
RevocationList = x509.CertificateRevocationList
new_serial = x509.random_serial_number

_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def server_hosts(hosts: Sequence[str]) -> tuple[str, ...]:
    """The hosts that a server's certificate names: loopback, and ``hosts`` or else this machine's name.

    Raises ``UsageError`` for a text that is neither a host name nor an address.
    """
    names = list(_LOOPBACK)
    for host in hosts or (socket.gethostname(),):
        address = ip_of(host)
        # TLS compares a name with a numeric last label as an address. An interface (%eth0) means nothing elsewhere.
        if (address and "%" not in host) or (_HOST.fullmatch(host) and not host.rpartition(".")[2].isdigit()):
            names.append(str(address or host))
        elif hosts:
            raise UsageError(
                f"{host!r} is neither a host's name nor an address", "Write it as farm.example.org or 192.0.2.7"
            )
    return tuple(dict.fromkeys(names))


def load_key(pem: bytes) -> Key:
    """Loads an unencrypted elliptic curve key from PEM. Raises ``ValueError`` for anything else."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError as e:  # an encrypted key
        raise ValueError(str(e)) from None
    if not isinstance(key, Key):
        raise ValueError("not an elliptic curve key")
    return key


def load_certificate(data: bytes, *, der: bool = False) -> Certificate:
    """Loads a certificate from PEM, or from DER, as messages have it. Raises ``ValueError`` for anything else."""
    try:
        return x509.load_der_x509_certificate(data) if der else x509.load_pem_x509_certificate(data)
    except x509.InvalidVersion as e:  # not a ValueError
        raise ValueError(str(e)) from None


def read_certificate(path: Path) -> Certificate:
    """Reads the certificate in a PEM file, of any authority. Raises ``FarmError``."""
    with explained(path):
        pem = path.read_bytes()
    try:
        return load_certificate(pem)
    except ValueError:
        raise FarmError(f"{path} is not a certificate", "Copy it again from where it was issued") from None


def certificate_der(certificate: Certificate) -> bytes:
    """A certificate as DER, as messages have it."""
    return certificate.public_bytes(serialization.Encoding.DER)


def sign(key: Key, data: bytes) -> bytes:
    """Signs ``data`` by ECDSA with SHA-256."""
    return key.sign(data, ec.ECDSA(hashes.SHA256()))


def verify(certificate: Certificate, data: bytes, signature: bytes) -> bool:
    """Whether the holder of the certificate's key signed ``data``."""
    public = certificate.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey):
        return False
    try:
        public.verify(signature, data, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def signed_by(certificate: Certificate, authority: Certificate) -> bool:
    """Whether the authority issued the certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def describe(certificate: Certificate, whose: tuple[str, str, str] | None = None) -> Peer:
    """Reads a certificate's holder, validity and hosts. ``whose``: user, role and name, where the certificate has none.

    Raises ``Refused`` for a certificate without a role, or with damaged extensions.
    """
    try:
        names = [n for e in certificate.extensions if isinstance(e.value, x509.SubjectAlternativeName) for n in e.value]
    except ValueError as e:
        raise Refused(f"the certificate is damaged: {e}", "Copy it again from where it was issued") from None
    user, role, name = whose or parse_identity(n.value for n in names if isinstance(n, x509.UniformResourceIdentifier))
    hosts = tuple(str(n.value) for n in names if isinstance(n, x509.DNSName | x509.IPAddress))
    begin, end = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
    return Peer(user, role, name, certificate.serial_number, end, begin, hosts)


def make_certificate(says: Peer, by: tuple[Certificate, Key] | None = None) -> tuple[bytes, bytes]:
    """Makes a certificate for a new key (ECDSA on the curve P-256); returns the certificate and the unencrypted key, as
    PEM.

    ``by``: certificate and key of the authority that signs; without it the certificate is a self-signed authority's.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    authority, signer = by or (None, key)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, says.name)])
    usage = x509.KeyUsage(
        digital_signature=authority is not None,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority is None,
        crl_sign=authority is None,
        encipher_only=False,
        decipher_only=False,
    )
    basic = x509.BasicConstraints(ca=authority is None, path_length=0 if authority is None else None)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.subject if authority else subject)
        .public_key(key.public_key())
        .serial_number(says.serial)
        .not_valid_before(datetime.fromtimestamp(says.not_before, UTC))
        .not_valid_after(datetime.fromtimestamp(says.not_after, UTC))
        .add_extension(basic, critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if authority:
        hosts = [x509.IPAddress(a) if (a := ip_of(h)) else x509.DNSName(h) for h in says.hosts]
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(says.user), *hosts])
        # A server also opens connections: to the other servers of its cluster, and its keeper's to itself.
        purposes = [
            ExtendedKeyUsageOID.CLIENT_AUTH,
            *([ExtendedKeyUsageOID.SERVER_AUTH] if says.role == "server" else []),
        ]
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        builder = (
            builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=True)
            .add_extension(names, critical=False)
            .add_extension(issuer, critical=False)
        )
    encoding = serialization.Encoding.PEM
    plain = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return builder.sign(signer, hashes.SHA256()).public_bytes(encoding), plain


def make_revocation_list(
    revoked: Mapping[int, float], number: int, begin: int, end: int, by: tuple[Certificate, Key]
) -> bytes:
    """Makes a list of revoked certificates (a CRL, RFC 5280) as PEM.

    ``revoked``: time of revocation by serial number. ``number``: greater than the number of every earlier list. The
    list counts from ``begin`` to ``end``. Times are seconds since the epoch. ``by``: the authority's certificate and
    key.
    """
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(by[0].subject)
        .last_update(datetime.fromtimestamp(begin, UTC))
        .next_update(datetime.fromtimestamp(end, UTC))
        .add_extension(x509.CRLNumber(number), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by[1].public_key()), critical=False)
    )
    for serial, when in sorted(revoked.items()):
        entry = x509.RevokedCertificateBuilder().serial_number(serial)
        builder = builder.add_revoked_certificate(entry.revocation_date(datetime.fromtimestamp(when, UTC)).build())
    return builder.sign(by[1], hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def load_revocation_list(der: bytes) -> RevocationList:
    """Loads a list of revoked certificates from DER. Raises ``ValueError`` for anything else."""
    try:
        return x509.load_der_x509_crl(der)
    except x509.InvalidVersion as e:  # not a ValueError
        raise ValueError(str(e)) from None


def revocation_list_der(pem: bytes) -> bytes:
    """Converts a list of revoked certificates from PEM, as in files, to DER, as in messages. Raises ``ValueError``."""
    return x509.load_pem_x509_crl(pem).public_bytes(serialization.Encoding.DER)


def revocation_list_pem(der: bytes) -> bytes:
    """Converts a list of revoked certificates from DER, as in messages, to PEM, as in files. Raises ``ValueError``."""
    return x509.load_der_x509_crl(der).public_bytes(serialization.Encoding.PEM)


def list_signed_by(found: RevocationList, authority: Certificate) -> bool:
    """Whether the authority signed the list."""
    public = authority.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey) or found.issuer != authority.subject:
        return False
    try:
        return found.is_signature_valid(public)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False


def describe_list(found: RevocationList) -> tuple[int, float, float, frozenset[int]]:
    """Returns a list's number, its begin and end (seconds since the epoch), and the serial numbers on it.

    Raises ``ValueError`` for a list without a number or an end.
    """
    try:
        number = found.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except x509.ExtensionNotFound:
        raise ValueError("a list without a number") from None
    end = found.next_update_utc
    if end is None:
        raise ValueError("a list without an end")
    return number, found.last_update_utc.timestamp(), end.timestamp(), frozenset(r.serial_number for r in found)

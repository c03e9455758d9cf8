"""Real handshakes over loopback, certificates in messages, and what is wrong with a folder of certificates."""

from __future__ import annotations

import random
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.pki import x509
from tilewright.farm.pki.certificates import CA, CERT, KEY, create_authority, issue, listing, read
from tilewright.farm.pki.identity import ROLES, Peer, parse_identity
from tilewright.farm.pki.tls import Authority, Credentials, client_context, find_credentials

DAY = 86400
CALLERS = ROLES[1:]
REFUSED = (ssl.SSLError, ConnectionError)


@contextmanager
def clock_at(now: float) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: now)
        yield


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A farm with one certificate of every kind of trouble. Tests don't change it."""
    folder = tmp_path_factory.mktemp("tls") / "farm"
    now = time.time()
    with clock_at(now - 500 * DAY):
        create_authority(folder, days=600)
    issue(folder, "past", "runner", days=100, now=now - 400 * DAY)
    issue(folder, "future", "runner", days=100, now=now + 100 * DAY)
    issue(folder, "past-server", "server", days=100, now=now - 400 * DAY)
    return folder


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("foreign") / "farm"
    create_authority(folder)
    return folder


def credentials(home: Path) -> Credentials:
    """A folder's files without the checks that would refuse a bad one before it gets to TLS."""
    return Credentials(home / CA, home / CERT, home / KEY, read(home / CERT))


def server_context(own: Credentials) -> ssl.SSLContext:
    """A server's end as nats-server has it: it wants a certificate of its authority's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    context.load_verify_locations(own.ca)
    context.load_cert_chain(own.cert, own.key)
    return context


def whose(link: ssl.SSLSocket) -> tuple[str, str]:
    return parse_identity(value for kind, value in link.getpeercert()["subjectAltName"] if kind == "URI")[1:]


def meet(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost"
) -> tuple[tuple[str, str] | Exception, tuple[str, str] | Exception]:
    """Whom each end saw, the server's view first, or why it gave up."""
    seen: list[tuple[str, str] | Exception] = []

    def serve(listener: socket.socket) -> None:
        plain, _ = listener.accept()
        plain.settimeout(20)
        try:
            with server.wrap_socket(plain, server_side=True) as link:
                seen.append(whose(link))
                link.sendall(b"welcome")
        except OSError as e:
            seen.append(e)
            plain.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        other: tuple[str, str] | Exception
        try:
            with (
                socket.create_connection(listener.getsockname(), 20) as plain,
                client.wrap_socket(plain, server_hostname=host) as link,
            ):
                other = whose(link)
                # With TLS 1.3 the server's verdict on a certificate comes after the handshake.
                if link.recv(100) != b"welcome":
                    other = ConnectionError("closed")
        except OSError as e:
            other = e
        thread.join(30)
    return seen[0], other


# --------------------------------------------------------------------------- who gets in


@pytest.mark.parametrize("role", ROLES)  # a server too, as a route of a cluster
def test_every_role_meets_the_server(role: str, farm: Path) -> None:
    server, own = find_credentials(farm, "server"), find_credentials(farm, role)
    assert meet(server_context(server), client_context(own)) == ((role, role), ("server", "server"))
    assert (own.owner.role, own.owner.name, str(own.owner)) == (role, role, f"{role} {role}")


def test_the_server_is_known_by_all_its_names(farm: Path) -> None:
    server = server_context(find_credentials(farm, "server"))
    client = client_context(find_credentials(farm, "client"))
    hosts = read(farm / "server" / CERT).hosts
    assert {"localhost", "127.0.0.1", "::1"} <= set(hosts)
    for host in hosts:
        assert meet(server, client, host) == (("client", "client"), ("server", "server"))


@pytest.mark.parametrize("host", ["farm.example.org", "127.0.0.2", "server", "localhost.example.org"])
def test_a_server_of_another_name_is_refused(host: str, farm: Path) -> None:
    _, other = meet(
        server_context(find_credentials(farm, "server")), client_context(find_credentials(farm, "client")), host
    )
    assert isinstance(other, ssl.SSLCertVerificationError)


def test_a_foreign_authority_is_refused_by_both_ends(farm: Path, foreign: Path) -> None:
    ours, theirs = find_credentials(farm, "server"), find_credentials(foreign, "server")
    caller, other = meet(server_context(ours), _trusting(find_credentials(foreign, "client"), farm))
    assert isinstance(caller, ssl.SSLCertVerificationError)
    assert isinstance(other, REFUSED)
    _, other = meet(server_context(theirs), client_context(find_credentials(farm, "client")))
    assert isinstance(other, ssl.SSLCertVerificationError)


@pytest.mark.parametrize(("name", "why"), [("past", "expired"), ("future", "not yet valid")])
def test_certificates_out_of_their_time_are_refused(name: str, why: str, farm: Path) -> None:
    caller, other = meet(server_context(find_credentials(farm, "server")), client_context(credentials(farm / name)))
    assert isinstance(caller, ssl.SSLCertVerificationError)
    assert why in caller.verify_message
    assert isinstance(other, REFUSED)


def test_an_expired_server_is_refused(farm: Path) -> None:
    context = server_context(credentials(farm / "past-server"))
    _, other = meet(context, client_context(find_credentials(farm, "client")))
    assert isinstance(other, ssl.SSLCertVerificationError)
    assert "expired" in other.verify_message


@pytest.mark.parametrize("role", CALLERS)
def test_nobody_else_can_pose_as_the_server(role: str, farm: Path, tmp_path: Path) -> None:
    # Not even when the host's name is right: every name is in these certificates.
    pem, key = (farm / "ca" / CA).read_bytes(), (farm / "ca" / "ca.key").read_bytes()
    home = _certificate(tmp_path, pem, key, f"tilewright:{role}:x", hosts=("localhost",))
    _, other = meet(server_context(home), client_context(find_credentials(farm, "client")))
    assert isinstance(other, ssl.SSLCertVerificationError)
    assert "purpose" in other.verify_message
    _, other = meet(server_context(find_credentials(farm, role)), client_context(find_credentials(farm, "client")))
    assert isinstance(other, ssl.SSLCertVerificationError)


def test_a_runner_cannot_make_certificates(farm: Path, tmp_path: Path) -> None:
    runner = farm / "runner"
    pem, key = (runner / CERT).read_bytes(), (runner / KEY).read_bytes()
    home = _certificate(tmp_path, pem, key, "tilewright:client:mallory")
    with pytest.raises(Refused, match="another authority"):
        Authority(farm / "ca" / CA).peer(der(home.cert))
    home.cert.write_bytes(home.cert.read_bytes() + pem)  # with its issuer, as a chain
    caller, other = meet(server_context(find_credentials(farm, "server")), _trusting(home, farm))
    assert isinstance(caller, ssl.SSLCertVerificationError)
    assert isinstance(other, REFUSED)


def test_nothing_older_than_tls_13_is_spoken(farm: Path) -> None:
    server = server_context(find_credentials(farm, "server"))
    server.minimum_version = server.maximum_version = ssl.TLSVersion.TLSv1_2
    caller, other = meet(server, client_context(find_credentials(farm, "client")))
    assert isinstance(caller, ssl.SSLError)
    assert isinstance(other, REFUSED)


def test_a_context_trusts_the_farms_authority_alone(farm: Path) -> None:
    context = client_context(find_credentials(farm, "client"))
    assert len(context.get_ca_certs()) == 1
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.verify_flags & ssl.VerifyFlags.VERIFY_X509_STRICT
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert context.check_hostname


# --------------------------------------------------------------------------- finding a folder's certificate


def test_credentials_are_found_in_the_farms_folder_and_in_a_certificates_own(farm: Path) -> None:
    assert find_credentials(farm, "client") == find_credentials(farm / "client", "client")
    entry = next(c for c in listing(farm) if c.name == "client")
    assert find_credentials(farm, "client").owner == entry


@pytest.mark.parametrize(
    ("roles", "found"),
    [
        (("reader", "client"), "reader"),
        (("client", "reader"), "client"),
        (("scheduler", "administrator"), "administrator"),
    ],
)
def test_the_first_of_several_roles_is_found(roles: tuple[str, ...], found: str, farm: Path) -> None:
    assert find_credentials(farm, *roles) == find_credentials(farm, found)
    assert find_credentials(farm / found, *roles[::-1]) == find_credentials(farm, found)


def test_of_several_roles_a_later_one_will_do(farm: Path, tmp_path: Path) -> None:
    shutil.copytree(farm / "client", tmp_path / "client")
    assert find_credentials(tmp_path, "reader", "administrator", "client").owner.role == "client"


def test_roles_that_were_looked_for_are_named(farm: Path, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(FarmError, match=f"{folder} has no certificate for reader or client. Name the folder"):
            find_credentials(folder, "reader", "client")
    with pytest.raises(FarmError, match=r"is for runner, but reader or client is needed. Name the folder"):
        find_credentials(farm / "runner", "reader", "client")


def test_a_scheduler_of_0_1_is_told_to_become_a_server(farm: Path, tmp_path: Path) -> None:
    home = tmp_path / "scheduler"
    home.mkdir()
    pem, key = (farm / "ca" / CA).read_bytes(), (farm / "ca" / "ca.key").read_bytes()
    _certificate(home, pem, key, "tilewright:scheduler:scheduler")
    for folder in (tmp_path, home):
        with pytest.raises(FarmError, match="farm issue server --role server --host"):
            find_credentials(folder, "server")
    with pytest.raises(FarmError, match=r"has no certificate for runner. Name the folder"):
        find_credentials(tmp_path, "runner")


def test_a_certificate_of_0_1_has_no_serial_number_in_its_uri(farm: Path, tmp_path: Path) -> None:
    pem, key = (farm / "ca" / CA).read_bytes(), (farm / "ca" / "ca.key").read_bytes()
    old = _certificate(tmp_path, pem, key, "tilewright:runner:gpu-7")
    assert read(old.cert).user == "tilewright:runner:gpu-7"
    found = find_credentials(tmp_path, "runner").owner
    assert (found.role, found.name) == ("runner", "gpu-7")
    assert Authority(old.ca).peer(der(old.cert))[0] == found


@pytest.fixture
def own(farm: Path, tmp_path: Path) -> Path:
    """A runner's folder of the test's own."""
    return Path(shutil.copytree(farm / "runner", tmp_path / "runner"))


@pytest.mark.parametrize("name", [CA, KEY])
def test_a_missing_file_is_named(name: str, own: Path) -> None:
    (own / name).unlink()
    with pytest.raises(FarmError, match=rf"{own / name}: No such file"):
        find_credentials(own, "runner")


def test_a_folder_without_a_certificate_has_none(own: Path) -> None:
    (own / CERT).unlink()
    with pytest.raises(FarmError, match=rf"{own} has no certificate for runner"):
        find_credentials(own, "runner")


def _open_key(own: Path, _farm: Path, _foreign: Path) -> None:
    (own / KEY).chmod(0o644)


def _no_certificate(own: Path, _farm: Path, _foreign: Path) -> None:
    (own / CERT).write_text("-----BEGIN CERTIFICATE-----\n")


def _no_key(own: Path, _farm: Path, _foreign: Path) -> None:
    (own / KEY).write_text("nothing")


def _key_of_another(own: Path, farm: Path, _foreign: Path) -> None:
    shutil.copy(farm / "client" / KEY, own / KEY)


def _encrypted_key(own: Path, _farm: Path, _foreign: Path) -> None:
    from cryptography.hazmat.primitives import serialization as s

    key = x509.load_key((own / KEY).read_bytes())
    (own / KEY).write_bytes(
        key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.BestAvailableEncryption(b"passphrase"))
    )


def _another_authority(own: Path, _farm: Path, foreign: Path) -> None:
    shutil.copy(foreign / "ca" / CA, own / CA)


def _a_clients(own: Path, farm: Path, _foreign: Path) -> None:
    for name in (CERT, KEY):
        shutil.copy(farm / "client" / name, own / name)


def _expired(own: Path, farm: Path, _foreign: Path) -> None:
    for name in (CERT, KEY):
        shutil.copy(farm / "past" / name, own / name)


def _too_early(own: Path, farm: Path, _foreign: Path) -> None:
    for name in (CERT, KEY):
        shutil.copy(farm / "future" / name, own / name)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_open_key, r"open to other users. Run `chmod 600"),
        (_no_certificate, "is not a certificate"),
        (_no_key, "is not the key of"),
        (_key_of_another, "is not the key of .*mismatch"),
        (_encrypted_key, "is not the key of"),
        (_another_authority, "of another authority.* whole folder"),
        (_a_clients, "is for client, but runner is needed"),
        (_expired, "expired on .* --renew"),
        (_too_early, "is not valid before .* clock"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said(
    spoil: Callable[[Path, Path, Path], None], message: str, own: Path, farm: Path, foreign: Path
) -> None:
    find_credentials(own, "runner")
    spoil(own, farm, foreign)
    with pytest.raises(FarmError, match=message):
        find_credentials(own, "runner")


def test_the_time_decides(own: Path) -> None:
    end = find_credentials(own, "runner").owner.not_after
    with clock_at(end - 1):
        find_credentials(own, "runner")
    with clock_at(end + 1), pytest.raises(FarmError, match="expired"):
        find_credentials(own, "runner")


# --------------------------------------------------------------------------- certificates in messages


def der(path: Path) -> bytes:
    return x509.certificate_der(x509.read_certificate(path))


def test_an_authority_says_whose_a_certificate_is(farm: Path) -> None:
    authority = Authority(farm / "ca" / CA)
    for role in ROLES:
        peer, certificate = authority.peer(der(farm / role / CERT))
        assert peer == find_credentials(farm, role).owner
        assert certificate == x509.read_certificate(farm / role / CERT)


@pytest.mark.parametrize("name", ["past", "future"])
def test_an_authority_gives_a_day_for_the_clock(name: str, farm: Path) -> None:
    authority, own, data = Authority(farm / "ca" / CA), read(farm / name / CERT), der(farm / name / CERT)
    begin, end = own.not_before - DAY, own.not_after + DAY
    for now in (begin, own.not_before, own.not_after, end):
        with clock_at(now):
            assert authority.peer(data)[0].name == name
    # A certificate that is known by now is held to its time all the same.
    with clock_at(begin - 1), pytest.raises(Refused, match=rf"runner {name} is not valid before .* clocks"):
        authority.peer(data)
    with clock_at(end + 1), pytest.raises(Refused, match=rf"runner {name} expired on .* --renew"):
        authority.peer(data)
    with pytest.raises(Refused, match="expired" if name == "past" else "not valid before"):
        authority.peer(data)


def test_an_authority_refuses_another_ones(farm: Path, foreign: Path) -> None:
    with pytest.raises(Refused, match=r"another authority. Use a certificate of this farm's"):
        Authority(farm / "ca" / CA).peer(der(foreign / "runner" / CERT))


def test_an_authoritys_own_certificate_is_nobodys(farm: Path) -> None:
    with pytest.raises(Refused, match="no role"):
        Authority(farm / "ca" / CA).peer(der(farm / "ca" / CA))


@pytest.mark.parametrize("uri", ["https://example.org/runner", "tilewright:root:x", "tilewright:scheduler:x"])
def test_a_certificate_without_a_role_is_refused(uri: str, farm: Path, tmp_path: Path) -> None:
    pem, key = (farm / "ca" / CA).read_bytes(), (farm / "ca" / "ca.key").read_bytes()
    home = _certificate(tmp_path, pem, key, uri)
    with pytest.raises(Refused):
        Authority(farm / "ca" / CA).peer(der(home.cert))


@pytest.mark.parametrize("data", [b"", b"x", b"\x30\x80", b"\x30" * 5000, bytes(700)])
def test_what_is_no_certificate_is_refused(data: bytes, farm: Path) -> None:
    with pytest.raises(Refused, match="certificate cannot be read"):
        Authority(farm / "ca" / CA).peer(data)


@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_a_certificate_that_was_tampered_with_is_refused(farm: Path) -> None:
    authority, good, rng = Authority(farm / "ca" / CA), der(farm / "runner" / CERT), random.Random(1)
    authority.peer(good)
    for place in range(len(good)):
        data = bytearray(good)
        data[place] ^= rng.randrange(1, 256)
        with pytest.raises(Refused):
            authority.peer(bytes(data))
        with pytest.raises(Refused):
            authority.peer(good[:place])


def test_a_known_certificate_is_examined_once_and_the_memory_is_bounded(
    farm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.farm.pki.tls._REMEMBERED", 2)
    examined: list[int] = []
    signed_by = x509.signed_by

    def count(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
        examined.append(certificate.serial_number)
        return signed_by(certificate, authority)

    monkeypatch.setattr(x509, "signed_by", count)
    authority = Authority(farm / "ca" / CA)
    first, second, third = (der(farm / role / CERT) for role in ("runner", "client", "builder"))
    for data in (first, first, second, first, third, first):
        authority.peer(data)
    assert len(examined) == 3
    authority.peer(second)  # the one that was forgotten
    assert len(examined) == 4


def test_an_authority_needs_a_certificate(tmp_path: Path) -> None:
    with pytest.raises(FarmError, match="No such file"):
        Authority(tmp_path / CA)
    (tmp_path / CA).write_text("nothing")
    with pytest.raises(FarmError, match="is not a certificate"):
        Authority(tmp_path / CA)


# --------------------------------------------------------------------------- signatures


def test_a_signature_is_of_one_key_and_one_text(farm: Path) -> None:
    key = x509.load_key((farm / "runner" / KEY).read_bytes())
    runner, client = x509.read_certificate(farm / "runner" / CERT), x509.read_certificate(farm / "client" / CERT)
    for data in (b"", b"job", bytes(100_000)):
        signature = x509.sign(key, data)
        assert x509.verify(runner, data, signature)
        assert not x509.verify(client, data, signature)
        assert not x509.verify(runner, data + b"x", signature)


def test_a_bad_signature_is_false_and_no_error(farm: Path) -> None:
    key, runner = x509.load_key((farm / "runner" / KEY).read_bytes()), x509.read_certificate(farm / "runner" / CERT)
    good = x509.sign(key, b"job")
    for bad in (b"", b"x", b"\x30\x00", b"\x30" * 500, bytes(72), good[:-1], good + b"x", bytes(len(good))):
        assert not x509.verify(runner, b"job", bad)
    for place in range(len(good)):
        assert not x509.verify(runner, b"job", good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])


def test_certificates_travel_whole(farm: Path) -> None:
    certificate = x509.read_certificate(farm / "runner" / CERT)
    assert x509.load_certificate(x509.certificate_der(certificate), der=True) == certificate


# --------------------------------------------------------------------------- helpers


def _trusting(own: Credentials, farm: Path) -> ssl.SSLContext:
    """A client that would accept the farm's server, with a certificate of its own making."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(farm / "ca" / CA)
    context.load_cert_chain(own.cert, own.key)
    return context


def _certificate(home: Path, issuer: bytes, issuer_key: bytes, uri: str, hosts: tuple[str, ...] = ()) -> Credentials:
    """A certificate that ``issue`` would not make."""
    now = int(time.time())
    says = Peer(uri, "client", "x", x509.new_serial(), now + 3600, now - 60, hosts)
    made, key = x509.make_certificate(says, (x509.load_certificate(issuer), x509.load_key(issuer_key)))
    (home / CA).write_bytes(issuer)
    (home / CERT).write_bytes(made)
    (home / KEY).write_bytes(key)
    (home / KEY).chmod(0o600)
    return Credentials(home / CA, home / CERT, home / KEY, says)

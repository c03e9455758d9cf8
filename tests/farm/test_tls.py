"""Real handshakes over loopback: who gets in, who doesn't, and what is wrong with a folder of certificates."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.farm import x509
from tilewright.farm.certificates import CA, CERT, CRL, KEY, create_authority, issue, listing, read, revoke
from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.tls import (
    Credentials,
    Peer,
    Revocations,
    check_peer,
    client_context,
    find_credentials,
    peer_of,
    server_context,
)

DAY = 86400
CALLERS = ("runner", "builder", "client")
REFUSED = (ssl.SSLError, ConnectionError)


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A farm with one certificate of every kind of trouble. Tests don't change it."""
    folder = tmp_path_factory.mktemp("tls") / "farm"
    now = time.time()
    create_authority(folder, now=now - 500 * DAY, days=600)
    issue(folder, "past", "runner", days=100, now=now - 400 * DAY)
    issue(folder, "future", "runner", days=100, now=now + 100 * DAY)
    issue(folder, "stolen", "runner")
    issue(folder, "past-scheduler", "scheduler", days=100, now=now - 400 * DAY)
    revoke(folder, "stolen")
    return folder


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("foreign") / "farm"
    create_authority(folder)
    return folder


def credentials(home: Path) -> Credentials:
    """A folder's files without the checks that would refuse a bad one before it gets to TLS."""
    own = read(home / CERT)
    return Credentials(
        home / CA, home / CERT, home / KEY, home / CRL, Peer(own.role, own.name, own.serial, own.not_after)
    )


def meet(
    server: ssl.SSLContext, client: ssl.SSLContext | None, host: str = "localhost", said: bytes = b""
) -> tuple[Peer | Exception, Peer | Exception]:
    """Whom each end saw, the scheduler's view first, or why it gave up. ``said``: what the client says in the clear."""
    seen: list[Peer | Exception] = []

    def serve(listener: socket.socket) -> None:
        plain, _ = listener.accept()
        plain.settimeout(20)
        try:
            with server.wrap_socket(plain, server_side=True) as link:
                seen.append(peer_of(link))
                link.sendall(b"welcome")
        except (OSError, Refused) as e:
            seen.append(e)
            plain.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        other: Peer | Exception
        try:
            with socket.create_connection(listener.getsockname(), 20) as plain:
                plain.sendall(said)
                if client is None:
                    plain.shutdown(socket.SHUT_WR)
                    while plain.recv(100):
                        pass
                    other = ConnectionError("in the clear")
                else:
                    with client.wrap_socket(plain, server_hostname=host) as link:
                        other = peer_of(link)
                        # With TLS 1.3 the server's verdict on a certificate comes after the handshake.
                        if link.recv(100) != b"welcome":
                            other = ConnectionError("closed")
        except (OSError, Refused) as e:
            other = e
        thread.join(30)
    return seen[0], other


# --------------------------------------------------------------------------- who gets in


@pytest.mark.parametrize("role", CALLERS)
def test_every_role_meets_the_scheduler(role: str, farm: Path) -> None:
    scheduler, own = find_credentials(farm, "scheduler"), find_credentials(farm, role)
    caller, host = meet(server_context(scheduler), client_context(own))
    assert isinstance(caller, Peer)
    assert (caller, host) == (own.owner, scheduler.owner)
    assert (caller.role, caller.name, str(caller)) == (role, role, f"{role} {role}")
    check_peer(caller, CALLERS, Revocations(scheduler.crl, scheduler.ca))


def test_the_scheduler_is_known_by_all_its_names(farm: Path) -> None:
    server, client = (
        server_context(find_credentials(farm, "scheduler")),
        client_context(find_credentials(farm, "client")),
    )
    hosts = read(farm / "scheduler" / CERT).hosts
    assert {"localhost", "127.0.0.1", "::1"} <= set(hosts)
    for host in hosts:
        assert [type(p) for p in meet(server, client, host)] == [Peer, Peer]


@pytest.mark.parametrize("host", ["farm.example.org", "127.0.0.2", "scheduler", "localhost.example.org"])
def test_a_scheduler_of_another_name_is_refused(host: str, farm: Path) -> None:
    _, other = meet(
        server_context(find_credentials(farm, "scheduler")), client_context(find_credentials(farm, "client")), host
    )
    assert isinstance(other, ssl.SSLCertVerificationError)


def test_a_foreign_authority_is_refused_by_both_ends(farm: Path, foreign: Path) -> None:
    ours, theirs = find_credentials(farm, "scheduler"), find_credentials(foreign, "scheduler")
    caller, other = meet(server_context(ours), _trusting(find_credentials(foreign, "client"), farm))
    assert isinstance(caller, ssl.SSLCertVerificationError)
    assert isinstance(other, REFUSED)
    _, other = meet(server_context(theirs), client_context(find_credentials(farm, "client")))
    assert isinstance(other, ssl.SSLCertVerificationError)


@pytest.mark.parametrize(("name", "why"), [("past", "expired"), ("future", "not yet valid")])
def test_certificates_out_of_their_time_are_refused(name: str, why: str, farm: Path) -> None:
    caller, other = meet(server_context(find_credentials(farm, "scheduler")), client_context(credentials(farm / name)))
    assert isinstance(caller, ssl.SSLCertVerificationError)
    assert why in caller.verify_message
    assert isinstance(other, REFUSED)


def test_an_expired_scheduler_is_refused(farm: Path) -> None:
    context = server_context(credentials(farm / "past-scheduler"))
    _, other = meet(context, client_context(find_credentials(farm, "client")))
    assert isinstance(other, ssl.SSLCertVerificationError)
    assert "expired" in other.verify_message


def test_a_revoked_certificate_is_refused(farm: Path) -> None:
    scheduler = find_credentials(farm, "scheduler")
    caller, _ = meet(server_context(scheduler), client_context(credentials(farm / "stolen")))
    assert isinstance(caller, Peer)  # to TLS it is good: the list is ours to read
    with pytest.raises(Refused, match="the certificate of runner stolen is revoked"):
        check_peer(caller, CALLERS, Revocations(scheduler.crl, scheduler.ca))


def test_who_shows_no_certificate_is_refused(farm: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(farm / "client" / CA)
    caller, other = meet(server_context(find_credentials(farm, "scheduler")), context)
    assert isinstance(caller, ssl.SSLError)
    assert caller.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
    assert isinstance(other, REFUSED)


@pytest.mark.parametrize("role", CALLERS)
def test_nobody_else_can_pose_as_the_scheduler(role: str, farm: Path, tmp_path: Path) -> None:
    # Not even when the host's name is right: every name is in these certificates.
    pem, key = (farm / "ca" / CA).read_bytes(), (farm / "ca" / "ca.key").read_bytes()
    home = _certificate(tmp_path, pem, key, f"tilewright:{role}:x", server=False, hosts=("localhost",))
    _, other = meet(server_context(home), client_context(find_credentials(farm, "client")))
    assert isinstance(other, ssl.SSLCertVerificationError)
    assert "purpose" in other.verify_message
    _, other = meet(server_context(find_credentials(farm, role)), client_context(find_credentials(farm, "client")))
    assert isinstance(other, ssl.SSLCertVerificationError)


def test_a_scheduler_cannot_call_another_one(farm: Path) -> None:
    scheduler = find_credentials(farm, "scheduler")
    caller, other = meet(server_context(scheduler), client_context(scheduler))
    assert isinstance(caller, ssl.SSLCertVerificationError)
    assert "purpose" in caller.verify_message
    assert isinstance(other, REFUSED)


def test_a_runner_cannot_make_certificates(farm: Path, tmp_path: Path) -> None:
    runner = farm / "runner"
    pem, key = (runner / CERT).read_bytes(), (runner / KEY).read_bytes()
    home = _certificate(tmp_path, pem, key, "tilewright:client:mallory", server=False)
    home.cert.write_bytes(home.cert.read_bytes() + pem)  # with its issuer, as a chain
    caller, other = meet(server_context(find_credentials(farm, "scheduler")), _trusting(home, farm))
    assert isinstance(caller, ssl.SSLCertVerificationError)
    assert isinstance(other, REFUSED)


def test_a_certificate_without_a_role_is_refused(farm: Path, tmp_path: Path) -> None:
    pem, key = (farm / "ca" / CA).read_bytes(), (farm / "ca" / "ca.key").read_bytes()
    home = _certificate(tmp_path, pem, key, "https://example.org/runner", server=False)
    caller, _ = meet(server_context(find_credentials(farm, "scheduler")), client_context(home))
    assert isinstance(caller, Refused)


def test_nothing_older_than_tls_13_is_spoken(farm: Path) -> None:
    scheduler, own = find_credentials(farm, "scheduler"), find_credentials(farm, "client")
    old = client_context(own)
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2
    caller, other = meet(server_context(scheduler), old)
    assert isinstance(caller, ssl.SSLError)
    assert isinstance(other, REFUSED)
    old_server = server_context(scheduler)
    old_server.minimum_version = old_server.maximum_version = ssl.TLSVersion.TLSv1_2
    _, other = meet(old_server, client_context(own))
    assert isinstance(other, REFUSED)


@pytest.mark.parametrize("said", [b"GET / HTTP/1.0\r\n\r\n", b"", b"\x00" * 64])
def test_what_is_no_tls_is_refused(said: bytes, farm: Path) -> None:
    caller, _ = meet(server_context(find_credentials(farm, "scheduler")), None, said=said)
    assert isinstance(caller, OSError)


def test_no_session_outlives_a_connection(farm: Path) -> None:
    server, own = server_context(find_credentials(farm, "scheduler")), client_context(find_credentials(farm, "client"))
    assert server.num_tickets == 0
    for _ in range(2):
        assert isinstance(meet(server, own)[0], Peer)
    assert server.session_stats()["hits"] == 0


def test_a_context_trusts_the_farms_authority_alone(farm: Path) -> None:
    for context in (
        server_context(find_credentials(farm, "scheduler")),
        client_context(find_credentials(farm, "client")),
    ):
        assert len(context.get_ca_certs()) == 1
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert context.check_hostname


def test_with_asyncio_too(farm: Path) -> None:
    async def call() -> tuple[Peer, Peer]:
        seen: asyncio.Queue[Peer] = asyncio.Queue()

        async def accept(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await seen.put(peer_of(writer.get_extra_info("ssl_object")))
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

        context = server_context(find_credentials(farm, "scheduler"))
        server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
        async with server:
            port = server.sockets[0].getsockname()[1]
            own = client_context(find_credentials(farm, "builder"))
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=own)
            other = peer_of(writer.get_extra_info("peercert"))
            caller = await asyncio.wait_for(seen.get(), 20)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            return caller, other

    caller, other = asyncio.run(call())
    assert (caller.role, other.role) == ("builder", "scheduler")


# --------------------------------------------------------------------------- finding a folder's certificate


def test_credentials_are_found_in_the_farms_folder_and_in_a_certificates_own(farm: Path) -> None:
    assert find_credentials(farm, "client") == find_credentials(farm / "client", "client")
    entry = next(c for c in listing(farm) if c.name == "client")
    assert find_credentials(farm, "client").owner == Peer("client", "client", entry.serial, entry.not_after)


@pytest.fixture
def own(farm: Path, tmp_path: Path) -> Path:
    """A runner's folder of the test's own."""
    return Path(shutil.copytree(farm / "runner", tmp_path / "runner"))


@pytest.mark.parametrize("name", [CA, CERT, KEY])
def test_a_missing_file_is_named(name: str, own: Path) -> None:
    (own / name).unlink()
    with pytest.raises(FarmError, match=rf"there is no .*{name}"):
        find_credentials(own, "runner")


def test_a_missing_list_is_none(own: Path) -> None:
    (own / CRL).unlink()
    assert not find_credentials(own, "runner").crl.exists()


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
        (_no_certificate, "is no certificate"),
        (_no_key, "is not the key of"),
        (_key_of_another, "is not the key of .*mismatch"),
        (_encrypted_key, "is not the key of"),
        (_another_authority, "different authorities"),
        (_a_clients, "is a client's, and a runner's is needed"),
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
    find_credentials(own, "runner", now=end - 1)
    with pytest.raises(FarmError, match="expired"):
        find_credentials(own, "runner", now=end + 1)


# --------------------------------------------------------------------------- peers


def test_a_peer_needs_a_wanted_role_and_a_certificate_that_lasts() -> None:
    peer = Peer("runner", "gpu-7", 5, 1000.0)
    check_peer(peer, ("runner", "client"), None, 1000.0)
    with pytest.raises(Refused, match="runner gpu-7 has the wrong role: a builder or client is needed"):
        check_peer(peer, {"client", "builder"}, None, 0.0)
    with pytest.raises(Refused, match="expired on 1970-01-01 00:16 UTC"):
        check_peer(peer, ("runner",), None, 1001.0)
    with pytest.raises(Refused, match="expired"):
        check_peer(peer, ("runner",))
    check_peer(replace(peer, not_after=time.time() + 60), ("runner",))


@pytest.mark.parametrize(
    "certificate", [None, {}, {"subject": ()}, {"subjectAltName": (("DNS", "tilewright:runner:x"),)}]
)
def test_no_peer_without_a_role(certificate: dict[str, object] | None) -> None:
    with pytest.raises(Refused):
        peer_of(certificate)


# --------------------------------------------------------------------------- revocations


def test_the_list_is_read_again_when_it_changes(foreign: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(foreign, tmp_path / "farm"))
    runner, client = read(home / "runner" / CERT).serial, read(home / "client" / CERT).serial
    revocations = Revocations(home / "scheduler" / CRL, home / "scheduler" / CA)
    assert not revocations.revoked(runner)
    revoke(home, "runner")
    assert revocations.revoked(runner)
    assert not revocations.revoked(client)
    revoke(home, "client")
    assert revocations.revoked(client)
    (home / "scheduler" / CRL).unlink()
    assert revocations.revoked(runner)  # what was known stays known


def test_without_a_list_nobody_is_revoked(foreign: Path, tmp_path: Path) -> None:
    assert not Revocations(tmp_path / CRL, foreign / "ca" / CA).revoked(5)


def test_a_list_that_is_not_the_authoritys_lets_nobody_in(farm: Path, foreign: Path, tmp_path: Path) -> None:
    crl = tmp_path / CRL
    revocations = Revocations(crl, farm / "ca" / CA)
    shutil.copy(farm / "ca" / CRL, crl)
    stolen = read(farm / "stolen" / CERT).serial
    assert revocations.revoked(stolen)
    for data in ((foreign / "ca" / CRL).read_bytes(), b"", (farm / "ca" / CRL).read_bytes()[:-40]):
        crl.write_bytes(data)
        for _ in range(2):  # it stays refused, not only at the first look
            with pytest.raises(FarmError, match="can't be trusted"):
                revocations.revoked(5)
    shutil.copy(farm / "ca" / CRL, crl)
    os.utime(crl)
    assert revocations.revoked(stolen)


# --------------------------------------------------------------------------- helpers


def _trusting(own: Credentials, farm: Path) -> ssl.SSLContext:
    """A client that would accept the farm's scheduler, with a certificate of its own making."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(farm / "ca" / CA)
    context.load_cert_chain(own.cert, own.key)
    return context


def _certificate(
    home: Path, issuer: bytes, issuer_key: bytes, uri: str, *, server: bool, hosts: tuple[str, ...] = ()
) -> Credentials:
    """A certificate that ``issue`` would not make."""
    key, now = x509.new_key(), int(time.time())
    authority = x509.load_certificate(issuer)
    made = x509.make_certificate(
        authority,
        x509.load_key(issuer_key),
        key,
        uri=uri,
        hosts=hosts,
        server=server,
        serial=x509.new_serial(),
        not_before=now - 60,
        not_after=now + 3600,
    )
    (home / CA).write_bytes(issuer)
    (home / CERT).write_bytes(x509.certificate_pem(made))
    (home / KEY).write_bytes(x509.key_pem(key))
    return Credentials(home / CA, home / CERT, home / KEY, home / CRL, Peer("client", "x", 1, now + 3600.0))

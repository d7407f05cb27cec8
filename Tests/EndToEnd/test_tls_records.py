"""Records that arrive in pieces, damaged, twice or not at all, and connections that end in each way there is: every version and cipher,
with curl and `openssl s_client` as clients. A relay between client and server does the damage, since it needs no keys."""

import contextlib
import json
import os
import selectors
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest

from admin import Admin
from programs import needs
from server import Server, clean_environment
from test_storms import UPGRADE, read_until, text_frame
from test_tls import DEADLINE, FIXTURES, client_context, copy, do_handshake, open_socket, pair, split_records
from waiting import wait_for

pytestmark = needs("openssl", "curl")

# Host name (which chooses the certificate), version, cipher.
SUITES = [("localhost", "1.3", f"TLS_{name}") for name in ("AES_128_GCM_SHA256", "AES_256_GCM_SHA384", "CHACHA20_POLY1305_SHA256")]
SUITES += [
    (host, "1.2", f"ECDHE-{kind}-{name}")
    for host, kind in (("localhost", "ECDSA"), ("rsa.example.com", "RSA"))
    for name in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305")]
HEADER_BYTES, TAG_BYTES = 5, 16
CHANGE_OF_CIPHERS, ALERT, APPLICATION_DATA = 20, 21, 23
# The number of the client's record that holds the request. change_cipher_spec is not counted.
REQUEST_NUMBER = {"1.2": 4, "1.3": 3}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    copy("localhost", folder / "live/localhost")
    copy("rsa", folder / "live/rsa.example.com")
    server = Server(folder, memory=True, arguments=["--tls-dir", folder / "live"]).start()
    yield server
    alive = server.alive
    server.kill()
    assert alive, server.stderr()


@pytest.fixture(params=SUITES, ids=lambda suite: f"{suite[1]} {suite[2]}")
def suite(request):
    return request.param


# What is done with the record of the request. A result says that nothing comes after it: "FIN" or "RST".


def whole(target, record):
    target.sendall(record)


def byte_by_byte(target, record):
    target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in record:
        target.sendall(bytes([byte]))


def followed_by_fin(target, record):
    target.sendall(record)
    return "FIN"


def changed_bit(target, record):
    target.sendall(record[:HEADER_BYTES + 12] + bytes([record[HEADER_BYTES + 12] ^ 1]) + record[HEADER_BYTES + 13:])


def changed_tag(target, record):
    target.sendall(record[:-1] + bytes([record[-1] ^ 0x80]))


def twice(target, record):
    target.sendall(record + record)


def too_long(target, record):
    target.sendall(record[:3] + (0x4800 + 1).to_bytes(2, "big") + record[HEADER_BYTES:])


def shorter_than_a_tag(target, record):
    target.sendall(record[:3] + (TAG_BYTES - 1).to_bytes(2, "big") + record[HEADER_BYTES:HEADER_BYTES + TAG_BYTES - 1])


def of_no_type(target, record):
    target.sendall(b"\x18" + record[1:])


def preceded_by_a_plain_alert(target, record):
    target.sendall(b"\x15\x03\x03\x00\x02\x01\x00" + record)


def cut_by_fin(target, record):
    target.sendall(record[:len(record) // 2])
    return "FIN"


def cut_in_the_header_by_fin(target, record):
    target.sendall(record[:3])
    return "FIN"


def cut_by_reset(target, record):
    target.sendall(record[:-1])
    return "RST"


# Whether the write is made, and the alert that the client receives: None where it receives the response, "" where the connection ends.
DAMAGES = {
    whole: (True, None), byte_by_byte: (True, None), followed_by_fin: (True, None),
    changed_bit: (False, "bad record mac"), changed_tag: (False, "bad record mac"),
    too_long: (False, "record overflow"), shorter_than_a_tag: (False, "bad record mac"),
    of_no_type: (False, "unexpected message"), preceded_by_a_plain_alert: (False, ("unexpected message", "bad record mac")),
    cut_by_fin: (False, ""), cut_in_the_header_by_fin: (False, ""), cut_by_reset: (False, ""),
}


class Relay:
    """Passes one connection on, record by record, and one of the client's records as `damage` does."""

    def __init__(self, port, damage, number):
        self.port, self.damage, self.number = port, damage, number
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(DEADLINE)
        self.was_damaged = False
        self.error = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self.listener.getsockname()[1]

    def __exit__(self, *_):
        self.thread.join(DEADLINE)
        self.listener.close()
        assert not self.thread.is_alive() and self.error is None, self.error
        assert self.was_damaged, "no such record was sent"

    def run(self):
        try:
            client, _ = self.listener.accept()
            with client, socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE) as target:
                self.pass_on(client, target)
        except Exception as error:  # noqa: BLE001 (shown in the thread of the test)
            self.error = error

    def pass_on(self, client, target):
        waiting, seen, is_open = b"", 0, True
        deadline = time.monotonic() + DEADLINE
        with selectors.DefaultSelector() as selector:
            for one in (client, target):
                selector.register(one, selectors.EVENT_READ)
            while True:
                assert time.monotonic() < deadline, "neither side has ended"
                for key, _ in selector.select(DEADLINE):
                    try:
                        data = key.fileobj.recv(1 << 16)
                    except ConnectionResetError:
                        data = b""
                    if key.fileobj is target:
                        if not data:
                            return
                        with contextlib.suppress(OSError):  # the client may be gone
                            client.sendall(data)
                        continue
                    if not data:
                        selector.unregister(client)
                        if is_open:
                            with contextlib.suppress(OSError):
                                target.shutdown(socket.SHUT_WR)
                        continue
                    waiting += data
                    while is_open and len(waiting) >= HEADER_BYTES:
                        size = HEADER_BYTES + int.from_bytes(waiting[3:5], "big")
                        if len(waiting) < size:
                            break
                        record, waiting = waiting[:size], waiting[size:]
                        seen += record[0] != CHANGE_OF_CIPHERS
                        if record[0] == CHANGE_OF_CIPHERS or seen != self.number:
                            with contextlib.suppress(OSError):  # the server may have ended the connection
                                target.sendall(record)
                            continue
                        self.was_damaged = True
                        end = self.damage(target, record)
                        if end == "RST":
                            target.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                            return
                        if end == "FIN":
                            target.shutdown(socket.SHUT_WR)
                            is_open = False


def curl(port, suite, path, *arguments):
    host, version, cipher = suite
    return subprocess.run(
        ["curl", "-q", "-sS", "-m", str(DEADLINE), "--noproxy", "*", "--cacert", FIXTURES / "issuer.pem",
         "--resolve", f"{host}:{port}:127.0.0.1", f"--tlsv{version}", "--tls-max", version,
         *(["--tls13-ciphers", cipher] if version == "1.3" else ["--ciphers", cipher]),
         "-H", "Host: localhost", *arguments, f"https://{host}:{port}{path}"],
        capture_output=True, text=True, timeout=DEADLINE + 5, env=clean_environment())


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__.replace("_", " "))
def test_the_record_of_a_request(server, suite, damage):
    """A write is made if its record came whole, and otherwise not; then the client receives an alert that says why."""
    is_made, alert = DAMAGES[damage]
    path = f"/{suite[2]}/{damage.__name__}.json"
    with Relay(server.port, damage, REQUEST_NUMBER[suite[1]]) as port:
        done = curl(port, suite, path, "-X", "PUT", "-d", "1")
    if alert is None:
        assert done.returncode == 0 and done.stdout == "1", done
    else:
        assert done.returncode != 0 and done.stdout == "", done
        alerts = alert if isinstance(alert, tuple) else (alert,)
        assert any(one in done.stderr for one in alerts), done
        assert alert or "alert" not in done.stderr
    assert curl(server.port, suite, path).stdout == ("1" if is_made else "null")


@pytest.mark.parametrize("damage", [byte_by_byte, changed_tag, too_long, of_no_type, cut_by_fin, cut_by_reset, twice],
                         ids=lambda damage: damage.__name__.replace("_", " "))
def test_each_record_of_a_handshake(server, suite, damage):
    """Without every byte of the handshake there is no connection, and no request."""
    path = f"/{suite[2]}/handshake/{damage.__name__}.json"
    is_made = damage is byte_by_byte
    for number in range(1, REQUEST_NUMBER[suite[1]]):
        with Relay(server.port, damage, number) as port:
            done = curl(port, suite, path, "-X", "POST", "-d", "1")
        assert (done.returncode == 0) == is_made, (number, done)
    count = len(json.loads(curl(server.port, suite, path).stdout) or ())
    assert count == (REQUEST_NUMBER[suite[1]] - 1 if is_made else 0)


def test_a_record_that_comes_twice(server, suite):
    """The first is a request, and served; the second is none, and ends the connection with an alert."""
    path = f"/{suite[2]}/twice.json"
    with Relay(server.port, twice, REQUEST_NUMBER[suite[1]]) as port:
        done = curl(port, suite, path, "-X", "POST", "-d", "1")
    # The response may come before the alert, or the alert alone.
    assert done.returncode == 0 or "bad record mac" in done.stderr, done
    assert len(json.loads(curl(server.port, suite, path).stdout)) == 1
    # An event stream would have no end.
    with Relay(server.port, twice, REQUEST_NUMBER[suite[1]]) as port:
        done = curl(port, suite, path, "-N", "-H", "Accept: text/event-stream")
    assert done.returncode != 0 and "bad record mac" in done.stderr, done


def test_s_client(server, suite):
    """The other way to ask by hand: what was agreed, the chain of certificates, and a response."""
    host, version, cipher = suite
    path = f"/{cipher}/s_client.json"
    request = f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nConnection: close\r\n\r\n7"
    process = subprocess.Popen(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-servername", host, "-verify_hostname", host,
         "-CAfile", FIXTURES / "issuer.pem", "-verify_return_error", "-ign_eof", f"-tls{version.replace('.', '_')}",
         *(["-ciphersuites", cipher] if version == "1.3" else ["-cipher", cipher])],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output, _ = process.communicate(request, timeout=DEADLINE)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, output
    assert f"New, TLSv{version}, Cipher is {cipher}\n" in output
    assert "Verify return code: 0 (ok)\n" in output and f"Verified peername: {host}\n" in output
    assert "HTTP/1.1 200 OK" in output and output.rstrip().endswith(("7", "closed"))
    assert curl(server.port, suite, path).stdout == "7"


def test_early_data_is_not_taken(server, tmp_path):
    """A ticket allows none: `openssl s_client` says that it may not send any."""
    session, early = tmp_path / "session", tmp_path / "early"
    early.write_bytes(b"PUT /early.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n7")
    request = "GET /.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-servername", "localhost", "-tls1_3",
               "-CAfile", FIXTURES / "issuer.pem", "-ign_eof"]
    for further, expected in (
            (["-sess_out", session], "Max Early Data: 0\n"), (["-sess_in", session, "-early_data", early], "Early data was not sent\n")):
        done = subprocess.run([*command, *further], input=request, capture_output=True, text=True, timeout=DEADLINE)
        assert expected in done.stdout and "HTTP/1.1 200 OK" in done.stdout, done.stdout + done.stderr
    assert "Reused, TLSv1.3" in done.stdout
    assert curl(server.port, SUITES[0], "/early.json").stdout == "null"


# The ends of a connection


def after_close_notify(secure, plain):
    """TLS is ended in one direction; TCP stays."""
    secure.settimeout(0)
    with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLSyscallError):
        secure.unwrap()


def after_fin(secure, plain):
    plain.shutdown(socket.SHUT_WR)


def after_reset(secure, plain):
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(secure.detach())
    plain.close()


def after_half_a_record(secure, plain):
    plain.sendall(b"\x17\x03\x03\x01\x00" + bytes(100))
    plain.shutdown(socket.SHUT_WR)


def after_a_bad_record(secure, plain):
    """The connection stays open: the session ends without waiting for its client."""
    plain.sendall(b"\x17\x03\x03\x00\x40" + bytes(64))


ENDS = [after_close_notify, after_fin, after_reset, after_half_a_record, after_a_bad_record]


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__.replace("_", " "))
def test_a_client_is_gone(server, version, end):
    """Its session ends, and what it has registered for that is written, also where it closes in one direction only."""
    path = f"/gone/{version}/{end.__name__}"
    context = client_context(maximum_version=ssl.TLSVersion[version])
    with open_socket(server.port, context) as secure, open_socket(server.port) as watcher:
        assert secure.version() == version.replace("_", ".")
        for connection in (secure, watcher):
            connection.sendall(UPGRADE)
            read_until(connection, b'"t":"h"')
        watcher.sendall(text_frame({"t": "d", "d": {"r": 1, "a": "q", "b": {"p": path, "h": ""}}}))
        read_until(watcher, b'"r":1')
        secure.sendall(text_frame({"t": "d", "d": {"r": 1, "a": "o", "b": {"p": path, "d": "gone"}}}))
        assert b'"s":"ok"' in read_until(secure, b'"r":1')
        # The same socket below TLS, for what TLS would not do.
        with socket.socket(fileno=socket.dup(secure.fileno())) as plain:
            plain.settimeout(DEADLINE)
            end(secure, plain)
            read_until(watcher, b'"d":"gone"')


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_stream_ends_with_a_bad_record(servers, version):
    """The listen ends at once. The connection stays until the client closes it, at most 10 s."""
    server = servers(arguments=[*pair("localhost"), "--admin-listen", "127.0.0.1:0"])
    with open_socket(server.port, client_context(maximum_version=ssl.TLSVersion[version])) as secure:
        secure.sendall(b"GET /stream.json HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        read_until(secure, b"event: put")
        assert listens_and_connections(server) == [1, 1]
        with socket.socket(fileno=socket.dup(secure.fileno())) as plain:
            plain.settimeout(DEADLINE)
            after_a_bad_record(secure, plain)
            wait_for(lambda: listens_and_connections(server)[0] == 0, "end of the stream")
            assert listens_and_connections(server) == [0, 1]
            # The alert that says why, which TLS 1.3 encrypts, and the end.
            records = split_records(b"".join(iter(lambda: plain.recv(1 << 16), b"")))
            assert [record[0] for record in records] == [APPLICATION_DATA if version == "TLSv1_3" else ALERT]


def listens_and_connections(server):
    lines = Admin(server).text().splitlines()
    return [
        sum(int(line.split()[-1]) for line in lines if line.startswith(name)) for name in ("pando_listens{", "pando_connections ")]


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
@pytest.mark.parametrize("is_closed_by", [after_close_notify, after_fin], ids=lambda end: end.__name__.replace("_", " "))
def test_a_response_to_a_client_that_sends_no_more(server, version, is_closed_by):
    """A request is complete before the client ends its direction: the response comes, all 3 MB of it, and then the server's end."""
    value = "y" * 3_000_000
    path = f"/half/{version}"
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = client_context(maximum_version=ssl.TLSVersion[version])
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with open_socket(server.port) as writer:
        writer.sendall(
            f"PUT {path}.json?print=silent HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(value) + 2}\r\n\r\n\"{value}\"".encode())
        read_until(writer, b"204")
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as plain:
        do_handshake(client, plain, incoming, outgoing)
        client.write(f"GET {path}.json HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        if is_closed_by is after_close_notify:
            with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLSyscallError):
                client.unwrap()
        plain.sendall(outgoing.read())
        if is_closed_by is after_fin:
            plain.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: plain.recv(1 << 16), b""))  # until FIN
    records = split_records(received)
    # What a record adds: TLS 1.2 has 8 bytes of a nonce with AES, TLS 1.3 a type; the last record is close_notify.
    sizes = [len(record) - HEADER_BYTES - TAG_BYTES for record in records]
    assert sum(sizes) > len(value) and sizes[-1] in (2, 3, 10)

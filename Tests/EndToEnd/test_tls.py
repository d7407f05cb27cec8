"""TLS with independent clients: Python's ssl (OpenSSL), `openssl s_client`, curl and the library `websockets`. What single
records and messages do is in Tests/TLS."""

import asyncio
import base64
import contextlib
import http.client
import json
import random
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
import warnings

import pytest
from websockets.asyncio.client import connect

from admin import ADDRESS, Admin
from programs import needs
from server import BINARY, REPOSITORY, StartFailure, clean_environment

FIXTURES = REPOSITORY / "Tests/TLS/Fixtures"
ECHO = BINARY.parent / "pando-echo"
DEADLINE = 30  # seconds; only bounds a test that would otherwise hang

warnings.filterwarnings("ignore", category=DeprecationWarning)  # ssl's names of old versions


def pair(name):
    return ["--tls-cert", FIXTURES / f"{name}.pem", "--tls-key", FIXTURES / f"{name}.key"]


def client_context(identity=None, issuer="issuer", alpn=None, **settings):
    context = ssl.create_default_context(cafile=FIXTURES / f"{issuer}.pem")
    if identity:
        context.load_cert_chain(FIXTURES / f"{identity}.pem", FIXTURES / f"{identity}.key")
    if alpn:
        context.set_alpn_protocols(alpn)
    for name, value in settings.items():
        setattr(context, name, value)
    return context


def open_socket(port, context=None, host="localhost", session=None):
    plain = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
    try:
        return (context or client_context()).wrap_socket(plain, server_hostname=host, session=session)
    except BaseException:
        plain.close()
        raise


class Client(http.client.HTTPSConnection):
    def __init__(self, port, context=None):
        super().__init__("localhost", port, context=context or client_context(), timeout=DEADLINE)
        self._create_connection = lambda address, *rest: socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)

    def ask(self, method, path, body=None):
        self.request(method, path, body)
        response = self.getresponse()
        return response.status, response.read()


@pytest.fixture
def server(servers):
    return servers(arguments=pair("localhost"))


def served_name(port, host="localhost"):
    """The common name of the certificate that a new connection gets."""
    context = ssl.create_default_context(cafile=FIXTURES / "issuer.pem")
    context.check_hostname = False
    with open_socket(port, context, host) as secure:
        return dict(pair[0] for pair in secure.getpeercert()["subject"])["commonName"]


# Handshakes


@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1", "TLSv1_2", "TLSv1_3"])
def test_versions(server, version):
    wanted = ssl.TLSVersion[version]
    context = client_context(minimum_version=wanted, maximum_version=wanted)
    if version in ("TLSv1_2", "TLSv1_3"):
        with open_socket(server.port, context) as secure:
            assert secure.version() == version.replace("_", ".")
    else:
        context.set_ciphers("DEFAULT@SECLEVEL=0")
        with pytest.raises(ssl.SSLError):
            open_socket(server.port, context)


@pytest.mark.parametrize(
    "cipher, is_offered",
    [
        ("ECDHE-ECDSA-AES128-GCM-SHA256", True),
        ("ECDHE-ECDSA-AES256-GCM-SHA384", True),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", True),
        ("ECDHE-ECDSA-AES128-SHA256", False),  # CBC
        ("ECDHE-ECDSA-AES256-SHA", False),
        ("ECDHE-ECDSA-AES128-CCM", False),
        ("AES128-GCM-SHA256", False),  # without forward secrecy
    ],
)
def test_ciphers_of_tls_1_2(server, cipher, is_offered):
    context = client_context(maximum_version=ssl.TLSVersion.TLSv1_2)
    context.set_ciphers(cipher + ":@SECLEVEL=0")
    if is_offered:
        with open_socket(server.port, context) as secure:
            assert secure.cipher()[0] == cipher
    else:
        with pytest.raises(ssl.SSLError):
            open_socket(server.port, context)


@pytest.mark.parametrize(
    "offered, chosen",
    [(["http/1.1"], "http/1.1"), (["h2", "http/1.1"], "http/1.1"), (None, None), (["h2"], ssl.SSLError)],
)
def test_alpn(server, offered, chosen):
    context = client_context(alpn=offered)
    if chosen is ssl.SSLError:
        with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
            open_socket(server.port, context)
    else:
        with open_socket(server.port, context) as secure:
            assert secure.selected_alpn_protocol() == chosen


def resumed(port, session, context):
    with open_socket(port, context, session=session) as secure:
        secure.sendall(b"GET /.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert secure.recv(1 << 16).startswith(b"HTTP/1.1 200")
        return secure.session_reused, secure.session


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_tickets_survive_reloads(servers, tmp_path, version):
    folder = tmp_path / "tls"
    copy("localhost", folder)
    server = servers(arguments=["--tls-cert", folder / "fullchain.pem", "--tls-key", folder / "privkey.pem"])
    context = client_context(maximum_version=ssl.TLSVersion[version])
    was_reused, session = resumed(server.port, None, context)
    assert not was_reused
    was_reused, _ = resumed(server.port, session, context)
    assert was_reused
    # As often as there are keys and once more: a new key is made every 8 hours, and not with each reload.
    for name in ("wild", "localhost", "wild", "localhost"):
        copy(name, folder)
        server.signal(1)  # SIGHUP
        deadline = time.monotonic() + DEADLINE
        while served_name(server.port) != name:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert resumed(server.port, session, context)[0]


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_client_certificate_comes_with_no_ticket(servers, version):
    """With one, an administrator would keep its rights when its certificate, or one of its issuers', has ended."""
    server = servers(dev=False, arguments=[*pair("localhost"), "--tls-client-ca", FIXTURES / "issuer.pem"])
    for identity, has_ticket in [("client", False), (None, True)]:
        context = client_context(identity, maximum_version=ssl.TLSVersion[version])
        client = Client(server.port, context)
        assert client.ask("GET", "/.settings/rules.json")[0] == (200 if identity else 401)
        session = client.sock.session
        assert (session is not None and session.has_ticket) == has_ticket
        if session is not None:
            with open_socket(server.port, context, session=session) as secure:
                assert secure.session_reused == has_ticket


def s_client(port, *arguments, data=b""):
    return subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-CAfile", FIXTURES / "issuer.pem", *arguments],
        input=data, capture_output=True, timeout=DEADLINE,
    )


@needs("openssl")
def test_renegotiation_is_refused(server):
    # `R` asks for a renegotiation, and the request comes after it.
    result = s_client(server.port, "-tls1_2", data=b"R\n")
    assert b"no renegotiation" in result.stderr + result.stdout
    assert Client(server.port).ask("GET", "/.json")[0] == 200


@needs("openssl", "stdbuf")
def test_key_update(server):
    # `K` asks for new keys in both directions. The request behind it has the new ones.
    process = subprocess.Popen(
        ["stdbuf", "-oL", "openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_3", "-msg", "-crlf"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    try:
        output = b""
        for expected, sent in [
            (b"read R BLOCK", b"K\n"),
            (b"<<< TLS 1.3, Handshake [length 0005], KeyUpdate", b"GET /.json HTTP/1.1\nHost: localhost\n\n"),
            (b"HTTP/1.1 200", b""),
        ]:
            while expected not in output:
                line = process.stdout.readline()
                assert line, output
                output += line
            process.stdin.write(sent)
            process.stdin.flush()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("method", ["GET", "PUT", "HEAD"])
def test_plain_http_on_the_secure_port(server, method):
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as plain:
        plain.sendall(f"{method} /.json HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = b"".join(iter(lambda: plain.recv(4096), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    text = b"This port speaks TLS. Begin the URL https://."
    assert head.startswith(b"HTTP/1.1 400 ") and body == (b"" if method == "HEAD" else text)
    fields = head.decode().split("\r\n")[1:]
    assert f"Content-Length: {len(text)}" in fields and "Connection: close" in fields
    assert any(re.fullmatch("Date: [A-Z][a-z]{2}, .* GMT", field) for field in fields), "RFC 9110 §6.6.1"


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x80\x2e\x01\x00\x02" + b"\0" * 43, b"\0" * 64, b"\x16\x03\x01\xff\xff\x01", b"\x17\x03\x03\x00\x01a",
        b"\x16\x03\x01\x00\x0a\x01\x02\x01\x40\x03\x03" + b"\0" * 4,
    ],
    ids=[
        "a hello of SSL 2", "zeros", "a record that is too long", "data without a handshake", "a hello that announces 128 KiB",
    ],
)
def test_garbage_is_closed(server, garbage):
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as plain:
        plain.sendall(garbage)
        with contextlib.suppress(ConnectionResetError):
            answer = b"".join(iter(lambda: plain.recv(4096), b""))
            assert answer == b"" or answer[0] == 21  # an alert
    assert Client(server.port).ask("GET", "/.json")[0] == 200


def test_a_slow_handshake_ends(servers):
    server = servers(arguments=[*pair("localhost"), "--request-timeout", "1"])
    sockets = [socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) for _ in range(20)]
    for index, plain in enumerate(sockets):
        plain.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[:index])  # the beginning of a ClientHello
    for plain in sockets:
        with contextlib.suppress(ConnectionResetError):
            assert plain.recv(1) == b""
        plain.close()


def hello():
    """The bytes of a ClientHello."""
    output = ssl.MemoryBIO()
    client = client_context().wrap_bio(ssl.MemoryBIO(), output, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return output.read()


# A process of its own: a thread would share the interpreter's lock with the client, which would wait for that.
FLOOD = """
import socket, sys
port, first = int(sys.argv[1]), bytes.fromhex(sys.argv[2])
while True:
    sockets = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(50)]
    for plain in sockets:
        plain.sendall(first)
    for plain in sockets:
        plain.close()
    print(flush=True)
"""


def test_a_flood_of_handshakes_leaves_others_served(servers):
    server = servers(arguments=pair("rsa"))
    client = Client(server.port)
    client.ask("PUT", "/a.json", "1")
    arguments = [sys.executable, "-c", FLOOD, str(server.port), hello().hex()]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as flood:
        try:
            for _ in range(10):
                assert flood.stdout.readline(), "the flood goes on"
                for _ in range(10):
                    assert client.ask("GET", "/a.json") == (200, b"1")
            assert flood.poll() is None, "the flood has not ended"
        finally:
            flood.kill()
    assert server.alive


def ticks(admin):
    """Ticks of the only I/O thread so far."""
    return int(re.search(r'^pando_loop_tick_seconds_count\{thread="pando-io-0"\} (\d+)$', admin.text(), re.MULTILINE)[1])


def test_handshakes_with_a_large_key_are_few_in_a_tick(servers):
    """A signature with RSA-4096 takes longer than the 2 ms that a tick has for handshakes: each tick makes one, at most two
    on a fast machine, however many clients ask at once; and the others are served between two of them."""
    server = servers(memory=True, arguments=[*pair("rsa4096"), "--admin-listen", "0", "--loops", "1"])
    admin, client = Admin(server), Client(server.port)
    client.ask("PUT", "/a.json", "1")
    first, count = hello(), 100
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE)) for _ in range(count)]
        before = ticks(admin)
        for plain in sockets:
            plain.sendall(first)
        assert client.ask("GET", "/a.json") == (200, b"1")
        for plain in sockets:
            assert plain.recv(1) == b"\x16", "the server's part of a handshake"
        assert ticks(admin) - before >= count / 2
    assert client.ask("GET", "/a.json") == (200, b"1")


# What goes through it


@needs("curl")
def test_curl(server):
    base = ["curl", "-sS", "-m", str(DEADLINE), "--cacert", FIXTURES / "issuer.pem", "--resolve", f"localhost:{server.port}:127.0.0.1"]
    url = f"https://localhost:{server.port}/rooms.json"
    assert json.loads(subprocess.check_output([*base, "-X", "PUT", "-d", '{"a":1}', url])) == {"a": 1}
    assert json.loads(subprocess.check_output([*base, url])) == {"a": 1}


def test_large_bodies_both_ways(server):
    client = Client(server.port)
    value = {f"key{index}": "x" * 1000 + str(index) for index in range(6000)}
    status, _ = client.ask("PUT", "/large.json", json.dumps(value))
    assert status == 200
    status, body = client.ask("GET", "/large.json")
    assert status == 200 and json.loads(body) == value


def test_a_client_that_reads_slowly(server):
    client = Client(server.port)
    value = "y" * 4_000_000
    client.ask("PUT", "/large.json", json.dumps(value))
    with open_socket(server.port) as secure:
        secure.sendall(b"GET /large.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" )
        received = 0
        while piece := secure.recv(3000):
            received += len(piece)
            if received < 100_000:
                assert client.ask("GET", "/other.json")[0] == 200  # others are served meanwhile
    assert received > len(value)


def do_handshake(client, plain, incoming, outgoing):
    """The handshake of a TLS client whose records pass through two buffers, over a plain socket."""
    while True:
        try:
            return client.do_handshake()
        except ssl.SSLWantReadError:
            plain.sendall(outgoing.read())
            incoming.write(plain.recv(1 << 16))


def test_half_close(server):
    """A client that says that it sends no more gets its response, and the server says so, too."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as plain:
        do_handshake(client, plain, incoming, outgoing)
        client.write(b"GET /.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLSyscallError):
            client.unwrap()  # close_notify goes out
        plain.sendall(outgoing.read())
        received = b"".join(iter(lambda: plain.recv(1 << 16), b""))  # until FIN
    records = split_records(received)
    assert all(record[0] == 0x17 for record in records)
    # A response, and close_notify: an encrypted alert has 2 bytes, a type and a tag.
    assert len(records) >= 2 and len(records[-1]) == 5 + 2 + 1 + 16


@pytest.mark.parametrize("requests", [
    [("GET", "")] * 3,
    [("PUT", '"' + "x" * 30_000 + '"')],
    [("GET", ""), ("PUT", '"' + "x" * 30_000 + '"'), ("GET", "")],
    [("GET", "")] * 200,
], ids=["three requests", "a large body", "both", "two hundred requests"])
def test_half_close_in_the_packet_of_the_requests(server, requests):
    """All that came before close_notify is answered, also what waits behind another request when that is read."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    fields = "Host: localhost\r\nAuthorization: Bearer owner\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as plain:
        do_handshake(client, plain, incoming, outgoing)
        for method, body in requests:
            length = f"Content-Length: {len(body)}\r\n" if body else ""
            client.write(f"{method} /half.json?print=pretty HTTP/1.1\r\n{fields}{length}\r\n{body}".encode())
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLSyscallError):
            client.unwrap()  # close_notify goes out
        plain.sendall(outgoing.read())
        for piece in iter(lambda: plain.recv(1 << 16), b""):
            incoming.write(piece)
    answers = b""
    with contextlib.suppress(ssl.SSLError):
        while piece := client.read(1 << 16):
            answers += piece
    assert answers.count(b"HTTP/1.1 200 ") == len(requests)


def split_records(received):
    records = []
    while received:
        size = 5 + int.from_bytes(received[3:5], "big")
        assert len(received) >= size
        records.append(received[:size])
        received = received[size:]
    return records


def test_event_stream(server):
    client = Client(server.port)
    with open_socket(server.port) as secure:
        secure.sendall(b"GET /rooms.json HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        stream = secure.makefile("rb")

        def next_event():
            while not (line := stream.readline()).startswith(b"event: "):
                assert line
            return line.strip(), json.loads(stream.readline().removeprefix(b"data: "))

        assert next_event() == (b"event: put", {"path": "/", "data": None})
        client.ask("PUT", "/rooms/a.json", "7")
        assert next_event() == (b"event: put", {"path": "/a", "data": 7})


def test_long_polling(server):
    status, body = Client(server.port).ask("GET", "/.lp?start=t&ser=1&cb=1&v=5&ns=default")
    assert status == 200 and b'"t":"h"' in body


def websocket(port, identity=None, **options):
    return connect(
        f"wss://localhost:{port}/.ws?v=5&ns=default", host="127.0.0.1", ssl=client_context(identity), compression=None,
        max_size=None, open_timeout=DEADLINE, **options,
    )


async def request(socket, number, action, body):
    await socket.send(json.dumps({"t": "d", "d": {"r": number, "a": action, "b": body}}))
    while True:
        message = json.loads(await asyncio.wait_for(socket.recv(), DEADLINE))
        if message["d"].get("r") == number:
            return message["d"]["b"]


def test_websocket(server):
    async def talk():
        async with websocket(server.port) as first, websocket(server.port) as second:
            for one in (first, second):
                assert json.loads(await one.recv())["d"]["t"] == "h"
            assert (await request(second, 1, "q", {"p": "/x", "h": ""}))["s"] == "ok"
            assert (await request(first, 1, "p", {"p": "/x", "d": "z" * 10_000}))["s"] == "ok"
            push = json.loads(await asyncio.wait_for(second.recv(), DEADLINE))
            assert push["d"]["b"]["d"] == "z" * 10_000

    asyncio.run(talk())


# Certificates


def copy(name, folder):
    folder.mkdir(exist_ok=True, parents=True)
    for ending, target in (("pem", "fullchain.pem"), ("key", "privkey.pem")):
        temporary = folder / "new"
        shutil.copy(FIXTURES / f"{name}.{ending}", temporary)
        temporary.rename(folder / target)


def test_directory_by_name(servers, tmp_path):
    copy("localhost", tmp_path / "live/localhost")
    copy("rsa", tmp_path / "live/rsa.example.com")
    copy("wild", tmp_path / "live/example.com")
    server = servers(arguments=["--tls-dir", tmp_path / "live"])
    for host, name in [
        ("localhost", "localhost"), ("rsa.example.com", "rsa.example.com"), ("www.example.com", "wild"),
        ("WWW.EXAMPLE.COM", "wild"), ("example.com", "wild"), ("other.example.org", "wild"), ("unknown", "wild"),
    ]:
        assert served_name(server.port, host) == name, host


@pytest.mark.parametrize("by_signal", [True, False])
def test_reload(servers, tmp_path, by_signal):
    copy("localhost", tmp_path / "tls")
    arguments = ["--tls-cert", tmp_path / "tls/fullchain.pem", "--tls-key", tmp_path / "tls/privkey.pem"]
    server = servers(arguments=arguments)
    client = Client(server.port)
    assert client.ask("GET", "/.json")[0] == 200

    def change(name, log):
        copy(name, tmp_path / "tls")
        if by_signal:
            server.signal(1)
        server.wait_for_log(log)

    change("rsa", "the certificate was read again")
    assert served_name(server.port) == "rsa.example.com"
    # A key that does not fit.
    shutil.copy(FIXTURES / "wild.key", tmp_path / "tls/privkey.pem")
    if by_signal:
        server.signal(1)
    server.wait_for_log("stays as it was")
    assert served_name(server.port) == "rsa.example.com"
    change("wild", "the certificate was read again")
    deadline = time.monotonic() + DEADLINE
    while served_name(server.port) != "wild":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    # A connection goes on with what it began with.
    assert client.ask("GET", "/.json")[0] == 200 and client.sock is not None


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["--tls-cert", FIXTURES / "localhost.pem"], "--tls-cert and --tls-key"),
        (["--tls-cert", FIXTURES / "localhost.pem", "--tls-key", FIXTURES / "wild.key"], "does not belong"),
        (["--tls-cert", FIXTURES / "missing.pem", "--tls-key", FIXTURES / "wild.key"], "missing.pem"),
        (["--tls-cert", FIXTURES / "make.sh", "--tls-key", FIXTURES / "wild.key"], "no certificate"),
        (["--tls-dir", FIXTURES], "has no NAME/fullchain.pem"),
        (["--tls-dir", FIXTURES / "missing"], "can't be read"),
        ([*pair("localhost"), "--tls-client-ca", FIXTURES / "make.sh"], "no certificate"),
        (["--tls-client-ca", FIXTURES / "issuer.pem"], "--tls-client-ca: needs"),
        (["--http-redirect-port", "0"], "--http-redirect-port: needs TLS"),
    ],
)
def test_bad_at_the_start(servers, arguments, text):
    with pytest.raises(StartFailure) as failure:
        servers(arguments=arguments)
    assert failure.value.code == 78 and text in str(failure.value)


def test_a_key_that_everybody_may_read(servers, tmp_path):
    copy("localhost", tmp_path / "tls")
    (tmp_path / "tls/privkey.pem").chmod(0o644)
    server = servers(
        arguments=["--tls-cert", tmp_path / "tls/fullchain.pem", "--tls-key", tmp_path / "tls/privkey.pem"])
    server.wait_for_log("may read the private key")


# Administrators


def test_client_certificates(servers):
    server = servers(dev=False, arguments=[*pair("localhost"), "--tls-client-ca", FIXTURES / "issuer.pem"])
    administrator, others = Client(server.port, client_context("client")), Client(server.port)
    assert administrator.ask("PUT", "/a.json", "1") == (200, b"1")
    assert administrator.ask("GET", "/a.json") == (200, b"1")
    assert others.ask("GET", "/a.json")[0] == 401
    assert administrator.ask("GET", "/.settings/rules.json")[0] == 200
    assert others.ask("GET", "/.settings/rules.json")[0] == 401
    # A token counts more than the certificate.
    assert administrator.ask("GET", "/a.json?auth=bad")[0] == 401
    # Any web page can have a browser send a request with the certificate.
    for field, value, status in [
        ("Origin", "https://elsewhere.example", 401), ("Sec-Fetch-Site", "cross-site", 401),
        ("Sec-Fetch-Site", "same-site", 401), ("Referer", "https://elsewhere.example/", 401),
        ("Sec-Fetch-Site", "same-origin", 200), ("Sec-Fetch-Site", "none", 200),
    ]:
        administrator.request("POST", "/a.json", "1", {field: value})
        response = administrator.getresponse()
        response.read()
        assert response.status == status, (field, value)
    # Old browsers say nothing of the page that loads a script.
    for fields, status in [({}, 401), ({"Sec-Fetch-Site": "none"}, 401), ({"Sec-Fetch-Site": "same-origin"}, 200)]:
        administrator.request("GET", "/a.json?callback=f", headers=fields)
        response = administrator.getresponse()
        response.read()
        assert response.status == status, fields
    for identity in ("stranger", "localhost"):  # of another issuer; not for clients
        with pytest.raises((ssl.SSLError, ConnectionResetError, http.client.RemoteDisconnected)):
            Client(server.port, client_context(identity)).ask("GET", "/a.json")

    async def talk():
        async with websocket(server.port, "client") as one, websocket(server.port) as other:
            for socket in (one, other):
                await socket.recv()
            assert (await request(one, 1, "p", {"p": "/b", "d": 2}))["s"] == "ok"
            assert (await request(other, 1, "p", {"p": "/b", "d": 3}))["s"] == "permission_denied"
            # Signed out, it is like others.
            assert (await request(one, 2, "unauth", {}))["s"] == "ok"
            assert (await request(one, 3, "p", {"p": "/b", "d": 3}))["s"] == "permission_denied"

        async with websocket(server.port, "client", origin="https://elsewhere.example") as page:
            await page.recv()
            assert (await request(page, 1, "p", {"p": "/b", "d": 4}))["s"] == "permission_denied"

    asyncio.run(talk())


def polled(client, message, fields):
    """What a session by long polling answers to its first message: a client on one connection."""
    def ask(query):
        client.request("GET", "/.lp?" + query, headers=fields)
        response = client.getresponse()
        assert response.status == 200
        return response.read().decode()

    first = ask("start=t&ser=1&cb=1&v=5&ns=default")
    session, password = re.search(r'pLPCommand\(\s*[\'"]start[\'"],\s*[\'"]?(\d+)[\'"]?,\s*[\'"](\w+)[\'"]', first).groups()
    data = base64.urlsafe_b64encode(json.dumps(message).encode()).decode().replace("=", ".")
    answer = ask(f"id={session}&pw={password}&ser=1&ns=default&seg0=0&ts0=1&d0={data}")
    deadline = time.monotonic() + DEADLINE
    serial = 1
    while '"r":1' not in answer:
        assert time.monotonic() < deadline, answer
        serial += 1
        answer = ask(f"id={session}&pw={password}&ser={serial}&ns=default")
    return answer


def test_client_certificates_by_long_polling_count_for_pages_of_the_server_alone(servers):
    server = servers(dev=False, arguments=[*pair("localhost"), "--tls-client-ca", FIXTURES / "issuer.pem"])
    write = {"t": "d", "d": {"r": 1, "a": "p", "b": {"p": "/a", "d": 1}}}
    for identity, fields, expected in [
        ("client", {"Sec-Fetch-Site": "same-origin"}, '"s":"ok"'), ("client", {}, "permission_denied"),
        ("client", {"Sec-Fetch-Site": "cross-site"}, "permission_denied"),
        (None, {"Sec-Fetch-Site": "same-origin"}, "permission_denied"),
    ]:
        assert expected in polled(Client(server.port, client_context(identity)), write, fields), (identity, fields)


def test_the_certificate_of_a_trusted_proxy_is_not_that_of_its_clients(servers):
    arguments = [
        *pair("localhost"), "--tls-client-ca", FIXTURES / "issuer.pem", "--trusted-proxy", "127.0.0.1",
        "--admin-listen", "0.0.0.0:0",
    ]
    server = servers(memory=True, dev=False, arguments=arguments)
    for fields in ({}, {"X-Forwarded-For": "203.0.113.9"}):
        proxy = Client(server.port, client_context("client"))
        proxy.request("GET", "/.settings/rules.json", headers=fields)
        assert proxy.getresponse().status == 401, fields
    assert Client(Admin(server).port, client_context("client")).ask("GET", "/varz")[0] == 401
    write = {"t": "d", "d": {"r": 1, "a": "p", "b": {"p": "/a", "d": 1}}}
    page = {"Sec-Fetch-Site": "same-origin"}
    assert "permission_denied" in polled(Client(server.port, client_context("client")), write, page)

    async def talk():
        async with websocket(server.port, "client") as one:
            await one.recv()
            assert (await request(one, 1, "p", {"p": "/b", "d": 2}))["s"] == "permission_denied"

    asyncio.run(talk())
    # A PROXY header says that the TLS connection is a client's.
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as plain:
        addresses = socket.inet_aton("203.0.113.9") + bytes(4) + b"\x12\x34\x00\x50"
        plain.sendall(b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0" + bytes([len(addresses)]) + addresses)
        with client_context("client").wrap_socket(plain, server_hostname="localhost") as secure:
            secure.sendall(b"GET /.settings/rules.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert secure.recv(1 << 16).startswith(b"HTTP/1.1 200 ")


# The port that redirects


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_redirect(servers):
    port = free_port()
    server = servers(arguments=[*pair("localhost"), "--http-redirect-port", port])
    for host, target, expected in [
        ("localhost", "/a/b.json?x=1&y=%20", f"https://localhost:{server.port}/a/b.json?x=1&y=%20"),
        (f"example.com:{port}", "/", f"https://example.com:{server.port}/"),
        (f"[::1]:{port}", "/a", f"https://[::1]:{server.port}/a"),
        ("ignored", "http://example.org/z?q", f"https://example.org:{server.port}/z?q"),
    ]:
        for method in ("GET", "PUT", "POST", "HEAD"):
            with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as plain:
                plain.sendall(f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n".encode())
                answer = b"".join(iter(lambda: plain.recv(4096), b"")).decode()
            assert answer.startswith("HTTP/1.1 308 "), answer
            assert f"\r\nLocation: {expected}\r\n" in answer and "\r\nDate: " in answer
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX-Request-ID: id-7\r\n\r\n")
        assert b"\r\nX-Request-ID: id-7\r\n" in b"".join(iter(lambda: plain.recv(4096), b""))
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as plain:  # what is no ASCII
        plain.sendall(b"GET /a\xffb\xc3\xa4?\x80%ff HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"/a%FFb%C3%A4?%80%ff\r\n" in b"".join(iter(lambda: plain.recv(4096), b""))
    for bad, status in [
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.0\r\n\r\n", b"400"),
        (b"GET /" + b"a" * 20_000, b"414"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nx: " + b"x" * 60_000, b"431"),
        (b"A" * 30 + b" / HTTP/1.1\r\n\r\n", b"501"),
        (b"GET / HTTP/2.0\r\n\r\n", b"505"),
    ]:
        with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as plain:
            plain.sendall(bad)
            answer = b"".join(iter(lambda: plain.recv(4096), b""))
            assert answer.startswith(b"HTTP/1.1 " + status) and b"\r\nDate: " in answer, (status, answer)


# The guide


GUIDE = REPOSITORY / "public/docs/guide.md"


@needs("openssl", "curl")
def test_the_guides_way_to_the_internet(tmp_path):
    """The commands of the section, one after the other, with other ports."""
    section = GUIDE.read_text().split("## From localhost to the internet\n")[1].split("\n## ")[0]
    ports = {"9443": str(free_port()), "9080": str(free_port())}
    blocks = []
    for block in re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[:3]:
        for old, new in ports.items():
            block = block.replace(old, new)
        blocks.append(block)
    made, command = blocks[0].split("pando serve", 1)

    def shell(script):
        done = subprocess.run(
            ["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, env=clean_environment(), timeout=DEADLINE)
        assert done.returncode == 0, script + done.stderr
        return done.stdout

    shell(made)
    process = subprocess.Popen(
        ["bash", "-euc", f"exec {BINARY} serve{command}"], cwd=tmp_path, env=clean_environment(), stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout.readline() == f"listening on https://127.0.0.1:{ports['9443']}\n"
        refused, redirection = shell(blocks[1]).split("HTTP/1.1 308 ", 1)
        assert "error" in refused
        assert f"Location: https://localhost:{ports['9443']}/rooms.json\n" in redirection.replace("\r", "")
        assert shell(blocks[2]).endswith('{"a":1}')
    finally:
        process.kill()
        process.communicate()


# pando-echo


@pytest.mark.skipif(not ECHO.exists(), reason=f"{ECHO} is not built: --product pando-echo")
@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_echo(version):
    process = subprocess.Popen(
        [str(ECHO), "--port", "0", *map(str, pair("localhost"))], stdout=subprocess.PIPE, text=True,
        env=clean_environment(),
    )
    seed = random.randrange(1 << 32)
    generator = random.Random(seed)

    async def talk(port):
        context = client_context(maximum_version=ssl.TLSVersion[version])
        async with connect(f"wss://localhost:{port}/", host="127.0.0.1", ssl=context, max_size=None) as socket:
            messages = [generator.randbytes(size) for size in (0, 1, 100, 16_367, 16_384, 16_385, 100_000, 3_000_000)]
            for message in messages:
                await socket.send(message)
            for message in messages:
                assert await asyncio.wait_for(socket.recv(), DEADLINE) == message, seed

    try:
        line = process.stdout.readline()
        assert line.startswith("listening on https://")
        asyncio.run(talk(int(line.rsplit(":", 1)[1])))
    finally:
        process.kill()
        process.communicate()


# The admin port


def test_admin_listener_for_other_machines_speaks_tls(servers):
    server = servers(memory=True, dev=False, arguments=[*pair("localhost"), "--admin-listen", "0.0.0.0:0"])
    admin = Admin(server)
    port = admin.port
    assert ADDRESS.findall(server.stderr(limit=1 << 30))[-1][0] == "https"
    status, body = Client(port).ask("GET", "/metrics")
    assert status == 200 and b"\npando_ready 1\n" in body
    assert Client(port).ask("GET", "/livez")[0] == 200
    assert Client(port).ask("GET", "/varz")[0] == 401, "administrators only"
    with open_socket(port) as secure:
        assert secure.version() in ("TLSv1.2", "TLSv1.3")
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as plain:
        plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := plain.recv(1 << 16):
                answer += piece
    assert b"pando_" not in answer
    with pytest.raises(ssl.SSLError):
        open_socket(port, host="another.example")


def test_client_certificates_at_the_admin_port(servers):
    arguments = [*pair("localhost"), "--tls-client-ca", FIXTURES / "issuer.pem", "--admin-listen", "0.0.0.0:0"]
    port = Admin(servers(memory=True, dev=False, arguments=arguments)).port
    for identity, fields, expected in [
        ("client", {}, 200), (None, {}, 401), ("client", {"Authorization": "Bearer bad"}, 401),
        ("client", {"Origin": "https://elsewhere.example"}, 401), ("client", {"Sec-Fetch-Site": "cross-site"}, 401),
        ("client", {"Sec-Fetch-Site": "none"}, 200),
    ]:
        for path in ("/varz", "/connz", "/slowz", "/topz"):
            client = Client(port, client_context(identity))
            client.request("GET", path, headers=fields)
            response = client.getresponse()
            response.read()
            assert response.status == expected, (identity, fields, path)


def test_the_end_of_the_certificate_is_a_metric(servers):
    name = "pando_tls_certificate_expiry_timestamp_seconds"
    server = servers(memory=True, arguments=[*pair("localhost"), "--admin-listen", "0"])
    with open_socket(server.port) as secure:
        expected = ssl.cert_time_to_seconds(secure.getpeercert()["notAfter"])
    assert f"\n{name} {expected}\n" in Admin(server).text()
    assert f"\n{name} 0\n" in Admin(servers(memory=True, arguments=["--admin-listen", "0"])).text()


def test_admin_listener_on_loopback_is_plain(servers):
    server = servers(memory=True, arguments=[*pair("localhost"), "--admin-listen", "0"])
    assert b"pando_ready 1" in Admin(server).ask("/metrics")[2]

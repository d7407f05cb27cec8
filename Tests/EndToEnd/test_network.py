"""Where the server listens, what a proxy says of its clients, limits of connections, and the end over a time: with raw
sockets. What single bytes of a header are is in Tests/Reactor."""

import gzip
import json
import re
import select
import signal
import socket
import ssl
import subprocess
import time

import pytest

from admin import Admin
from pando_client import Connection
from rest_client import Wire
from server import BINARY, LISTENING, START_DEADLINE, REPOSITORY, StartFailure, clean_environment
from test_compression import Raw
from tokens import bearer, unsigned
from waiting import wait_for

FIXTURES = REPOSITORY / "Tests/TLS/Fixtures"
DEADLINE = 30  # seconds; only bounds a test that would otherwise hang
PAIR = ["--tls-cert", FIXTURES / "localhost.pem", "--tls-key", FIXTURES / "localhost.key"]
TRUSTING = ssl.create_default_context(cafile=FIXTURES / "issuer.pem")
UPGRADE = (
    "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13")
REQUEST = b"GET /a.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def exchange(connection, data=REQUEST):
    """Sends bytes, and gives all that comes back."""
    with connection:
        connection.settimeout(DEADLINE)
        connection.sendall(data)
        answer = b""
        try:
            while piece := connection.recv(1 << 16):
                answer += piece
        except ConnectionResetError:
            pass
        return answer


def connect(port, host="127.0.0.1"):
    return socket.create_connection((host, port), timeout=DEADLINE)


def connect_unix(path):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(DEADLINE)
    connection.connect(str(path))
    return connection


def secure(port):
    return TRUSTING.wrap_socket(connect(port), server_hostname="localhost")


def status(answer):
    return answer.split(b" ", 2)[1].decode() if answer.startswith(b"HTTP/1.1 ") else answer


# Addresses


def test_several_addresses(servers, tmp_path):
    path = tmp_path / "pando.sock"
    server = servers(
        memory=True, arguments=["--listen", "127.0.0.1:0", "--listen", "[::1]:0", "--listen", f"unix:{path}"]
    )
    second = LISTENING.match(server.lines.get(timeout=DEADLINE))
    assert second.group(1) == "[::1]" and server.lines.get(timeout=DEADLINE) == f"listening on unix:{path}"
    local = socket.socket(socket.AF_UNIX)
    local.connect(str(path))
    for connection in (connect(server.port), connect(int(second.group(2)), "::1"), local):
        assert status(exchange(connection)) == "200"
    assert server.terminate() == 0
    assert not path.exists()


def test_both_families_at_one_address(servers):
    server = servers(memory=True, dev=False, arguments=["--listen", "[::]:0"])
    for host in ("127.0.0.1", "::1"):
        assert status(exchange(connect(server.port, host))) == "401"
    assert "without encryption" in server.stderr()


def test_unix_socket_that_was_left_behind(servers, tmp_path):
    path = tmp_path / "pando.sock"
    arguments = ["--listen", "127.0.0.1:0", "--listen", f"unix:{path}"]
    servers(memory=True, arguments=arguments).kill()
    assert path.exists()
    servers(memory=True, arguments=arguments)
    with pytest.raises(StartFailure) as failure:
        servers(memory=True, arguments=arguments)
    assert failure.value.code == 78 and "Address already in use" in str(failure.value)


@pytest.mark.parametrize("address", ["9000", "::1:9000", "unix:", "127.0.0.1:70000", "0.0.0.0:0"])
def test_bad_addresses(servers, address):
    with pytest.raises(StartFailure) as failure:
        servers(memory=True, arguments=["--listen", address])
    assert failure.value.code == 78 and address in str(failure.value)


def test_socket_activation(tmp_path):
    """As systemd does it: the sockets listen before the server runs."""
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as local:
        local.bind(str(tmp_path / "passed.sock"))
        local.listen()
        waiting = connect(tcp.getsockname()[1])
        process = subprocess.Popen(
            [
                "/bin/bash", "-c", f'export LISTEN_FDS=2 LISTEN_PID=$$; exec "$@" 8<&{tcp.fileno()} 9<&{local.fileno()} 3<&8 4<&9',
                "bash", str(BINARY), "serve", "--memory", "--dev",
            ],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=clean_environment(),
            pass_fds=(tcp.fileno(), local.fileno()),
        )
        try:
            assert process.stdout.readline() == f"listening on http://127.0.0.1:{tcp.getsockname()[1]}\n"
            assert process.stdout.readline() == "listening on unix\n"
            other = socket.socket(socket.AF_UNIX)
            other.connect(str(tmp_path / "passed.sock"))
            for connection in (waiting, other):
                assert status(exchange(connection)) == "200"
            process.terminate()
            assert process.wait(START_DEADLINE) == 0
        finally:
            process.kill()
            process.wait()
        assert (tmp_path / "passed.sock").exists(), "it is the service manager's"


# Proxies

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def header(source, command=0x21):
    if ":" in source:
        addresses = socket.inet_pton(socket.AF_INET6, source) + bytes(16) + b"\x12\x34\x00\x50"
        return SIGNATURE + bytes([command, 0x21, 0, len(addresses)]) + addresses
    addresses = socket.inet_aton(source) + bytes(4) + b"\x12\x34\x00\x50"
    return SIGNATURE + bytes([command, 0x11, 0, len(addresses)]) + addresses


@pytest.fixture
def proxied(servers):
    return servers(memory=True, arguments=["--trusted-proxy", "127.0.0.1", "--max-connections-per-address", "1"])


def held(port, first):
    """A connection that stays, after one request was answered."""
    connection = connect(port)
    connection.sendall(first + REQUEST.replace(b"Connection: close\r\n", b""))
    return connection, connection.recv(1 << 16)


def test_proxy_header_says_who_the_client_is(proxied):
    port = proxied.port
    kept = [held(port, header("198.51.100.1")), held(port, header("198.51.100.2")), held(port, header("2001:db8:0:1::1"))]
    assert [status(answer) for _, answer in kept] == ["200"] * 3
    for source in ("198.51.100.1", "2001:db8:0:1::2"):
        refused = exchange(connect(port), header(source) + REQUEST)
        assert status(refused) == "429"
        assert json.loads(refused.split(b"\r\n\r\n", 1)[1]) == {"error": "Too many connections from this address"}
    kept[0][0].close()
    deadline = time.monotonic() + DEADLINE
    while status(exchange(connect(port), header("198.51.100.1") + REQUEST)) != "200":
        assert time.monotonic() < deadline
    # The proxy itself, with and without a header, is not limited.
    for first in (b"", b"", header("1.2.3.4", command=0x20)):
        assert status(held(port, first)[1]) == "200"
    proxied.wait_for_log("refused 1 connection: more than 1 from one address")


def test_clients_whose_address_the_proxy_does_not_know_are_one_and_no_proxy(proxied):
    unspecified, local = SIGNATURE + b"\x21\x00\0\0", SIGNATURE + b"\x21\x31\0\xd8" + b"a" * 216
    kept, answer = held(proxied.port, unspecified)
    assert status(answer) == "200"
    # What such a client says of itself does not count.
    forwarded = REQUEST.replace(b"\r\n", b"\r\nX-Forwarded-For: 198.51.100.7\r\n", 1)
    for first in (unspecified, local):
        assert status(exchange(connect(proxied.port), first + forwarded)) == "429"
    assert status(exchange(connect(proxied.port), forwarded)) == "200", "the proxy's own word counts"
    kept.close()


def test_proxy_header_in_pieces(proxied):
    with connect(proxied.port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in header("2001:db8::1") + REQUEST:
            connection.sendall(bytes([byte]))
            time.sleep(0.001)
        assert status(connection.recv(1 << 16)) == "200"


@pytest.mark.parametrize(
    "first, expected",
    [
        (header("1.2.3.4")[:12] + b"\x31" + header("1.2.3.4")[13:], b""),  # another version
        (SIGNATURE + b"\x21\x11\xff\xff" + bytes(100), b""),  # too long
        (SIGNATURE[:-1] + b"X", "400"),  # no header, and no HTTP
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", "400"),  # version 1 is no HTTP
        (b"\r\n", "200"),  # an empty line before a request (RFC 9112 §2.2)
    ],
    ids=["version", "length", "signature", "text", "line end"],
)
def test_bad_proxy_headers(proxied, first, expected):
    assert status(exchange(connect(proxied.port), first + REQUEST)) == expected


def test_a_proxy_header_that_does_not_end_is_408(servers):
    """Whatever comes of it: all of it has the time of one head, from the connection's beginning on."""
    server = servers(memory=True, arguments=["--trusted-proxy", "127.0.0.1", "--request-timeout", 1, "--access-log"])
    whole = header("198.51.100.1")
    for first in (whole[:1], whole[:20], whole[:-1]):
        with connect(server.port) as connection:
            connection.sendall(first)
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        assert status(answer) == "408" and b"\r\nConnection: close\r\n" in answer, first
    with connect(server.port) as idle:
        idle.sendall(whole)
        assert not select.select([idle], [], [], 2)[0], "a client may be silent behind it"
    server.wait_for_log("status=408")


def test_proxy_header_before_tls(servers):
    port = servers(memory=True, arguments=[*PAIR, "--trusted-proxy", "127.0.0.0/8"]).port
    for first in (b"", header("198.51.100.1")):
        plain = connect(port)
        plain.sendall(first)
        assert status(exchange(TRUSTING.wrap_socket(plain, server_hostname="localhost"))) == "200"


def redirected(port, first=b"", host="127.0.0.1", fields=""):
    """The status, and where to."""
    answer = exchange(connect(port, host), first + f"GET /a?b HTTP/1.1\r\nHost: db.example.com\r\n{fields}\r\n".encode())
    location = re.search(rb"\r\nLocation: (\S+)\r\n", answer)
    return status(answer), location and location[1].decode()


def redirect_ports(server, count=1):
    deadline = time.monotonic() + DEADLINE
    while True:
        found = re.findall(r"http://(\S+):(\d+) redirects to https://(\S+):(\d+)$", server.stderr(), re.MULTILINE)
        if len(found) == count:
            return [(host.strip("[]"), int(port), int(target)) for host, port, _, target in found]
        assert time.monotonic() < deadline, server.stderr()
        time.sleep(0.02)


def test_the_ports_beside_read_what_a_proxy_says(servers):
    arguments = [*PAIR, "--trusted-proxy", "127.0.0.1", "--http-redirect-port", "0", "--admin-listen", "0"]
    server = servers(memory=True, arguments=arguments)
    [(_, port, _)] = redirect_ports(server)
    target = f"https://db.example.com:{server.port}/a?b"
    for first in (b"", header("198.51.100.1"), header("127.0.0.1", command=0x20)):
        assert redirected(port, first) == ("308", target)
    assert redirected(port, header("1.2.3.4")[:12] + b"\x31" + header("1.2.3.4")[13:]) == (b"", None)
    stated = "X-Forwarded-Host: shop.example.com:80\r\n"
    assert redirected(port, fields=stated) == ("308", f"https://shop.example.com:{server.port}/a?b")
    assert redirected(port, header("198.51.100.1"), fields=stated) == ("308", target), "the client's own word"
    for first in (b"", header("198.51.100.1")):
        answer = exchange(connect(Admin(server).port), first + b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert status(answer) == "200" and answer.endswith(b"alive\n")


def test_every_address_is_redirected_to(servers, tmp_path):
    arguments = [*PAIR, "--listen", "127.0.0.1:0", "--listen", "[::1]:0", "--http-redirect-port", "0"]
    server = servers(memory=True, arguments=arguments)
    second = int(server.lines.get(timeout=DEADLINE).rsplit(":", 1)[1])
    ports = redirect_ports(server, 2)
    assert [(host, target) for host, _, target in ports] == [("127.0.0.1", server.port), ("::1", second)]
    for host, port, target in ports:
        assert redirected(port, host=host) == ("308", f"https://db.example.com:{target}/a?b")


def test_a_redirect_without_an_address_is_a_bad_configuration(tmp_path):
    """The service manager has passed a Unix socket, and nothing else."""
    with socket.socket(socket.AF_UNIX) as local:
        local.bind(str(tmp_path / "passed.sock"))
        local.listen()
        done = subprocess.run(
            ["/bin/bash", "-c", f'export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@" 9<&{local.fileno()} 3<&9', "bash",
             str(BINARY), "serve", "--memory", *map(str, PAIR), "--http-redirect-port", "0"],
            capture_output=True, text=True, env=clean_environment(), pass_fds=(local.fileno(),), timeout=START_DEADLINE)
    assert done.returncode == 78 and "--http-redirect-port: needs an address" in done.stderr


def test_silent_connections_do_not_shut_the_port_that_redirects(servers):
    server = servers(memory=True, arguments=[*PAIR, "--http-redirect-port", "0"])
    [(_, port, _)] = redirect_ports(server)
    silent = [connect(port) for _ in range(64)]
    for _ in range(3):
        assert redirected(port)[0] == "308"
    with pytest.raises(ConnectionResetError):
        silent[0].recv(1)
    for one in silent:
        one.close()


def test_nothing_is_trusted_otherwise(servers):
    server = servers(memory=True, arguments=["--trusted-proxy", "10.0.0.0/8"])
    assert status(exchange(connect(server.port), header("1.2.3.4") + REQUEST)) == "400"
    assert websocket_host(server.port, "db.example.com") == f"127.0.0.1:{server.port}"


def websocket_host(port, forwarded, source="1.2.3.4", close=True):
    """`h` of the handshake (realtime §3.2), or the status where there is none."""
    connection = connect(port)
    connection.sendall(
        (
            f"GET /.ws?v=5&ns=default HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Forwarded-Host: {forwarded}\r\n"
            f"X-Forwarded-For: {source}\r\nX-Forwarded-Proto: https\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        ).encode()
    )
    data = b""
    while b"}}" not in data and not data.startswith(b"HTTP/1.1 4"):
        piece = connection.recv(1 << 16)
        assert piece, data
        data += piece
    if close:
        connection.close()
    if status(data) != "101":
        return status(data)
    host = json.loads(data[data.index(b"{") :])["d"]["d"]["h"]
    return host if close else (connection, host)


def test_forwarded_fields(servers):
    arguments = ["--trusted-proxy", "127.0.0.1", "--max-connections-per-address", "1"]
    port = servers(memory=True, dev=False, arguments=arguments).port
    kept, host = websocket_host(port, "db.example.com:8443", "198.51.100.1", close=False)
    assert host == "db.example.com:8443"
    assert websocket_host(port, "x", "6.6.6.6, 198.51.100.1") == "429", "what the client has sent itself does not count"
    assert websocket_host(port, "x", "198.51.100.2") == "x"
    assert websocket_host(port, "not/valid", "198.51.100.3") == f"127.0.0.1:{port}"
    kept.close()


@pytest.mark.parametrize("host, forwarded, expected", [
    ("127.0.0.1", "localhost", "200"), ("rebound.example", "localhost", "403"), ("localhost", "elsewhere.example", "403"),
])
def test_dev_judges_the_host_and_what_a_proxy_says(proxied, host, forwarded, expected):
    """A page of this machine's browser sets the field as it likes: from the proxy's address."""
    head = f"GET /a.json HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-Host: {forwarded}\r\nConnection: close\r\n\r\n"
    assert status(exchange(connect(proxied.port), head.encode())) == expected


# Limits


def test_refused_connections_that_read_nothing_are_reset(servers):
    server = servers(memory=True, arguments=["--max-connections-per-address", "1", "--loops", "1"])
    kept, _ = held(server.port, b"")
    deadline = time.monotonic() + DEADLINE
    answers = []
    while b"" not in answers:
        # Until 64 are refused within the second that they may take for that.
        assert time.monotonic() < deadline
        refused, answers = [], []
        for _ in range(200):
            # The reset may come before the client has noticed that it is connected.
            try:
                refused.append(connect(server.port))
            except ConnectionResetError:
                answers.append(b"")
        for one in refused:
            try:
                answers.append(one.recv(1 << 16))
            except ConnectionResetError:
                answers.append(b"")
        for one in refused:
            one.close()
    assert set(map(status, filter(None, answers))) == {"429"}
    kept.close()


def test_connections_of_one_address(servers):
    server = servers(memory=True, arguments=["--max-connections-per-address", "2"])
    kept = [held(server.port, b"")[0] for _ in range(2)]
    refused = exchange(connect(server.port))
    head, body = refused.decode().split("\r\n\r\n", 1)
    assert status(refused) == "429" and f"Content-Length: {len(body)}" in head.split("\r\n")
    assert re.search(r"\r\nDate: [A-Z][a-z]{2}, .* GMT\r\n", head), "RFC 9110 §6.6.1"
    for connection in kept:
        connection.close()
    deadline = time.monotonic() + DEADLINE
    while status(exchange(connect(server.port))) != "200":
        assert time.monotonic() < deadline


def test_polling_sessions_of_one_address(servers):
    """One connection may begin any number of sessions: they are counted apart from it."""
    server = servers(memory=True, arguments=["--max-connections-per-address", "2"])
    begin = b"GET /.lp?start=t&ser=1&cb=1&v=5&ns=demo HTTP/1.1\r\nHost: localhost\r\n"
    with connect(server.port) as one:
        one.sendall((begin + b"\r\n") * 2 + begin + b"Connection: close\r\n\r\n")
        answers = b""
        while data := one.recv(1 << 16):
            answers += data
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200", b"200", b"429"]
    # Those that have ended give their places back.
    for name, password in re.findall(rb"'start','(\d+)','(\w+)'", answers):
        query = b"id=" + name + b"&pw=" + password
        with connect(server.port) as one:
            one.sendall(b"GET /.lp?dframe=t&" + query + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            while one.recv(1 << 16):
                pass
            with connect(server.port) as other:
                other.sendall(b"GET /.lp?disconn=t&" + query
                              + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                while other.recv(1 << 16):
                    pass
    deadline = time.monotonic() + DEADLINE
    while True:
        with connect(server.port) as one:
            one.sendall(begin + b"Connection: close\r\n\r\n")
            answer = b""
            while data := one.recv(1 << 16):
                answer += data
        if status(answer) == "200":
            break
        assert time.monotonic() < deadline


def test_listens_and_disconnect_writes_of_one_connection(servers):
    server = servers(memory=True, arguments=["--max-listens", "2", "--max-on-disconnect", "1"])
    with Connection(server.port) as connection:
        answers = [connection.response(connection.request("q", {"p": f"/{n}", "h": ""})) for n in range(3)]
        assert [answer["s"] for answer in answers] == ["ok", "ok", "failed"]
        assert answers[2]["d"] == "Too many listens on this connection"
        answers = [connection.response(connection.request("o", {"p": f"/{n}", "d": 1})) for n in range(2)]
        assert [answer["s"] for answer in answers] == ["ok", "failed"]
        assert answers[1]["d"] == "Too many onDisconnect operations are pending"


def test_memory_of_the_listens_of_one_connection(servers):
    server = servers(memory=True, arguments=["--max-listen-bytes", "65536", "--admin-listen", "0"])
    with Connection(server.port) as connection:
        def listen(number, body):
            return connection.response(connection.request("q", {"p": f"/k{number}", "h": ""} | body))

        statuses = [listen(number, {})["s"] for number in range(300)]
        assert 100 < statuses.count("ok") < 300 and statuses == sorted(statuses, reverse=True)
        assert listen(300, {})["d"] == "The listens on this connection take too much memory"
        assert connection.response(connection.request("n", {"p": "/k0"}))["s"] == "ok"
        assert listen(0, {})["s"] == "ok"
        long = listen(1, {"q": {"i": ".value", "sp": "x" * 70_000}, "t": 1})
        assert long == {"s": "invalid_data", "d": "Invalid query: longer than 65536 bytes"}
    assert limit_counts(Admin(server))["listen_bytes"] == statuses.count("failed") + 1


def limit_counts(admin):
    found = re.findall(r'^pando_limit_exceeded_total\{limit="(\w+)"\} (\d+)$', admin.text(), re.MULTILINE)
    return {limit: int(count) for limit, count in found}


def test_writes_per_second(servers):
    server = servers(memory=True, arguments=["--max-writes-per-second", "1", "--admin-listen", "0"])
    admin = Admin(server)
    assert set(limit_counts(admin).values()) == {0}
    with Connection(server.port) as connection:
        # As an SDK sends what it has gathered while it was offline: ten at once, the others one a second.
        requests = [connection.request("p", {"p": "/a", "d": n}) for n in range(14)]
        last = connection.request("g", {"p": "/a"})
        assert [connection.response(number) for number in requests] == [{"s": "ok", "d": ""}] * 14
        assert connection.response(last) == {"s": "ok", "d": 13}
    delayed = re.search(r'^pando_delayed_writes_total\{limit="writes_per_second"\} (\d+)$', admin.text(), re.MULTILINE)
    assert 0 < int(delayed[1]) <= 4
    assert limit_counts(admin)["writes_per_second"] == 0
    with Wire(server.port) as rest:
        responses = [rest.ask("PUT", "/a.json", b"1") for _ in range(40)]
        assert [response.status for response in responses[:10]] == [200] * 10
        last = next(response for response in responses if response.status == 429)
        assert json.loads(last.body) == {"error": "Too many writes per second"}
        assert 1 <= int(last.header("Retry-After")) <= 2
        owner = [("Authorization", "Bearer owner")]
        assert {rest.ask("PUT", "/a.json", b"1", fields=owner).status for _ in range(20)} == {200}
        count = sum(response.status == 429 for response in responses)
    assert limit_counts(admin)["writes_per_second"] == count


def test_bytes_per_second(servers):
    """A compressed body counts as long as it is when it is inflated; a write that is too far beyond the rate is refused."""
    server = servers(memory=True, arguments=["--max-bytes-per-second", "1000", "--admin-listen", "0"])
    packed = gzip.compress(b'"' + b"x" * 1_000_000 + b'"')
    with Wire(server.port) as rest:
        assert rest.ask("PUT", "/a.json", packed, fields=[("Content-Encoding", "gzip")]).status == 200
        refused = rest.ask("PUT", "/a.json", b"1")
        assert refused.status == 429 and 900 < int(refused.header("Retry-After")) <= 991
    with Connection(server.port) as connection:
        assert connection.ask("p", {"p": "/a", "d": "x" * 100_000})["s"] == "ok"
        assert connection.ask("p", {"p": "/a", "d": 1}) == {"s": "unavailable", "d": "Too many bytes of writes per second"}
        assert connection.ask("g", {"p": "/b"})["s"] == "ok"
    assert limit_counts(Admin(server))["bytes_per_second"] == 2


def test_writes_of_clients_behind_a_proxy(servers):
    arguments = ["--trusted-proxy", "127.0.0.1", "--max-writes-per-second", "1"]
    server = servers(memory=True, arguments=arguments)

    def answers(client):
        """Each on a connection of its own, as proxies may pass them on."""
        for _ in range(40):
            with connect(server.port) as proxy:
                proxy.sendall(forwarded("DELETE /a.json", client))
                yield status(proxy.recv(1 << 16))

    for client in ("198.51.100.1", "198.51.100.2"):
        found = list(answers(client))
        assert found[:10] == ["200"] * 10 and "429" in found


def test_connections_of_one_user(servers):
    server = servers(memory=True, arguments=["--max-connections-per-user", "1", "--admin-listen", "0"])
    ada, bob = ({"cred": unsigned(name)} for name in ("ada", "bob"))
    with Connection(server.port) as first, Connection(server.port) as second, Wire(server.port) as rest:
        assert first.ask("auth", ada)["s"] == "ok"
        assert second.ask("auth", ada) == {"s": "unavailable", "d": "Too many connections of this user"}
        assert second.ask("auth", bob)["s"] == "ok"
        fields = [("Accept", "text/event-stream"), bearer(unsigned("ada"))]
        refused = rest.ask("GET", "/a.json", fields=fields)
        assert (refused.status, refused.header("Retry-After")) == (429, "1")
        assert rest.ask("GET", "/a.json", fields=fields[1:]).status == 200, "a request is no connection"
    assert limit_counts(Admin(server))["connections_per_user"] == 2


def forwarded(line, client, *fields):
    return "\r\n".join([line + " HTTP/1.1", "Host: localhost", f"X-Forwarded-For: {client}", *fields, "", ""]).encode()


def test_clients_behind_a_proxy_by_rest_and_long_polling(servers):
    arguments = ["--trusted-proxy", "127.0.0.1", "--max-connections-per-address", "1", "--admin-listen", "0"]
    server = servers(memory=True, arguments=arguments)
    stream = forwarded("GET /a.json", "198.51.100.1", "Accept: text/event-stream")
    with connect(server.port) as held, connect(server.port) as proxy:
        held.sendall(stream)
        assert status(held.recv(1 << 16)) == "200"
        # One connection of the proxy brings requests of many clients, and goes on.
        for client, expected in [("198.51.100.1", "429"), ("198.51.100.2", "200"), ("198.51.100.1", "429")]:
            proxy.sendall(forwarded("GET /a.json", client))
            assert status(proxy.recv(1 << 16)) == expected
    poll = "GET /.lp?start=t&ser=1&cb=1&v=5&ns=default"
    with connect(server.port) as held, connect(server.port) as proxy:
        held.sendall(forwarded(poll, "198.51.100.3"))
        assert status(held.recv(1 << 16)) == "200"
        proxy.sendall(forwarded(poll, "198.51.100.3"))
        answer = proxy.recv(1 << 16)
        assert status(answer) == "429" and b"\r\nRetry-After: 1\r\n" in answer
        proxy.sendall(forwarded(poll, "198.51.100.4"))
        assert status(proxy.recv(1 << 16)) == "200"
    assert limit_counts(Admin(server))["connections_per_address"] == 3


def test_a_refused_upgrade_behind_a_proxy_is_in_the_access_log(servers):
    arguments = ["--trusted-proxy", "127.0.0.1", "--max-connections-per-address", "1", "--access-log", "--log-format", "json"]
    server = servers(memory=True, arguments=arguments)
    upgrade = forwarded("GET /.ws?v=5&ns=default", "198.51.100.1", *UPGRADE)
    with connect(server.port) as kept, connect(server.port) as proxy:
        for connection, expected in [(kept, "101"), (proxy, "429")]:
            connection.sendall(upgrade)
            assert status(connection.recv(1 << 16)) == expected
    server.terminate()
    log = [json.loads(line) for line in server.stderr(limit=1 << 30).splitlines() if line.startswith("{")]
    requests = [line for line in log if line["message"] == "request"]
    assert [(one["method"], one["path"], one["status"]) for one in requests] == [("GET", "/.ws", 101), ("GET", "/.ws", 429)]
    assert all(one["peer"].startswith("198.51.100.1") for one in requests)


POLLING = "GET /.lp?start=t&ser=1&cb=1&v=5&ns=default"
BEGINNINGS = {
    "websocket": ("GET /.ws?v=5&ns=default", UPGRADE, "101"),
    "long polling": (POLLING, (), "200"),
    "event stream": ("GET /a.json", ("Accept: text/event-stream",), "200"),
}


def begun(connection, kind, *fields):
    """Begins a session that stays: the status."""
    line, own, _ = BEGINNINGS[kind]
    connection.sendall("\r\n".join([line + " HTTP/1.1", "Host: localhost", *own, *fields, "", ""]).encode())
    return status(connection.recv(1 << 16))


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_clients_that_a_proxy_does_not_name_are_not_counted_as_one(servers, tmp_path, kind):
    path = tmp_path / "pando.sock"
    arguments = ["--listen", "127.0.0.1:0", "--listen", f"unix:{path}", "--max-connections-per-address", "1",
                 "--trusted-proxy", "127.0.0.0/8", "--trusted-proxy", "unix"]
    port = servers(memory=True, arguments=arguments).port
    expected = BEGINNINGS[kind][2]
    kept = []

    def begin(connection, *fields, first=b""):
        kept.append(connection)
        connection.sendall(first)
        return begun(connection, kind, *fields)

    for fields in [(), ("X-Forwarded-For: unknown",), ("X-Forwarded-For:",), ("X-Forwarded-For: 127.0.0.9",)]:
        assert [begin(connect(port), *fields) for _ in range(2)] == [expected] * 2, fields
    assert [begin(connect(port), first=header("1.2.3.4", command=0x20)) for _ in range(2)] == [expected] * 2
    for _ in range(2):
        assert begin(connect_unix(path)) == expected
    # Those that it names are, however they come.
    assert begin(connect(port), "X-Forwarded-For: 198.51.100.1") == expected
    for connection in (connect(port), connect_unix(path)):
        assert begin(connection, "X-Forwarded-For: 198.51.100.1, 127.0.0.9") == "429"
    for connection in kept:
        connection.close()


def test_programs_of_this_machine_are_not_counted_as_one(servers, tmp_path):
    path = tmp_path / "pando.sock"
    arguments = ["--listen", "127.0.0.1:0", "--listen", f"unix:{path}", "--max-connections-per-address", "1"]
    server = servers(memory=True, arguments=arguments)
    kept = [connect_unix(path) for _ in range(3)] + [connect(server.port)]
    assert [begun(connection, "event stream") for connection in kept] == ["200"] * 4
    assert status(exchange(connect(server.port))) == "429"
    for connection in kept:
        connection.close()


@pytest.mark.parametrize("kind", ["websocket", "long polling"])
def test_refusals_through_tls_are_answered_once_the_handshake_is_done(servers, kind):
    arguments = [*PAIR, "--trusted-proxy", "127.0.0.1", "--max-connections-per-address", "1"]
    port = servers(memory=True, arguments=arguments).port
    client = "X-Forwarded-For: 198.51.100.1"
    with secure(port) as first, secure(port) as second:
        assert begun(first, kind, client) == BEGINNINGS[kind][2]
        assert begun(second, kind, client) == "429"
    # Before it nothing is said.
    with connect(port) as first, connect(port) as second:
        first.sendall(header("198.51.100.2"))
        kept = TRUSTING.wrap_socket(first, server_hostname="localhost")
        second.sendall(header("198.51.100.2"))
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            TRUSTING.wrap_socket(second, server_hostname="localhost")
        kept.close()


def test_a_long_forwarding_field_costs_little(servers):
    """Most of a head of 48 KiB: the end decides, and the rest is not looked at."""
    arguments = ["--trusted-proxy", "127.0.0.1", "--max-connections-per-address", "1", "--access-log"]
    server = servers(memory=True, arguments=arguments)
    with connect(server.port) as kept, connect(server.port) as proxy:
        assert begun(kept, "event stream", "X-Forwarded-For: 198.51.100.1") == "200"
        for value, expected in [
            ("," * 40_000 + "198.51.100.1", "429"), ("198.51.100.1" + "," * 40_000, "200"),
            ("198.51.100.1, " * 2800 + "198.51.100.2", "200"), ("x" * 40_000 + ", 198.51.100.1", "429"),
        ]:
            proxy.sendall(forwarded("GET /a.json", value))
            assert status(proxy.recv(1 << 16)) == expected


def test_other_limits_are_counted(servers):
    arguments = [
        "--max-head-bytes", "2000", "--max-write-bytes", "1000", "--chunk-limit", "2", "--max-listens", "1",
        "--max-on-disconnect", "1", "--admin-listen", "0",
    ]
    server = servers(memory=True, arguments=arguments)
    admin = Admin(server)
    assert status(exchange(connect(server.port), REQUEST.replace(b"Host", b"X: " + bytes(2000).replace(b"\0", b"x") + b"\r\nHost"))) == "431"
    with Wire(server.port) as rest:
        assert rest.ask("PUT", "/a.json", b'"' + b"x" * 1000 + b'"').status == 413
    with Connection(server.port) as connection:
        for action, body in [("q", {"h": ""}), ("o", {"d": 1})]:
            answers = [connection.ask(action, {"p": f"/{n}"} | body)["s"] for n in range(2)]
            assert answers == ["ok", "failed"]
    raw = Raw(server.port, extension=None)
    raw.frame()
    raw.send(0x81, b"3")
    assert raw.close_code() == 1009
    raw.socket.close()
    counts = limit_counts(admin)
    assert {limit for limit, count in counts.items() if count} == {
        "head_bytes", "body_bytes", "message_bytes", "listens", "on_disconnect"}


def test_connections_in_all(servers):
    server = servers(memory=True, arguments=["--max-connections", "2", "--admin-listen", "0"])
    server.wait_for_log("at most 2 clients are connected at once")
    kept = [held(server.port, b"")[0] for _ in range(3)]
    # The oldest that is idle was closed for the third.
    assert kept[0].recv(1) == b""
    assert limit_counts(Admin(server))["connections"] == 1
    for connection in kept:
        connection.close()


def test_limits_of_clients_change_while_the_server_runs(servers, tmp_path):
    """SIGHUP: a limit holds for what begins from then on, and can be taken away again."""
    file = tmp_path / "pando.json"
    file.write_text("{}")
    server = servers(memory=True, arguments=["--config", file, "--loops", "2"])
    kept = []

    def change(options, *changed):
        file.write_text(json.dumps(options))
        before = len(server.stderr(limit=1 << 30))
        server.signal(signal.SIGHUP)
        wait_for(lambda: f"options read again; {', '.join(changed)} changed" in server.stderr(limit=1 << 30)[before:])

    def begin():
        """A connection that stays."""
        kept.append(connect(server.port))
        return begun(kept[-1], "event stream")

    def write():
        """Over a connection of its own."""
        with Wire(server.port) as rest:
            return rest.ask("PUT", "/a.json", b"1", fields=[bearer(unsigned("ada"))]).status

    def sign_in():
        kept.append(Connection(server.port))
        return kept[-1].ask("auth", {"cred": unsigned("ada")})["s"]

    assert [begin() for _ in range(3)] == ["200"] * 3
    change({"max-connections-per-address": 1}, "max-connections-per-address")
    # The loops hear of it a moment later.
    wait_for(lambda: begin() == "429")
    change({"max-writes-per-second": 1}, "max-connections-per-address", "max-writes-per-second")
    wait_for(lambda: begin() == "200")
    with Wire(server.port) as rest:
        wait_for(lambda: rest.ask("PUT", "/a.json", b"1").status == 429)
    wait_for(lambda: write() == 429)
    change({"max-bytes-per-second": 2, "max-connections-per-user": 1},
           "max-connections-per-user", "max-writes-per-second", "max-bytes-per-second")
    wait_for(lambda: write() == 429)
    wait_for(lambda: sign_in() == "unavailable")
    change({}, "max-connections-per-user", "max-bytes-per-second")
    wait_for(lambda: sign_in() == "ok")
    with Wire(server.port) as rest:
        wait_for(lambda: {rest.ask("PUT", "/a.json", b"1").status for _ in range(40)} == {200})
    for connection in kept:
        connection.close()


def test_the_limit_of_all_connections_changes_while_the_server_runs(servers, tmp_path):
    """Silent connections above a lower limit make way for the next one; a higher limit admits more."""
    file = tmp_path / "pando.json"
    file.write_text('{"max-connections": 4}')
    server = servers(memory=True, dev=False, arguments=["--config", file, "--loops", "1", "--admin-listen", "0"])

    admin = Admin(server)

    def limit():
        return int(re.search(r"^pando_connection_limit ([0-9]+)$", admin.text(), re.MULTILINE)[1])

    def change(text):
        file.write_text(text)
        server.signal(signal.SIGHUP)

    silent = [connect(server.port) for _ in range(4)]
    wait_for(lambda: "pando_connections 4\n" in admin.text())
    assert limit() == 4
    change('{"max-connections": 1}')
    wait_for(lambda: limit() == 1)
    with Wire(server.port) as rest:
        assert rest.ask("GET", "/a.json").status == 401
    with pytest.raises(ConnectionResetError):
        silent[0].recv(1)
    change("{}")
    wait_for(lambda: limit() > 4)
    with Wire(server.port) as rest:
        assert rest.ask("GET", "/a.json").status == 401
    for one in silent:
        one.close()


def test_clients_without_tls_behind_a_proxy(servers):
    server = servers(memory=True, dev=False, arguments=["--trusted-proxy", "127.0.0.1", "--access-log"])
    with connect(server.port) as proxy:
        for proto in ("https", "http", "http"):
            proxy.sendall(forwarded("GET /a.json", "198.51.100.1", f"X-Forwarded-Proto: {proto}"))
            assert status(proxy.recv(1 << 16)) == "401"
    server.wait_for_log("scheme=http ")
    assert server.stderr().count("requests of clients without TLS (X-Forwarded-Proto), the last from 198.51.100.1") == 1
    assert "scheme=https" in server.stderr()


# The end


def test_clients_are_told_to_go_over_a_time(servers):
    server = servers(memory=True, arguments=["--drain-time", "2"])
    clients = [Raw(server.port, extension=None) for _ in range(20)]
    for client in clients:
        client.frame()
    began = time.monotonic()
    server.signal(15)
    ends = []
    for client in sorted(clients, key=lambda one: one.socket.fileno()):
        assert client.close_code() == 1001
        ends.append(time.monotonic() - began)
        client.send(0x88, b"\x03\xe9")
        client.socket.close()
    assert server.process.wait(START_DEADLINE) == 0
    # The last is told 19 steps of 0.1 s after the first.
    assert 1.5 < max(ends)
    with pytest.raises(ConnectionRefusedError):
        connect(server.port)


def test_event_streams_and_long_polls_are_ended_over_a_time(servers):
    """In the order in which they came: streams end, and polls are answered with the end of their session."""
    server = servers(memory=True, arguments=["--drain-time", "2", "--loops", "1"])
    kinds = {}
    for _ in range(8):
        stream, poll = connect(server.port), connect(server.port)
        assert begun(stream, "event stream") == "200"
        poll.sendall(f"{POLLING} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        start = poll.recv(1 << 16).decode()
        session, password = re.search(r"\('start', *'(\d+)', *'(\w+)'", start.replace('"', "'")).groups()
        poll.sendall(f"GET /.lp?id={session}&pw={password}&ser=1&ns=default HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        kinds |= {stream: "event stream", poll: "long polling"}
    # Behind them: the loop has read the polls.
    assert status(exchange(connect(server.port))) == "200"
    began = time.monotonic()
    server.signal(15)
    ends, answers = [], {connection: b"" for connection in kinds}
    open_ones = set(kinds)
    while open_ones:
        for connection in select.select(open_ones, [], [], DEADLINE)[0]:
            piece = connection.recv(1 << 16)
            answers[connection] += piece
            if not piece:
                ends.append((time.monotonic() - began, connection))
                open_ones.remove(connection)
        assert time.monotonic() - began < DEADLINE
    assert server.process.wait(START_DEADLINE) == 0
    for kind in ("event stream", "long polling"):
        times = [moment for moment, connection in ends if kinds[connection] == kind]
        assert len(times) == 8 and 1 < max(times) - min(times) < DEADLINE, (kind, times)
    streams = [connection for _, connection in ends if kinds[connection] == "event stream"]
    assert streams == [connection for connection in kinds if kinds[connection] == "event stream"], "the oldest first"
    for connection, answer in answers.items():
        assert kinds[connection] == "event stream" or b"pLPCommand('close')" in answer, answer
        connection.close()


def test_silent_clients_do_not_hold_up_the_end(servers):
    """They have been sent everything: a WebSocket that never answers the close frame, half a request, a request that has its
    response."""
    server = servers(memory=True)
    silent = Raw(server.port, extension=None)
    half, idle = connect(server.port), connect(server.port)
    half.sendall(b"GET /a.json HT")
    idle.sendall(b"GET /a.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert status(idle.recv(1 << 16)) == "200"
    assert server.terminate() == 0
    assert "have not read all output" not in server.stderr()
    assert silent.frame()[1] and silent.close_code() == 1001, "the handshake, then the end, which outlive the process"
    half.close()
    idle.close()


def test_what_a_client_has_not_read_is_waited_for(servers):
    server = servers(memory=True)
    with Connection(server.port, "default") as writer:
        for part in range(4):  # more than the kernel takes
            writer.must("p", {"p": f"/large/{part}", "d": "x" * (8 << 20)})
    slow = connect(server.port)
    slow.sendall(b"GET /large.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert slow.recv(1).startswith(b"H")
    assert server.terminate() == 0
    server.wait_for_log("have not read all output", timeout=0)
    slow.close()


def test_drain_without_clients_is_short(servers):
    server = servers(memory=True, arguments=["--drain-time", "600"])
    assert server.terminate() == 0

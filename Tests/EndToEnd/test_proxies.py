"""The examples for nginx, HAProxy and Caddy in `deploy`, each run in front of the server: TLS ends in the proxy, WebSockets,
long polling, event streams and bodies pass as they come, and the server knows the clients' addresses.

Only ports, files and the host name of an example are replaced. Clients come from 127.0.0.77 through a tunnel that adds TLS, so
that all clients of the other tests can be used. Each proxy has a server on a port, and one on a Unix socket, which is that of
the guide.
"""

import asyncio
import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import ssl
import stat
import subprocess
import threading
import time

import pytest

from admin import Admin
from pando_client import Connection
from rest_client import EventStream, Wire
from server import BINARY, REPOSITORY, Server, clean_environment

DEPLOY = REPOSITORY / "deploy"
FIXTURES = REPOSITORY / "Tests/TLS/Fixtures"
DEADLINE = 20  # seconds; only bounds a test that would otherwise hang; less than the 30 s between keep-alives
CLIENT = "127.0.0.77"
HOST = "localhost"  # the certificate's name
BIG = 8 << 20
OPTIONS = {"host": HOST, "ns": "default"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def replaced(text, **pairs):
    """Each pair has to be found: an example that changes must not lose what is tested."""
    for old, new in pairs.items():
        assert old in text, f"{old!r} is not in the example"
        text = text.replace(old, new)
    return text


class Tunnel:
    """Listens without TLS; each connection goes on to a port with TLS, from the clients' address."""

    def __init__(self, port):
        self.target = port
        self.loop = asyncio.new_event_loop()
        self.context = ssl.create_default_context(cafile=FIXTURES / "issuer.pem")
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        server = asyncio.run_coroutine_threadsafe(asyncio.start_server(self.serve, "127.0.0.1", 0), self.loop)
        self.port = server.result(DEADLINE).sockets[0].getsockname()[1]

    async def serve(self, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection(
                "127.0.0.1", self.target, ssl=self.context, server_hostname=HOST, local_addr=(CLIENT, 0))
        except OSError:
            return writer.close()
        await asyncio.gather(self.copy(reader, far_writer), self.copy(far_reader, writer), return_exceptions=True)

    @staticmethod
    async def copy(reader, writer):
        """Up to the end of one direction; then both end, since TLS has no other end."""
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        finally:
            # asyncio would wait for the other side's end of TLS before it ends TCP; programs that exit do not.
            writer.transport.abort() if writer.get_extra_info("ssl_object") else writer.close()

    def close(self):
        async def stop():
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), self.loop).result(DEADLINE)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(DEADLINE)


class Proxy:
    """A proxy's process, with the example from `deploy`."""

    name = None
    harmless = ()  # what its log says of the test's own settings

    def __init__(self, program, folder, server, admin_port):
        """The server is a port, or the path of a socket."""
        self.program, self.folder = program, folder
        self.server, self.admin_port = server, admin_port
        self.is_unix = not isinstance(server, int)
        self.log_path = folder / "log.txt"
        self.process = None

    def environment(self):
        """An unpacked package has its libraries beside it."""
        root = pathlib.Path(self.program).parents[1]
        libraries = [] if root == pathlib.Path("/usr") else sorted(root.glob("lib/*-linux-gnu"))
        return os.environ | {"HOME": str(self.folder), "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries))}

    def start(self):
        for _ in range(5):  # another process may have taken a port meanwhile
            self.plain_port, self.secure_port = free_port(), free_port()
            command = self.configure()
            with open(self.log_path, "wb") as log:
                self.process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment(), cwd=self.folder)
            if self.listens():
                return self
        raise AssertionError(f"{command} does not listen\n{self.log()}")

    def listens(self):
        deadline = time.monotonic() + DEADLINE
        for port in (self.plain_port, self.secure_port):
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except ConnectionRefusedError:
                    if self.process.poll() is not None or time.monotonic() > deadline:
                        return False
                    time.sleep(0.02)
        return self.process.poll() is None

    def log(self):
        return self.log_path.read_text(errors="replace")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Nginx(Proxy):
    name = "nginx"

    def configure(self):
        example = replaced((DEPLOY / "nginx.conf").read_text(), **{
            "listen 80;": f"listen 127.0.0.1:{self.plain_port};",
            "listen [::]:80;": "",
            "listen 443 ssl;": f"listen 127.0.0.1:{self.secure_port} ssl;",
            "listen [::]:443 ssl;": "",
            "/etc/letsencrypt/live/db.example.com/fullchain.pem": str(FIXTURES / "localhost.pem"),
            "/etc/letsencrypt/live/db.example.com/privkey.pem": str(FIXTURES / "localhost.key"),
            "db.example.com": HOST,
            "server 127.0.0.1:9000;": f"server unix:{self.server};" if self.is_unix else f"server 127.0.0.1:{self.server};",
        })
        (self.folder / "pando.conf").write_text(example)
        temporary = "\n".join(
            f"{name}_temp_path {self.folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        # One process: ending it ends all of it.
        (self.folder / "nginx.conf").write_text(
            f"daemon off; master_process off; pid {self.folder}/pid; error_log stderr warn; events {{ }}\n"
            f"http {{ access_log off; {temporary}\ninclude {self.folder}/pando.conf; }}\n")
        return [self.program, "-e", "stderr", "-c", str(self.folder / "nginx.conf"), "-p", str(self.folder)]


class HAProxy(Proxy):
    name = "haproxy"

    def configure(self):
        pair = self.folder / "pando.pem"
        pair.write_text((FIXTURES / "localhost.pem").read_text() + (FIXTURES / "localhost.key").read_text())
        (self.folder / "haproxy.cfg").write_text(replaced((DEPLOY / "haproxy.cfg").read_text(), **{
            "    log /dev/log local0\n    user haproxy\n    group haproxy\n": "    log stderr local0 err\n",
            "bind :80\n": f"bind 127.0.0.1:{self.plain_port}\n",
            "bind :443 ssl crt /etc/haproxy/pando.pem": f"bind 127.0.0.1:{self.secure_port} ssl crt {pair}",
            "server pando 127.0.0.1:9000": (
                f"server pando unix@{self.server} addr 127.0.0.1" if self.is_unix else f"server pando 127.0.0.1:{self.server}"),
            "port 9001 inter 5s": f"port {self.admin_port} inter 1s",
        }))
        return [self.program, "-db", "-f", str(self.folder / "haproxy.cfg")]


class Caddy(Proxy):
    name = "caddy"
    harmless = ("admin endpoint disabled", "no OCSP stapling")

    def configure(self):
        options = (
            f"{{\n\tadmin off\n\thttp_port {self.plain_port}\n\thttps_port {self.secure_port}\n"
            "\tdefault_bind 127.0.0.1\n\tstorage file_system " + str(self.folder / "storage") + "\n"
            # HTTP/3 would take a UDP port.
            "\tservers {\n\t\tprotocols h1 h2\n\t}\n\tlog {\n\t\tlevel WARN\n\t}\n}\n\n")
        (self.folder / "Caddyfile").write_text(options + replaced((DEPLOY / "Caddyfile").read_text(), **{
            "db.example.com {\n": f"{HOST} {{\n\ttls {FIXTURES / 'localhost.pem'} {FIXTURES / 'localhost.key'}\n",
            "reverse_proxy 127.0.0.1:9000": f"reverse_proxy unix/{self.server}" if self.is_unix else f"reverse_proxy 127.0.0.1:{self.server}",
        }))
        return [self.program, "run", "--config", str(self.folder / "Caddyfile"), "--adapter", "caddyfile"]


def guide_blocks(folder):
    """The commands of the guide about a Unix socket: before the server, its own, and in another terminal."""
    section = (REPOSITORY / "public/docs/guide.md").read_text().split("**With a proxy in front.**")[1].split("\n**")[0]
    block, requests = re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    places = {"/var/lib/pando": str(folder / "data"), "/run/pando.sock": str(folder / "pando.sock")}
    before, command = replaced(block, **places).removesuffix(")\n").rsplit("pando serve", 1)
    before, umask = before.rsplit("(", 1)
    return before + umask, command, replaced(requests, **{"/run/pando.sock": places["/run/pando.sock"]})


class GuideServer(Server):
    """The server of the guide, with its rules or others, and what the tests look at besides."""

    def __init__(self, folder, rules=None, arguments=()):
        super().__init__(folder)
        before, command, self.requests = guide_blocks(folder)
        replace = f"echo {shlex.quote(json.dumps(rules))} > proxy-rules.json\n" if rules else ""
        further = shlex.join(map(str, arguments))
        self.command = ["bash", "-euc", f"{before}{replace}exec {BINARY} serve{command.rstrip()} {further}"]
        self.path = folder / "pando.sock"


LOGS = ["--admin-listen", "0", "--access-log", "--log-format", "json"]


class World:
    """A server, a proxy before it, and a tunnel to the proxy."""

    def __init__(self, proxy_class, program, folder, is_unix):
        if is_unix:
            # What the tests read and write needs no token, but for the admin port's pages.
            self.token = "a secret of forty letters for these tests"
            (folder / "secret").write_text(self.token)
            arguments = [*LOGS, "--auth-secret-file", folder / "secret", "--allow-secret-as-admin"]
            self.server = GuideServer(folder / "server", {"rules": {".read": True, ".write": True}}, arguments).start()
        else:
            self.token = "owner"
            self.server = Server(folder / "server", memory=True, arguments=["--trusted-proxy", "127.0.0.1", *LOGS]).start()
        self.admin = Admin(self.server)
        (folder / "proxy").mkdir()
        self.proxy = self.tunnel = None
        try:
            target = self.server.path if is_unix else self.server.port
            self.proxy = proxy_class(program, folder / "proxy", target, self.admin.port)
            self.proxy.start()
            self.tunnel = Tunnel(self.proxy.secure_port)
        except BaseException:
            self.close()
            raise
        self.port = self.tunnel.port

    def close(self):
        if self.tunnel:
            self.tunnel.close()
        if self.proxy and self.proxy.process:
            self.proxy.stop()
        self.server.kill()

    def ask(self, method, target, body=None, fields=()):
        with Wire(self.port) as wire:
            return wire.ask(method, target, body, fields, host=HOST)

    def connect(self, **options):
        return Connection(self.port, **OPTIONS, **options)

    def stream(self, target):
        return EventStream(self.port, target, host=HOST)

    def request_of(self, request_id):
        """What the access log says of a request, once it is there."""
        deadline = time.monotonic() + DEADLINE
        while True:
            for line in self.server.stderr(limit=1 << 30).splitlines():
                if line.startswith("{") and json.loads(line).get("request_id") == request_id:
                    return json.loads(line)
            assert time.monotonic() < deadline, f"no request {request_id} in the log"
            time.sleep(0.02)

    def connections(self):
        return self.admin.json("/connz?limit=1000", token=self.token)

    def session_count(self):
        return self.connections()["count"]


@pytest.fixture(
    scope="module", params=[(proxy, is_unix) for is_unix in (False, True) for proxy in (Nginx, HAProxy, Caddy)],
    ids=lambda pair: pair[0].name + (" with a Unix socket" if pair[1] else ""))
def world(request, tmp_path_factory):
    proxy, is_unix = request.param
    program = shutil.which(proxy.name) or shutil.which(proxy.name, path="/usr/sbin:/usr/local/sbin")
    if not program:
        pytest.skip(f"{proxy.name} is not installed")
    made = World(proxy, program, tmp_path_factory.mktemp(proxy.name), is_unix)
    yield made
    print(made.proxy.log())
    made.close()


@pytest.mark.parametrize("transport", ["ws", "lp", "upgrade"])
def test_realtime(world, transport):
    path = f"/realtime-{transport}"
    with world.connect(transport=transport) as reader, world.connect(transport=transport) as writer:
        assert reader.ask("q", {"p": path, "h": ""})["s"] == "ok"
        reader.taken_pushes()
        value = "a" * 100_000  # several frames, and several requests by long polling
        assert writer.ask("p", {"p": path, "d": value})["s"] == "ok"
        while True:
            kind, _, body = reader.next_data()
            if kind == "push" and body["d"] == value:
                break


def test_an_event_stream_is_not_buffered_and_its_end_reaches_the_server(world):
    before = world.session_count()
    with world.stream("/stream.json") as stream:
        stream.put("/", None)
        for number in range(3):
            # Each event has to come before the next is caused.
            assert world.ask("PUT", "/stream.json", str(number)).status == 200
            stream.put("/", number)
    deadline = time.monotonic() + DEADLINE
    while world.admin.text("/metrics").find("\npando_event_streams 0\n") < 0:
        assert time.monotonic() < deadline, f"the stream is still there; {before} sessions before"
        time.sleep(0.05)


def test_bodies_of_any_size(world):
    value = json.dumps("b" * BIG)
    assert world.ask("PUT", "/big.json?print=silent", value).status == 204
    with Wire(world.port) as wire:
        # Without a length.
        wire.send(Wire.head("PUT", "/chunked.json?print=silent", [("Transfer-Encoding", "chunked")], host=HOST))
        wire.send(Wire.chunked(*(value[start:start + 60_000] for start in range(0, len(value), 60_000))))
        assert wire.receive().status == 204
        # On the same connection.
        assert wire.ask("GET", "/chunked.json", host=HOST).body == value.encode()
    assert world.ask("GET", "/big.json").body == value.encode()
    assert world.ask("GET", "/missing.json?unknown=" + "k" * 12_000).status == 200


def test_the_server_knows_the_clients_address(world):
    spoofed = [("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-Host", "evil.example")]
    for request_id, fields in (("plain", []), ("spoofed", spoofed)):
        assert world.ask("GET", "/a.json", fields=[("X-Request-ID", request_id), *fields]).status == 200
        peer = world.request_of(request_id)["peer"]
        assert peer.rpartition(":")[0] == CLIENT or peer == CLIENT, peer
    with world.connect() as connection:
        connection.get("/a")
        peers = [one["peer"] for one in world.connections()["connections"] if one["transport"] == "websocket"]
        assert any(peer.startswith(CLIENT) for peer in peers), peers


def test_the_server_tells_clients_to_reconnect_to_the_host_that_they_asked_for(world):
    """`Connection` checks `h` of the handshake; here a client claims another one."""
    with Wire(world.port) as wire:
        wire.send(Wire.head("GET", "/.ws?v=5&ns=default", [
            ("X-Forwarded-Host", "evil.example"), ("Upgrade", "websocket"), ("Connection", "Upgrade"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), ("Sec-WebSocket-Version", "13"),
        ], host=f"{HOST}:8443"))
        assert wire.receive_head().status == 101
        frame = wire.until(b"}}}", time.monotonic() + DEADLINE)
        assert f'"h":"{HOST}:8443"'.encode() in frame, frame


def test_plain_http_is_redirected(world):
    with Wire(world.proxy.plain_port) as wire:
        response = wire.ask("GET", "/a.json?shallow=true", host=HOST)
        assert response.status == 308
        location = response.header("Location")
        assert location.startswith("https://localhost") and location.endswith("/a.json?shallow=true"), location


def test_the_proxy_finds_nothing_to_warn_of(world):
    lines = [line for line in world.proxy.log().splitlines() if not any(one in line for one in world.proxy.harmless)]
    assert not [line for line in lines if "warn" in line.lower()], world.proxy.log()


def test_the_guides_block_leaves_the_shells_umask_as_it_was(tmp_path):
    """As a user copies it, with a program that only says which umask it has."""
    section = (REPOSITORY / "public/docs/guide.md").read_text().split("**With a proxy in front.**")[1]
    block = re.search(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[1]
    shell = "pando() { umask; }\numask 0022\n" + block + "umask\n"
    done = subprocess.run(["bash", "-euc", shell], capture_output=True, text=True, cwd=tmp_path, timeout=DEADLINE)
    assert (done.returncode, done.stdout) == (0, "0007\n0022\n"), done.stderr


def test_the_guides_server_behind_a_proxy(tmp_path):
    """The commands of the guide, one after the other: what a proxy asks for on the socket, which its group may use."""
    server = GuideServer(tmp_path)
    try:
        server.start()
        assert stat.S_IMODE(server.path.stat().st_mode) == 0o770
        done = subprocess.run(
            ["bash", "-euc", server.requests], capture_output=True, text=True, env=clean_environment(), timeout=DEADLINE)
        assert done.returncode == 0, done.stderr
        read, refused = done.stdout.split("{", 1)
        assert read == "null" and "Permission denied" in refused
        assert server.terminate() == 0
        assert not server.path.exists()
    finally:
        server.kill()

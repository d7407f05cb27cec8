"""permessage-deflate (RFC 7692) in `pando serve`: the library `websockets`, which has its own, and raw frames for what no
library sends. What single bytes do is in Tests/WebSocket and Tests/Connections."""

import asyncio
import base64
import json
import os
import socket
import ssl
import struct
import zlib

import pytest
from websockets.asyncio.client import connect
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory

import compression_figures
from deflate_client import inflated_byte_by_byte
from server import REPOSITORY

FIXTURES = REPOSITORY / "Tests/TLS/Fixtures"
DEADLINE = 30  # seconds; only bounds a test that would otherwise hang


def table(count):
    return {f"player {number}": {"name": f"Ada {number % 7}", "score": number} for number in range(count)}


TEXT = table(200)


def client(port, secure=False, ns="demo", **parameters):
    context = ssl.create_default_context(cafile=FIXTURES / "issuer.pem") if secure else None
    address = f"wss://localhost:{port}" if secure else f"ws://127.0.0.1:{port}"
    return connect(
        f"{address}/.ws?v=5&ns={ns}", host="127.0.0.1", ssl=context, compression=None, max_size=None, ping_interval=None,
        open_timeout=DEADLINE, extensions=[ClientPerMessageDeflateFactory(**parameters)],
    )


class Session:
    def __init__(self, connection):
        self.connection = connection
        self.number = 0

    async def receive(self):
        """The next message, put together from its frames (realtime §2.1)."""
        text = await asyncio.wait_for(self.connection.recv(), DEADLINE)
        if not text.isdigit():
            return json.loads(text)
        return json.loads("".join([await asyncio.wait_for(self.connection.recv(), DEADLINE) for _ in range(int(text))]))

    async def ask(self, action, body):
        self.number += 1
        await self.connection.send(json.dumps({"t": "d", "d": {"r": self.number, "a": action, "b": body}}))
        while True:
            message = (await self.receive())["d"]
            if message.get("r") == self.number:
                return message["b"]

    async def push(self):
        while True:
            message = (await self.receive())["d"]
            if message.get("a"):
                return message["b"]


@pytest.mark.parametrize("secure", [False, True], ids=["ws", "wss"])
def test_library(servers, secure):
    """Every parameter: small and large messages go both ways."""
    pair = ["--tls-cert", FIXTURES / "localhost.pem", "--tls-key", FIXTURES / "localhost.key"]
    port = servers(memory=True, arguments=pair if secure else []).port

    async def talk(number, **parameters):
        async with client(port, secure, **parameters) as one, client(port, secure) as two:
            agreed = one.protocol.extensions[0]
            assert agreed.remote_no_context_takeover and agreed.local_no_context_takeover
            assert agreed.remote_max_window_bits == parameters.get("server_max_window_bits", 15)
            writer, reader = Session(one), Session(two)
            for session in (writer, reader):
                await session.receive()
            assert (await reader.ask("q", {"p": f"/{number}", "h": ""}))["s"] == "ok"
            for value in ("small", TEXT, table(8000), {"a": "x" * 300_000}):
                assert (await writer.ask("p", {"p": f"/{number}", "d": value}))["s"] == "ok"
                while (await reader.push())["d"] != value:
                    pass
                assert (await writer.ask("g", {"p": f"/{number}"}))["d"] == value

    async def all():
        for number, parameters in enumerate(
            [
                {}, {"client_max_window_bits": True}, {"client_max_window_bits": 9}, {"server_max_window_bits": 9},
                {"server_max_window_bits": 8}, {"server_max_window_bits": 8, "client_max_window_bits": 9},
                {"server_max_window_bits": 12, "client_max_window_bits": 12}, {"server_max_window_bits": 15},
                {"server_no_context_takeover": True}, {"client_no_context_takeover": True},
            ]
        ):
            await talk(number, **parameters)

    asyncio.run(all())


# Raw frames


class Raw:
    def __init__(self, port, extension="permessage-deflate", ns="demo"):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET /.ws?v=5&ns={ns} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Upgrade: websocket", "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13",
        ]
        if extension:
            lines.append(f"Sec-WebSocket-Extensions: {extension}")
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self.bytes = b""
        while b"\r\n\r\n" not in self.bytes:
            self.more()
        head, self.bytes = self.bytes.split(b"\r\n\r\n", 1)
        assert head.startswith(b"HTTP/1.1 101"), head
        self.head = head.decode().lower()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def more(self):
        data = self.socket.recv(1 << 16)
        assert data, "the connection has ended"
        self.bytes += data

    def need(self, count):
        while len(self.bytes) < count:
            self.more()

    def frame(self):
        """The next frame as it came: its first byte, its payload."""
        self.need(2)
        size = {126: 2, 127: 8}.get(self.bytes[1], 0)
        self.need(2 + size)
        count = int.from_bytes(self.bytes[2 : 2 + size], "big") if size else self.bytes[1]
        end = 2 + size + count
        self.need(end)
        first, payload, self.bytes = self.bytes[0], self.bytes[2 + size : end], self.bytes[end:]
        return first, payload

    def send(self, first, payload, mask=b"\1\2\3\4"):
        count = len(payload)
        length = bytes([0x80 | count]) if count < 126 else b"\xfe" + struct.pack(">H", count)
        if count > 0xFFFF:
            length = b"\xff" + struct.pack(">Q", count)
        self.socket.sendall(
            bytes([first]) + length + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
        )

    def request(self, number, action, body, first=0xC1):
        text = json.dumps({"t": "d", "d": {"r": number, "a": action, "b": body}}).encode()
        self.send(first, deflated(text) if first & 0x40 else text)

    def close_code(self):
        while True:
            first, payload = self.frame()
            if first == 0x88:
                return int.from_bytes(payload[:2], "big")


def deflated(data, window=15):
    stream = zlib.compressobj(9, zlib.DEFLATED, -window)
    return (stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH))[:-4]


def inflated(data, window=15):
    return zlib.decompressobj(-window).decompress(data + b"\x00\x00\xff\xff")


@pytest.fixture
def port(servers):
    return servers(memory=True).port


def test_one_frame_for_all_receivers(port):
    """From 1 kB on a push is compressed, once: every receiver gets the same bytes. Smaller ones are plain."""
    with Raw(port) as one, Raw(port) as two, Raw(port, extension=None) as plain:
        assert "sec-websocket-extensions" not in plain.head
        for receiver in (one, two, plain):
            receiver.frame()
            receiver.request(1, "q", {"p": "/a", "h": ""}, first=0x81 if receiver is plain else 0xC1)
            assert b'"s":"ok"' in receiver.frame()[1] or b'"s":"ok"' in receiver.frame()[1]
        for value, is_compressed in (("x" * 900, False), ("x" * 1000, True), (TEXT, True), ("x" * 10, False)):
            one.request(2, "p", {"p": "/a", "d": value})
            frames = [receiver.frame() for receiver in (one, two, plain)]
            assert frames[0] == frames[1]
            assert frames[0][0] == (0xC1 if is_compressed else 0x81)
            assert frames[2][0] == 0x81
            assert json.loads(frames[2][1])["d"]["b"]["d"] == value
            if is_compressed:
                assert inflated(frames[0][1]) == frames[2][1] and len(frames[0][1]) < len(frames[2][1]) / 4
            else:
                assert frames[0][1] == frames[2][1]
            one.frame()  # the reply


def test_small_windows_can_read(port):
    """What a receiver with a window of 2^n bytes gets refers back at most so far."""
    rows = [os.urandom(150).hex() for _ in range(8)]
    value = {f"row {number}": rows[number % 8] for number in range(48)}
    for bits in (9, 10, 12, 14):
        with Raw(port, f"permessage-deflate; server_max_window_bits={bits}", ns=f"window-{bits}") as raw:
            assert f"server_max_window_bits={bits}" in raw.head
            raw.frame()
            raw.request(1, "p", {"p": "/a", "d": value})
            raw.frame()
            raw.request(2, "g", {"p": "/a"})
            first, payload = raw.frame()
            assert first == 0xC1
            assert json.loads(inflated_byte_by_byte(payload, bits))["d"]["b"]["d"] == value


def test_figures(capsys):
    """The program behind public/docs/performance.md: real JSON has a quarter of its bytes, and all listeners get the same frame."""
    table = compression_figures.main(["--listeners", "10", "--pushes", "5", "--rounds", "1", "--sizes", "4000"])
    row = table[4000]
    assert row["message"][0] == row["message"][1] > 4000
    plain, compressed = row["bytes"]
    assert plain == row["message"][0] + 4 and compressed < plain * 0.3
    assert min(row["microseconds"]) > 0 and min(row["peak"]) > 1
    assert len(capsys.readouterr().out.splitlines()) == 3


BOMB = deflated(b" " * (64 << 20))


@pytest.mark.parametrize(
    "frames, code",
    [
        ([(0xC1, b"\x06")], 1007),  # block of the reserved type
        ([(0xC1, b"\x00\x05\x00\x00\x00")], 1007),  # wrong length of a stored block
        ([(0xC1, b"")], 1007),  # not even an empty block
        ([(0xC1, b"\xf2\x48")], 1007),  # cut inside a block
        ([(0x41, deflated(b'{"t":"c"')), (0x80, b"\xff\xff\xff")], 1007),  # bytes behind the data, in a fragment
        ([(0xC1, BOMB)], 1009),
        ([(0x41, BOMB[:1000]), (0xC0, b"")], 1002),  # RSV1 in a continuation
        ([(0xA1, b"")], 1002),  # RSV2
        ([(0xC9, b"")], 1002),  # a compressed ping
        ([(0xC8, b"")], 1002),  # a compressed close
        ([(0xC2, b"\x00")], 1003),  # binary
    ],
)
def test_broken(port, frames, code):
    with Raw(port) as raw:
        raw.frame()
        for first, payload in frames:
            raw.send(first, payload)
        assert raw.close_code() == code


def test_takeover_was_declined(port):
    """A client that refers to its earlier messages all the same."""
    stream = zlib.compressobj(9, zlib.DEFLATED, -15)
    text = json.dumps({"t": "d", "d": {"r": 1, "a": "p", "b": {"p": "/a", "d": "a text that comes again"}}}).encode()
    payloads = [(stream.compress(text) + stream.flush(zlib.Z_SYNC_FLUSH))[:-4] for _ in range(2)]
    with Raw(port) as raw:
        assert "client_no_context_takeover" in raw.head and "server_no_context_takeover" in raw.head
        raw.frame()
        raw.send(0xC1, payloads[0])
        assert b'"s":"ok"' in raw.frame()[1]
        raw.send(0xC1, payloads[1])
        assert raw.close_code() == 1007


def test_reserved_bits_without_negotiation(port):
    with Raw(port, extension=None) as raw:
        raw.frame()
        raw.send(0xC1, b"\x00")
        assert raw.close_code() == 1002


def test_switched_off(servers):
    with Raw(servers(memory=True, arguments=["--no-deflate"]).port) as raw:
        assert "sec-websocket-extensions" not in raw.head

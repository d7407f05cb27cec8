"""`pando-echo` against the WebSocket library `websockets`, which has its own permessage-deflate: every parameter, window
and size. What RFC 7692 says about single bytes is in Tests/WebSocket."""

import asyncio
import contextlib
import itertools
import os
import random
import subprocess
import zlib

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory

from server import BINARY, clean_environment

ECHO = BINARY.parent / "pando-echo"
pytestmark = pytest.mark.skipif(not ECHO.exists(), reason=f"{ECHO} is not built: --product pando-echo")
SEED = int(os.environ.get("PANDO_SEEDS", "1").split("..")[0])


@contextlib.contextmanager
def echo(*arguments):
    process = subprocess.Popen(
        [str(ECHO), "--port", "0", *map(str, arguments)], stdout=subprocess.PIPE, text=True, env=clean_environment()
    )
    try:
        yield int(process.stdout.readline().rsplit(":", 1)[1])
        assert process.poll() is None, "pando-echo has ended"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def port():
    with echo("--deflate-threshold", 0) as port:
        yield port


def sample(generator, count):
    """Bytes in which there is something to compress, some noise among them."""
    pieces = []
    size = 0
    while size < count:
        kind = generator.randrange(3)
        if kind == 0:
            piece = b" " * generator.randrange(1, 300)
        elif kind == 1:
            piece = b'{"name":"Ada","score":%d},' % generator.randrange(1000)
        else:
            piece = generator.randbytes(40)
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)[:count]


def client(port, path="/", **parameters):
    return connect(
        f"ws://127.0.0.1:{port}{path}", compression=None, max_size=None, ping_interval=None,
        extensions=[ClientPerMessageDeflateFactory(**parameters)],
    )


def deflate(socket):
    """The extension of an open connection; None where it was not negotiated."""
    extensions = socket.protocol.extensions
    return extensions[0] if extensions else None


SIZES = [1, 2, 7, 64, 125, 126, 127, 1000, 4096, 65_535, 65_536, 131_072]


@pytest.mark.parametrize("server_bits", [None, 8, 9, 10, 12, 15])
@pytest.mark.parametrize("client_bits", [None, True, 9, 11, 15])
def test_every_parameter(port, server_bits, client_bits):
    """Both sides agree, and every message comes back, through the same window again and again."""

    async def run(server_forgets, client_forgets):
        generator = random.Random(SEED)
        parameters = {
            "server_no_context_takeover": server_forgets, "client_no_context_takeover": client_forgets,
            "server_max_window_bits": server_bits, "client_max_window_bits": client_bits,
        }
        async with client(port, **parameters) as socket:
            agreed = deflate(socket)
            assert agreed.remote_no_context_takeover == server_forgets
            assert agreed.local_no_context_takeover == client_forgets
            assert agreed.remote_max_window_bits == (server_bits or 15)
            assert agreed.local_max_window_bits == (15 if client_bits in (None, True) else client_bits)
            for count in SIZES + SIZES[::-1]:
                message = sample(generator, count)
                await socket.send(message)
                assert await socket.recv() == message, (parameters, count)
            await socket.send("κόσμε" * 1000)
            assert await socket.recv() == "κόσμε" * 1000

    for forgets in itertools.product([False, True], repeat=2):
        asyncio.run(run(*forgets))


# Whether the server and the client forget, and their windows. All sets, kinds of data and cuts are in test_echo_table.py, with
# fewer of the large messages.
SETS = [
    (False, False, 15, 15), (True, False, 15, 15), (False, True, 15, 15), (True, True, 15, 15),
    (False, False, 9, 9), (True, True, 9, 9), (False, False, 8, 12),
]
MANY_SIZES = [0, 16, 64, 256, 1024, 4096, 8192, 16_384, 32_768, 65_536, 131_072]


@pytest.mark.parametrize("server_forgets, client_forgets, server_bits, client_bits", SETS)
def test_many_messages(port, server_forgets, client_forgets, server_bits, client_bits):
    """A thousand messages of each size up to 128 KiB: the windows never drift apart. With small windows zlib takes five times
    as long, so that there are a hundred of the largest."""
    parameters = {
        "server_no_context_takeover": server_forgets, "client_no_context_takeover": client_forgets,
        "server_max_window_bits": server_bits, "client_max_window_bits": client_bits,
        # The client is Python: less work for the same windows.
        "compress_settings": {"level": 1},
    }

    async def run(count, times):
        generator = random.Random(f"{SEED} {count}")
        # `websockets` cannot compress two empty messages in a row.
        messages = [sample(generator, count or index % 2) for index in range(20)]
        async with client(port, **parameters) as socket:
            async def send():
                for index in range(times):
                    await socket.send(messages[index % len(messages)])

            sending = asyncio.create_task(send())
            for index in range(times):
                assert await socket.recv() == messages[index % len(messages)], (count, index)
            await sending

    for count in MANY_SIZES:
        asyncio.run(run(count, 1000 if server_bits == 15 or count <= 16_384 else 100))


def test_fragments(port):
    """Compressed messages in frames of any size, as `websockets` cuts them, with pings between."""

    async def run():
        generator = random.Random(SEED)
        async with client(port, client_max_window_bits=True) as socket:
            for _ in range(100):
                message = sample(generator, generator.choice([0, 5, 300, 5000, 70_000]))
                size = generator.choice([1, 17, 1000, 65_536]) if len(message) < 5000 else 10_000
                pieces = [message[start:start + size] for start in range(0, len(message), size)][:200] or [b"x"]

                async def cut(pieces=pieces):
                    for index, piece in enumerate(pieces):
                        if index % 7 == 3:
                            await socket.ping()
                        yield piece

                await socket.send(cut())
                assert await socket.recv() == b"".join(pieces)

    asyncio.run(run())


def test_empty_messages(port):
    """RFC 7692 §7.2.3.6: one byte. The server takes them, and writes them, between others."""

    async def run():
        for forgets in (False, True):
            async with client(port, server_no_context_takeover=forgets) as socket:
                for message in ["", "a", "", "", "b" * 2000, ""]:
                    if message:
                        await socket.send(message)
                    else:  # `websockets` cannot compress two empty messages in a row
                        await raw(socket, bytes([0xC1, 0x81, 0, 0, 0, 0, 0x00]))
                    assert await socket.recv() == message

    asyncio.run(run())


async def raw(socket, frame):
    socket.transport.write(frame)


def masked(first, payload):
    """A frame of a client, with a key of zeros. Payloads below 64 KiB."""
    size = len(payload)
    header = bytes([first, 0x80 | size]) if size < 126 else bytes([first, 0xFE]) + size.to_bytes(2, "big")
    return header + bytes(4) + payload


def deflated(message, bits=15):
    packer = zlib.compressobj(9, zlib.DEFLATED, -bits)
    return (packer.compress(message) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]


@pytest.mark.parametrize("frame, code", [
    (masked(0xC1, b"\x06"), 1007),  # a block type that does not exist
    (masked(0xC1, b""), 1007),  # no block
    (masked(0xC1, b"\xf2\x48\xcd"), 1007),  # half a block
    (masked(0xC1, deflated(b"\xff")), 1007),  # text that is not UTF-8
    (masked(0xC9, b""), 1002),  # a compressed ping
    (masked(0x41, b"\xf2") + masked(0xC0, b"\x00"), 1002),  # a continuation that says "compressed" again
    (masked(0xA1, b"x"), 1002),  # RSV2
    (masked(0xC2, deflated(bytes(30_000_000))), 1009),  # a bomb: 1000 times its size
], ids=str)
def test_violations(port, frame, code):
    async def run():
        async with client(port) as socket:
            await raw(socket, frame)
            with pytest.raises(ConnectionClosedError) as error:
                await socket.recv()
            assert error.value.rcvd.code == code

    asyncio.run(run())


def test_message_limit_counts_inflated_bytes():
    async def run(port):
        async with client(port) as socket:
            await socket.send(b"x" * 10_000)
            assert await socket.recv() == b"x" * 10_000
            await socket.send(b"x" * 10_001)
            with pytest.raises(ConnectionClosedError) as error:
                await socket.recv()
            assert error.value.rcvd.code == 1009

    with echo("--message-limit", 10_000) as port:
        asyncio.run(run(port))


def test_reserved_bit_without_negotiation(port):
    async def run():
        async with connect(f"ws://127.0.0.1:{port}/", compression=None) as socket:
            assert deflate(socket) is None
            await raw(socket, masked(0xC1, deflated(b"hello")))
            with pytest.raises(ConnectionClosedError) as error:
                await socket.recv()
            assert error.value.rcvd.code == 1002

    asyncio.run(run())


def test_flags():
    async def negotiated(port, **parameters):
        async with client(port, **parameters) as socket:
            await socket.send("a" * 5000)
            assert await socket.recv() == "a" * 5000
            return deflate(socket)

    with echo("--no-deflate") as port:
        assert asyncio.run(negotiated(port)) is None
    with echo("--no-deflate-takeover") as port:
        agreed = asyncio.run(negotiated(port))
        assert agreed.remote_no_context_takeover and agreed.local_no_context_takeover
    with echo("--deflate-memory", 100_000) as port:
        assert asyncio.run(negotiated(port)) is None, "no memory: plain"
        parameters = {"server_no_context_takeover": True, "client_no_context_takeover": True}
        assert asyncio.run(negotiated(port, **parameters)) is not None, "needs none"


def test_broadcast():
    """Listeners with every window, and one without compression: each gets each message once."""

    async def run(port):
        generator = random.Random(SEED)
        async with contextlib.AsyncExitStack() as stack:
            listeners = [
                await stack.enter_async_context(client(port, "/broadcast", server_max_window_bits=bits))
                for bits in [None, None, 15, 12, 9, 8]
            ]
            plain = f"ws://127.0.0.1:{port}/broadcast"
            listeners.append(await stack.enter_async_context(connect(plain, compression=None)))
            assert all(deflate(listener).remote_no_context_takeover for listener in listeners[:-1])
            for count in (10, 5000, 100, 70_000, 5000):
                message = sample(generator, count)
                await listeners[count % len(listeners)].send(message)
                for listener in listeners:
                    assert await listener.recv() == message

    for loops in (1, 3):
        with echo("--loops", loops) as port:
            asyncio.run(run(port))


def test_malformed_offer_is_refused(port):
    async def run():
        headers = {"Sec-WebSocket-Extensions": "permessage-deflate; ="}
        with pytest.raises(InvalidStatus) as error:
            await connect(f"ws://127.0.0.1:{port}/", compression=None, additional_headers=headers)
        assert error.value.response.status_code == 400

    asyncio.run(run())

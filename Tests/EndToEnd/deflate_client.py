"""A WebSocket client whose permessage-deflate (RFC 7692) is its own, with zlib alone: what it offers, what was agreed, every
frame as it came, and how far back a compressed message refers."""

import base64
import hashlib
import itertools
import os
import socket
import zlib
from dataclasses import dataclass

DEADLINE = 30  # seconds; only bounds a test that would otherwise hang
TEXT, BINARY, CLOSE = 1, 2, 8
FLUSH_END = b"\x00\x00\xff\xff"  # the end of each message, which is not sent (RFC 7692 §7.2.1)
SERVER_FORGETS, CLIENT_FORGETS = "server_no_context_takeover", "client_no_context_takeover"
SERVER_BITS, CLIENT_BITS = "server_max_window_bits", "client_max_window_bits"
SMALLEST, LARGEST = 8, 15  # a window has 2^n bytes
WEBSOCKET_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def offer_text(offer):
    """A dictionary of parameters; None is a parameter without a value."""
    values = ("" if value is None else f"={value}" for value in offer.values())
    return "; ".join(["permessage-deflate", *(name + value for name, value in zip(offer, values))])


def every_offer():
    """Every combination of the four parameters: 360."""
    windows = range(SMALLEST, LARGEST + 1)
    for server_forgets, client_forgets, server_bits, client_bits in itertools.product(
            (False, True), (False, True), ("absent", *windows), ("absent", None, *windows)):
        offer = {SERVER_FORGETS: None} if server_forgets else {}
        offer |= {CLIENT_FORGETS: None} if client_forgets else {}
        offer |= {SERVER_BITS: server_bits} if server_bits != "absent" else {}
        offer |= {CLIENT_BITS: client_bits} if client_bits != "absent" else {}
        yield offer


def parsed_response(text):
    """The parameters of a response: each once, known, and with the value that it must have (RFC 7692 §7.1)."""
    assert "," not in text, "one extension is accepted, once"
    name, *parts = [part.strip() for part in text.split(";")]
    assert name == "permessage-deflate", text
    response = {}
    for part in parts:
        name, has_value, value = part.partition("=")
        assert name not in response, f"{name} twice: {text}"
        if name in (SERVER_FORGETS, CLIENT_FORGETS):
            assert not has_value, text
            response[name] = None
        else:
            assert name in (SERVER_BITS, CLIENT_BITS), text
            assert value in map(str, range(SMALLEST, LARGEST + 1)), text
            response[name] = int(value)
    return response


@dataclass
class Agreement:
    server_takes_over: bool
    client_takes_over: bool
    server_bits: int
    client_bits: int


def agreement(offer, response):
    """What both sides do from now on. None where the response does not fit the offer (RFC 7692 §7.1)."""
    if SERVER_FORGETS in offer and SERVER_FORGETS not in response:
        return None
    if SERVER_BITS in offer and response.get(SERVER_BITS, LARGEST + 1) > offer[SERVER_BITS]:
        return None
    if CLIENT_BITS in response and CLIENT_BITS not in offer:
        return None
    own_bits = offer.get(CLIENT_BITS) or LARGEST
    return Agreement(
        server_takes_over=SERVER_FORGETS not in response,
        # A client that has offered to forget forgets, whether the response says so or not.
        client_takes_over=CLIENT_FORGETS not in response and CLIENT_FORGETS not in offer,
        server_bits=response.get(SERVER_BITS, LARGEST),
        client_bits=min(own_bits, response.get(CLIENT_BITS, LARGEST)),
    )


def masked(payload, key):
    """RFC 6455 §5.3, in one operation on large integers."""
    size = len(payload)
    mask = (key * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(mask, "big")).to_bytes(size, "big")


def client_frame(first, payload, key):
    """A frame by its first byte (RFC 6455 §5.2)."""
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    else:
        length = b"\xfe" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xff" + size.to_bytes(8, "big")
    return bytes([first]) + length + key + masked(payload, key)


class Compressor:
    """Of one direction."""

    def __init__(self, bits, takes_over, level=1):
        # zlib compresses with 9 bits at least. Its references reach 262 bytes less far than the window: 250 here, which fits 8 bits.
        self.settings = level, zlib.DEFLATED, -max(9, bits)
        self.takes_over = takes_over
        self.stream = zlib.compressobj(*self.settings)

    def compress(self, message):
        if not message:
            return b"\0"  # RFC 7692 §7.2.3.6; zlib writes nothing for a second flush without input
        data = self.stream.compress(message) + self.stream.flush(zlib.Z_SYNC_FLUSH)
        if not self.takes_over:
            self.stream = zlib.compressobj(*self.settings)
        assert data.endswith(FLUSH_END)
        return data.removesuffix(FLUSH_END)


class Inflater:
    """Of one direction, with exactly the window that was agreed."""

    def __init__(self, bits, takes_over):
        self.bits, self.takes_over = bits, takes_over
        self.stream = zlib.decompressobj(-bits)

    def inflate(self, payload):
        message = self.stream.decompress(payload + FLUSH_END)
        assert not self.stream.unused_data
        if not self.takes_over:
            self.stream = zlib.decompressobj(-self.bits)
        return message


def inflated_byte_by_byte(payload, bits, history=b""):
    """As `Inflater`, but for references within one message, too: zlib also looks up what it has written in the same call,
    however far back, so that each call may write a single byte. Raises zlib.error for a reference beyond the window."""
    stream = zlib.decompressobj(-bits, zdict=history) if history else zlib.decompressobj(-bits)
    data, output = payload + FLUSH_END, []
    for start in range(0, len(data), 64):
        rest = data[start:start + 64]
        while True:
            byte = stream.decompress(rest, 1)
            rest = stream.unconsumed_tail
            if not byte:
                break
            output.append(byte)
    return b"".join(output)


def window_needed(payload):
    """The smallest window (its bits) with which a message can be read that refers to none before it."""
    for bits in range(SMALLEST, LARGEST + 1):
        try:
            inflated_byte_by_byte(payload, bits)
            return bits
        except zlib.error:
            continue
    raise AssertionError("refers back by more than 32 KiB")


# RFC 1951 §3.2.5: the first distance of each code, of which two share a number of extra bits.
DISTANCE_CODES = [(1 + code, 0) if code < 2 else (1 + ((2 + code % 2) << (code // 2 - 1)), code // 2 - 1) for code in range(30)]
REFERENCE_LENGTH = 10


def reference(distance):
    """A compressed message by hand: the 10 bytes that stand `distance` bytes back."""
    code = max(index for index, (first, _) in enumerate(DISTANCE_CODES) if first <= distance)
    first, extra_bits = DISTANCE_CODES[code]
    bits = "0" + "10"  # not the last block; with the fixed codes, least significant bit first
    bits += "0001000"  # length code 264: 10 bytes
    bits += f"{code:05b}" + f"{distance - first:0{extra_bits}b}"[::-1] * bool(extra_bits)
    bits += "0000000"  # the end of the block
    bits += "000"  # the head of the empty stored block whose rest, FLUSH_END, is not sent
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[start:start + 8][::-1], 2) for start in range(0, len(bits), 8))


@dataclass
class Received:
    opcode: int
    message: bytes
    payload: bytes  # of all frames, as they came
    is_compressed: bool


class DeflateClient:
    """A connection with permessage-deflate, offered as one or several dictionaries of parameters; without an offer, plain."""

    def __init__(self, port, *offers, path="/", level=1):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
        self.buffer, self.at = b"", 0
        try:
            self.response_text = self.shake_hands(port, path, ", ".join(map(offer_text, offers)))
            self.key = os.urandom(4)
            if not offers:
                return
            response = parsed_response(self.response_text)
            fitting = [one for offer in offers if (one := agreement(offer, response))]
            assert fitting, f"{self.response_text!r} is no response to any of {offers}"
            self.agreed = fitting[0]
        except BaseException:
            self.socket.close()
            raise
        self.compressor = Compressor(self.agreed.client_bits, self.agreed.client_takes_over, level)
        self.inflater = Inflater(self.agreed.server_bits, self.agreed.server_takes_over)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def shake_hands(self, port, path, extensions):
        key = base64.b64encode(os.urandom(16))
        self.socket.sendall(b"\r\n".join([
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}".encode(), b"Upgrade: websocket", b"Connection: Upgrade",
            b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Key: " + key,
            *([b"Sec-WebSocket-Extensions: " + extensions.encode()] if extensions else []), b"", b"",
        ]))
        while b"\r\n\r\n" not in self.buffer:
            self.more()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        status, *lines = head.decode().split("\r\n")
        assert status.startswith("HTTP/1.1 101 "), head
        fields = [(name.lower(), value.strip()) for name, value in (line.split(":", 1) for line in lines)]
        accept = base64.b64encode(hashlib.sha1(key + WEBSOCKET_GUID).digest()).decode()
        assert ("sec-websocket-accept", accept) in fields
        responses = [value for name, value in fields if name == "sec-websocket-extensions"]
        assert len(responses) == bool(extensions)
        return responses[0] if responses else None

    def frames(self, opcode, payload, is_compressed=True, cut=0):
        """One message in frames of `cut` bytes each; 0 for one frame."""
        pieces = [payload[start:start + cut] for start in range(0, len(payload), cut)] if cut else [payload]
        for index, piece in enumerate(pieces):
            first = (opcode | 0x40 * is_compressed) if index == 0 else 0
            yield client_frame(first | 0x80 * (index == len(pieces) - 1), piece, self.key)

    def message(self, opcode, message, cut=0):
        return b"".join(self.frames(opcode, self.compressor.compress(message), cut=cut))

    def send(self, opcode, message, cut=0):
        self.socket.sendall(self.message(opcode, message, cut))

    def send_compressed(self, opcode, payload):
        """A message that was compressed elsewhere."""
        self.socket.sendall(b"".join(self.frames(opcode, payload)))

    def more(self):
        data = self.socket.recv(1 << 18)
        assert data, "the connection has ended"
        self.buffer, self.at = self.buffer[self.at:] + data, 0

    def take(self, count):
        while len(self.buffer) - self.at < count:
            self.more()
        self.at += count
        return self.buffer[self.at - count:self.at]

    def receive(self):
        """The next message; checks the form of each of its frames (RFC 6455 §5.2, RFC 7692 §6)."""
        opcode, is_compressed, payload = None, False, b""
        while True:
            first, second = self.take(2)
            assert not first & 0x30, "RSV2 and RSV3"
            assert second < 128, "a server does not mask"
            size = second
            if second >= 126:
                size = int.from_bytes(self.take(2 if second == 126 else 8), "big")
                assert size > (125 if second == 126 else 0xFFFF), "the shortest form of a length"
            if opcode is None:
                opcode, is_compressed = first & 0x0F, bool(first & 0x40)
                assert opcode in (TEXT, BINARY, CLOSE)
                assert not (opcode == CLOSE and is_compressed)
            else:
                assert first & 0x4F == 0, "a continuation has RSV1, or an opcode"
            payload += self.take(size)
            if first & 0x80:
                message = self.inflater.inflate(payload) if is_compressed else payload
                return Received(opcode, message, payload, is_compressed)

    def close_code(self):
        received = self.receive()
        assert received.opcode == CLOSE, received
        return int.from_bytes(received.payload[:2], "big")

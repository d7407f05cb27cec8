"""permessage-deflate as a table, against `pando-echo`, with a client of its own (`deflate_client.py`): every offer and what
RFC 7692 §7.1 allows in response, and the 216 cases of the categories 12 and 13 of the Autobahn suite: five kinds of data,
seven sets of parameters, ten sizes and eight ways to cut messages into frames.

The suite sends 1000 messages for each case. Here 1000 are sent of small ones, and of larger ones as many as make up CASE_BYTES:
half a minute in place of eight. PANDO_DEFLATE_MESSAGES=1000 sends 1000 of each.
"""

import itertools
import json
import os
import random
import zlib

import pytest

from deflate_client import (
    BINARY, CLIENT_BITS, CLIENT_FORGETS, LARGEST, REFERENCE_LENGTH, SERVER_BITS, SERVER_FORGETS, SMALLEST, TEXT, Compressor,
    DeflateClient, agreement, every_offer, inflated_byte_by_byte, offer_text, parsed_response, reference, window_needed,
)
from test_echo import echo, port, pytestmark  # noqa: F401 (a fixture, and: without the program nothing here runs)

CASE_BYTES = 1 << 20
MOST_MESSAGES = 1000
MESSAGES = int(os.environ.get("PANDO_DEFLATE_MESSAGES", 0))
FEWEST_MESSAGES = 16
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def noise(generator, count):
    """Text in which nothing of three letters comes twice, but by chance."""
    return bytes(LETTERS[byte & 63] for byte in generator.randbytes(count))


# Every offer


def spread(generator, bits):
    """A text that is repeated at a distance of 0.7 windows, to which zlib refers, and at 1.3, to which no reference is allowed."""
    window = 1 << bits
    text = noise(generator, 120)
    return b"".join([text, noise(generator, window * 7 // 10 - 120), text, noise(generator, window * 13 // 10), text])


@pytest.mark.parametrize("bits", range(SMALLEST, LARGEST + 1))
def test_window_needed(bits):
    """The client's own checks find a sender that refers back too far."""
    message = spread(random.Random(bits), bits)
    assert window_needed(Compressor(bits, False).compress(message)) == (bits if bits > 9 else SMALLEST)
    if bits < LARGEST:
        assert window_needed(Compressor(LARGEST, False).compress(message)) > bits
    history = noise(random.Random(bits), 1 << bits)
    for distance in (REFERENCE_LENGTH, 100, 1 << bits):
        assert inflated_byte_by_byte(reference(distance), bits, history) == (history[-distance:])[:REFERENCE_LENGTH]
    if bits < LARGEST:  # deflate has no larger distances
        with pytest.raises(zlib.error):
            inflated_byte_by_byte(reference((1 << bits) + 1), bits, noise(random.Random(bits), 2 << bits))


def check_server_messages(client, generator):
    """The window is used and respected; earlier messages are referred to where that was agreed, and nowhere else."""
    agreed = client.agreed
    message = spread(generator, agreed.server_bits)
    client.send(TEXT, message)
    received = client.receive()
    assert received.message == message and received.is_compressed
    assert window_needed(received.payload) == (agreed.server_bits if agreed.server_bits > 9 else SMALLEST)
    text = noise(generator, 120)
    client.send(TEXT, text)
    client.send(TEXT, text)
    first, second = client.receive(), client.receive()
    assert first.message == second.message == text
    if agreed.server_takes_over:
        assert second.is_compressed and len(second.payload) < 20 < len(first.payload)
    else:
        assert second.payload == first.payload and len(first.payload) > 80


def check_client_messages(client, generator):
    """The server keeps what the client may refer to, and no more."""
    agreed = client.agreed
    text = noise(generator, 120)
    sizes = [len(client.compressor.compress(text)) for _ in range(2)]
    assert (sizes[1] < 20) == agreed.client_takes_over, "the client does as agreed"
    # A message as it is, in a stored block, and then ten bytes of it: zlib itself never refers back by a whole window.
    window = 1 << agreed.client_bits
    history = noise(generator, window)
    stored = b"\0" + len(history).to_bytes(2, "little") + (0xFFFF - len(history)).to_bytes(2, "little") + history + b"\0"
    client.send_compressed(TEXT, stored)
    assert client.receive().message == history
    if agreed.client_takes_over:
        client.send_compressed(TEXT, reference(window))
        assert client.receive().message == history[:REFERENCE_LENGTH]
        if agreed.client_bits == LARGEST:
            return
        # zlib has no window of 256 bytes for raw deflate: the server keeps 512.
        client.send_compressed(TEXT, reference(max(window, 512) + REFERENCE_LENGTH + 1))
    else:
        client.send_compressed(TEXT, reference(REFERENCE_LENGTH))
    assert client.close_code() == 1007


@pytest.mark.parametrize("takes_over", [True, False], ids=["with takeover", "without takeover"])
def test_every_offer(takes_over):
    """360 offers: the response fits the offer, and both sides do what it says."""
    seen = set()
    with echo("--deflate-threshold", 0, *([] if takes_over else ["--no-deflate-takeover"])) as port:
        for number, offer in enumerate(every_offer()):
            with DeflateClient(port, offer) as client:
                # The echo grants all that it is asked for.
                agreed = client.agreed
                assert agreed.server_bits == offer.get(SERVER_BITS, LARGEST), offer
                assert agreed.client_bits == (offer.get(CLIENT_BITS) or LARGEST), offer
                assert agreed.server_takes_over == (takes_over and SERVER_FORGETS not in offer), offer
                assert agreed.client_takes_over == (takes_over and CLIENT_FORGETS not in offer), offer
                seen.add(client.response_text)
                generator = random.Random(number)
                try:
                    check_server_messages(client, generator)
                    check_client_messages(client, generator)
                except Exception as error:
                    raise AssertionError(f"{offer_text(offer)} → {client.response_text}") from error
    # Every combination of parameters occurs in a response.
    assert len(seen) == (2 * 2 if takes_over else 1) * 9 * 9


@pytest.mark.parametrize("offers", [
    # The first that can be met, in the client's order; the others are for servers that cannot meet it.
    [{SERVER_FORGETS: None, SERVER_BITS: 9}, {SERVER_FORGETS: None}, {}],
    [{SERVER_BITS: 15, CLIENT_BITS: None}, {SERVER_BITS: 9}],
    [{}, {SERVER_BITS: 8, SERVER_FORGETS: None}],
    [{CLIENT_BITS: 8, CLIENT_FORGETS: None}, {CLIENT_BITS: None}],
], ids=lambda offers: ", ".join(map(offer_text, offers)))
def test_the_first_of_several_offers(port, offers):  # noqa: F811
    with DeflateClient(port, *offers) as client, DeflateClient(port, offers[0]) as alone:
        assert client.response_text == alone.response_text
        check_server_messages(client, random.Random(1))
        check_client_messages(client, random.Random(1))


def test_every_offer_to_the_database(servers):
    """`pando serve` declines takeover for both sides, and grants every window."""
    port = servers(memory=True).port
    for offer in every_offer():
        with DeflateClient(port, offer, path="/.ws?v=5&ns=default") as client:
            response = parsed_response(client.response_text)
            assert response.keys() >= {SERVER_FORGETS, CLIENT_FORGETS}
            assert client.agreed == agreement(offer, response)
            assert client.agreed.server_bits == offer.get(SERVER_BITS, LARGEST)
            assert client.agreed.client_bits == (offer.get(CLIENT_BITS) or LARGEST)


# 216 cases


def players(generator):
    return json.dumps([
        {"id": noise(generator, 20).decode(), "name": f"Ada {number % 97}", "score": generator.randrange(100_000),
         "position": [generator.random(), generator.random()], "tags": ["new"] * (number % 3), "online": number % 2 == 0}
        for number in range(1400)
    ], separators=(",", ":")).encode()


def bitmap(generator):
    """512 × 512 points of eight bits: shades with some noise."""
    return b"BM" + bytes(
        (x * y // 1024 + (x >> 3) + (generator.randrange(4) if y & 64 else 0)) & 0xFF for y in range(512) for x in range(512))


def prose(generator):
    """German and Greek words of which a few come often: letters of one byte and of two."""
    words = ["".join(generator.choice("abdeghilmnorstuäöüß") for _ in range(generator.randint(2, 11))) for _ in range(3000)]
    words += ["".join(generator.choice("αβγδεηικλμνοπρστως") for _ in range(generator.randint(2, 9))) for _ in range(300)]
    chosen = (words[min(int(generator.expovariate(1 / 300)), len(words) - 1)] for _ in range(32_000))
    return " ".join(word + (",\n" if index % 9 == 8 else "") for index, word in enumerate(chosen)).encode()


def page(generator):
    return b"".join(
        b'<tr class="row%d"><td><a href="/players/%s">Player %d</a></td><td align="right">%d</td></tr>\n' % (
            number % 2, noise(generator, 8), number, generator.randrange(10_000))
        for number in range(2600))


def document(generator):
    """Text objects between streams that are compressed already."""
    return b"".join(
        b"%d 0 obj\n<< /Type /Page /Parent 1 0 R /Length 4000 >>\nstream\n%s\nendstream\nendobj\n" % (
            number, generator.randbytes(4000)) for number in range(250))


KINDS = {"JSON": (TEXT, players), "bitmap": (BINARY, bitmap), "prose": (TEXT, prose), "HTML": (TEXT, page), "PDF": (BINARY, document)}
PLAIN_OFFER = {CLIENT_BITS: None}
SETS = [("12", kind, [PLAIN_OFFER]) for kind in KINDS] + [
    ("13", "JSON", offers) for offers in [
        [{}],
        [{SERVER_FORGETS: None, CLIENT_FORGETS: None}],
        [{SERVER_BITS: 9, CLIENT_BITS: 9}],
        [{SERVER_BITS: 15, CLIENT_BITS: 15}],
        [{SERVER_FORGETS: None, CLIENT_FORGETS: None, SERVER_BITS: 9, CLIENT_BITS: 9}],
        [{SERVER_FORGETS: None, CLIENT_FORGETS: None, SERVER_BITS: 15, CLIENT_BITS: 15}],
        [{SERVER_FORGETS: None, SERVER_BITS: 8, CLIENT_BITS: 12}, {SERVER_FORGETS: None}, {SERVER_BITS: 9}, {}],
    ]
]
# Size of the messages, and of the frames that they are cut into; 0 is one frame.
ROWS = [(size, 0) for size in (16, 64, 256, 1024, 4096, 8192, 16_384, 32_768, 65_536, 131_072)]
ROWS += [(size, 256) for size in (8192, 16_384, 32_768, 65_536, 131_072)] + [(131_072, cut) for cut in (1024, 4096, 16_384)]
CASES = list(itertools.product(SETS, ROWS))
PIPELINED_BYTES = 64 << 10  # sent before anything is received: several messages in one segment of TCP
assert len(CASES) == 216
made = {}


def data_of(kind):
    if kind not in made:
        made[kind] = KINDS[kind][1](random.Random(kind))
    return made[kind]


def messages_of(kind, size, count):
    """Pieces of the data, one behind the other; of text, whole letters."""
    opcode, data = KINDS[kind][0], data_of(kind)
    endless = data * (size // len(data) + 2)
    for number in range(count):
        start = number * size % len(data)
        piece = endless[start:start + size]
        yield piece.decode(errors="ignore").encode().ljust(size) if opcode == TEXT else piece


def name_of(case):
    (category, kind, offers), (size, cut) = case
    return f"{category} {kind}, {size} bytes{f' in frames of {cut}' if cut else ''}, {', '.join(map(offer_text, offers))}"


def check_size(client, received, message):
    """Compressed where that was agreed for every message, or makes it shorter."""
    if client.agreed.server_takes_over:
        assert received.is_compressed
    elif received.is_compressed:
        assert len(received.payload) < len(message)
    else:
        assert len(Compressor(client.agreed.server_bits, False).compress(message)) >= len(message) * 0.9


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_case(port, case):  # noqa: F811
    (_, kind, offers), (size, cut) = case
    opcode = KINDS[kind][0]
    count = MESSAGES or max(FEWEST_MESSAGES, min(MOST_MESSAGES, CASE_BYTES // size))
    with DeflateClient(port, *offers) as client:
        waiting, compressed_bytes = [], 0
        messages = messages_of(kind, size, count)
        while batch := list(itertools.islice(messages, max(1, PIPELINED_BYTES // size))):
            client.socket.sendall(b"".join(client.message(opcode, message, cut) for message in batch))
            for message in batch:
                received = client.receive()
                assert received.opcode == opcode and received.message == message
                check_size(client, received, message)
                compressed_bytes += len(received.payload)
    if kind != "PDF" and size >= 256:
        assert compressed_bytes < count * size * 0.8

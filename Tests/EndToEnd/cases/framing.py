"""Frames and chunks, both ways (§2)."""

import json

from pando_client import CHUNK, Closed, byte_chunks, compact, surrogate_split_chunks, units, utf16_chunks
from transcript import FRAMES, case


def put_of_length(length, fill="a"):
    """A put of a string to /big whose message has exactly this many UTF-16 units, and the string."""
    shell = {"t": "d", "d": {"r": 1, "a": "p", "b": {"p": "/big", "d": ""}}}
    count, rest = divmod(length - units(compact(shell)), units(fill))
    text = fill * count + "a" * rest
    shell["d"]["b"]["d"] = text
    assert units(compact(shell)) == length
    return compact(shell), text


def sends(chunks):
    """A function of (message length, filling) that makes a player: send the put in such chunks, read it back."""

    def with_length(length, fill="a"):
        def play(world):
            message, text = put_of_length(length, fill)
            connection = world.connect()
            connection.waiting.append((1, "p", None))
            connection.send_text(message, chunks)
            assert connection.response(1) == {"s": "ok", "d": ""}
            assert world.connect().get("/big") == text

        return play

    return with_length


by_units, by_bytes = sends(utf16_chunks), sends(byte_chunks)


def split_pair(world):
    """JS, iOS and Android may cut inside a surrogate pair. What arrives then depends on the stack; here the two halves
    come as three-byte forms. The value must come out whole or the write must not happen; the server must live.
    """
    shell = '{"t":"d","d":{"r":1,"a":"p","b":{"p":"/big","d":"'
    text = "a" * (CHUNK - 1 - len(shell)) + "🐵" + "b" * 100
    pieces = surrogate_split_chunks(shell + text + '"}}}')
    assert len(pieces) == 2 and pieces[0].endswith(b"\xed\xa0\xbd")
    connection = world.connect()
    connection.waiting.append((1, "p", None))
    try:
        connection.send_frame("2")
        for piece in pieces:
            connection.send_frame(piece)
        status = connection.response(1)["s"]
    except Closed:
        status = "closed"
    got = world.connect().get("/big")
    assert got == (text if status == "ok" else None), (status, got and got[-110:])


def replaced_pair(world):
    """The same cut through a browser: each half has become U+FFFD before it was sent. That is valid text."""
    message = '{"t":"d","d":{"r":1,"a":"p","b":{"p":"/big","d":"' + "a" * 20000 + '\ufffd\ufffd"}}}'
    connection = world.connect()
    connection.waiting.append((1, "p", None))
    connection.send_text(message)
    assert connection.response(1)["s"] == "ok"
    assert world.connect().get("/big") == "a" * 20000 + "\ufffd\ufffd"


def inside_a_character(world):
    """C++ cuts by bytes: each of the four bytes of an emoji may be the last of its frame."""
    for cut in (1, 2, 3):
        message = compact({"t": "d", "d": {"r": 1, "a": "p", "b": {"p": f"/c{cut}", "d": "x🐵é漢y"}}}).encode()
        at = message.index("🐵".encode()) + cut
        connection = world.connect()
        connection.waiting.append((1, "p", None))
        for frame in ("2", message[:at], message[at:]):
            connection.send_frame(frame)
        assert connection.response(1)["s"] == "ok"
        assert world.connect().get(f"/c{cut}") == "x🐵é漢y"


def one_byte_chunks(world):
    message = compact({"t": "d", "d": {"r": 1, "a": "p", "b": {"p": "/a", "d": "é🐵"}}}).encode()
    connection = world.connect()
    connection.waiting.append((1, "p", None))
    connection.send_frame(str(len(message)))
    for at in range(len(message)):
        connection.send_frame(message[at : at + 1])
    assert connection.response(1)["s"] == "ok"
    assert connection.get("/a") == "é🐵"


def server_chunks(fill, count):
    """A long value comes back in chunks that `Connection` checks (≤ 16384 units, valid UTF-8) and reassembles."""

    def play(world):
        reader, writer = world.client(), world.connect()
        listen = reader.listen("/big")
        text = fill * count
        writer.must("p", {"p": "/big", "d": text})
        reader.sync()
        assert listen.node.value == text
        assert writer.get("/big") == text

    return play


def every_cut_position(world):
    """Emoji at the 16384th unit, for several alignments: the server never cuts inside a pair."""
    reader, writer = world.client(), world.connect()
    listen = reader.listen("/big")
    for shift in range(4):
        text = "a" * shift + "🐵" * 9000
        writer.must("p", {"p": "/big", "d": text})
        reader.sync()
        assert listen.node.value == text


def exact_server_sizes(world):
    """Answers of exactly 16383, 16384 and 16385 units: the first two in one frame, the third in chunks."""
    writer = world.connect()
    for length in (CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 1):
        raw = world.raw()
        raw.receive_text()
        shell = len('{"t":"d","d":{"r":1,"b":{"s":"ok","d":""}}}')
        writer.must("p", {"p": "/s", "d": "a" * (length - shell)})
        raw.send_frame('{"t":"d","d":{"r":1,"a":"g","b":{"p":"/s","q":{}}}}')
        first = raw.receive_text()
        if length <= CHUNK:
            assert len(first) == length and json.loads(first)["d"]["b"]["s"] == "ok"
        else:
            parts = [raw.receive_text() for _ in range(int(first))]
            assert sum(map(len, parts)) == length and max(map(len, parts)) <= CHUNK
            assert json.loads("".join(parts))["d"]["b"]["s"] == "ok"


def large_message(world):
    """15.10: a put of 40 000 characters under the writer's own listen: 3 chunks out, 3 back, then the ok."""
    raw = world.raw()
    raw.receive_text()
    raw.send_frame('{"t":"d","d":{"r":4,"a":"q","b":{"p":"/big","h":""}}}')
    assert json.loads(raw.receive_text())["d"] == {"r": 4, "b": {"s": "ok", "d": {}}}
    message = compact({"t": "d", "d": {"r": 5, "a": "p", "b": {"p": "/big", "d": "a" * 40000}}})
    for frame in ("3", message[:CHUNK], message[CHUNK : 2 * CHUNK], message[2 * CHUNK :]):
        raw.send_frame(frame)
    assert raw.receive_text() == "3"
    parts = [raw.receive_text() for _ in range(3)]
    assert [len(part) for part in parts[:2]] == [CHUNK, CHUNK]
    assert json.loads("".join(parts))["d"] == {"a": "d", "b": {"p": "big", "d": "a" * 40000}}
    assert json.loads(raw.receive_text())["d"] == {"r": 5, "b": {"s": "ok", "d": ""}}


def put_frames(r=1, path="/a"):
    return compact({"t": "d", "d": {"r": r, "a": "p", "b": {"p": path, "d": r}}})


def count_frames(*frames_before):
    """Odd frames first, then a normal put, which must be answered."""

    def play(world):
        connection = world.connect()
        for frame in frames_before:
            connection.send_frame(frame)
        connection.must("p", {"p": "/a", "d": 1})
        assert connection.get("/a") == 1

    return play


def count_of_one(world):
    connection = world.connect()
    connection.waiting.append((1, "p", None))
    connection.send_frame("1")
    connection.send_frame(put_frames())
    assert connection.response(1)["s"] == "ok"


def leading_zeros(world):
    connection = world.connect()
    connection.waiting.append((1, "p", None))
    message = put_frames()
    for frame in ("000002", message[:10], message[10:]):
        connection.send_frame(frame)
    assert connection.response(1)["s"] == "ok"


def digits_inside_chunks(world):
    """While chunks are collected a frame of digits is data, not a count, and `0` no keep-alive."""
    connection = world.connect()
    connection.waiting.append((1, "p", None))
    for frame in ("5", '{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":', "1", "0", "7", "}}}"):
        connection.send_frame(frame)
    assert connection.response(1)["s"] == "ok"
    assert connection.get("/a") == 107


def pings_between_chunks(world):
    """WebSocket pings may come between the chunks of a message, and are answered with their payload."""
    raw = world.raw()
    raw.receive_text()
    message = put_frames()
    raw.send_frame("2")
    raw.send_frame(message[:20])
    raw.send_frame(b"are you there", raw.PING)
    assert raw.receive_frame()[1:] == (raw.PONG, b"are you there")
    raw.send_frame(message[20:])
    assert json.loads(raw.receive_text())["d"]["r"] == 1


def fragmented_frames(world):
    """Clients may fragment a text message at the WebSocket level; the parts are one frame to us."""
    raw = world.raw()
    raw.receive_text()
    message = compact({"t": "d", "d": {"r": 1, "a": "p", "b": {"p": "/a", "d": "🐵é"}}}).encode()
    at = message.index("🐵".encode()) + 2
    raw.send_frame(message[:5], raw.TEXT, fin=False)
    raw.send_frame(message[5:at], 0, fin=False)
    raw.send_frame(b"", raw.PING)
    raw.send_frame(b"", 0, fin=False)
    raw.send_frame(message[at:], 0)
    assert raw.receive_frame()[1:] == (raw.PONG, b"")
    assert json.loads(raw.receive_text())["d"] == {"r": 1, "b": {"s": "ok", "d": ""}}


def many_messages_in_one_packet(world):
    raw = world.raw()
    raw.receive_text()
    packet = b""
    for r in range(1, 101):
        payload = put_frames(r).encode()
        packet += bytes([0x81]) + bytes([0x80 | len(payload)]) + b"\0\0\0\0" + payload
    raw.tcp.sendall(packet)
    assert [json.loads(raw.receive_text())["d"]["r"] for _ in range(100)] == list(range(1, 101))


def byte_by_byte(world):
    raw = world.raw()
    raw.receive_text()
    payload = put_frames().encode()
    packet = bytes([0x81, 0x80 | len(payload)]) + b"\0\0\0\0" + payload
    for at in range(len(packet)):
        raw.tcp.sendall(packet[at : at + 1])
    assert json.loads(raw.receive_text())["d"]["b"]["s"] == "ok"


def exact_multiple_of_cpp(world):
    """C++ announces a chunk too many for exact multiples of 16384. Recovery is optional: the next message, which
    begins with `{`, may be answered, or the connection may wait or close. The server must live.
    """
    message, _ = put_of_length(CHUNK)
    connection = world.connect()
    connection.send_frame("2")
    connection.send_frame(message)
    other = world.connect()
    other.must("p", {"p": "/other", "d": 1})
    assert other.get("/other") == 1


CASES = [
    *[case(f"a message of {length} units is understood", "17.2 #11", by_units(length))
      for length in (CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 1, 100_000)],
    *[case(f"a message of {length} units in byte chunks is understood", "17.2 #11", by_bytes(length), over=FRAMES)
      for length in (CHUNK, CHUNK + 1, 100_000)],
    case("emoji filling many chunks, cut by units", "17.2 #11", by_units(60_001, "🐵")),
    case("emoji filling many chunks, cut by bytes inside characters", "17.2 #11", by_bytes(60_001, "🐵"), over=FRAMES),
    case("three-byte characters cut by bytes", "17.2 #11", by_bytes(50_000, "漢"), over=FRAMES),
    case("a cut inside a surrogate pair, halves in three-byte forms", "2.1", split_pair, over=FRAMES),
    case("a cut inside a surrogate pair, halves replaced by the browser", "2.1", replaced_pair),
    case("a cut after each byte of an emoji", "2.1", inside_a_character, over=FRAMES),
    case("chunks of one byte each", "2.1", one_byte_chunks, over=FRAMES),
    case("the server cuts a long ASCII value", "15.10", server_chunks("a", 200_000)),
    case("the server cuts a long value of emoji", "17.2 #12", server_chunks("🐵", 60_000)),
    case("the server cuts a long value of three-byte characters", "17.2 #12", server_chunks("漢", 60_000)),
    case("the server never cuts inside a pair, whatever the alignment", "17.2 #12", every_cut_position),
    case("answers of exactly a chunk's length are one frame", "2.1", exact_server_sizes, over=FRAMES),
    case("a large message: three chunks in, three out, then the ok", "15.10", large_message, over=FRAMES),
    case("keep-alive frames get no answer", "17.2 #10", count_frames("0", "0", "0"), over=FRAMES),
    case("an empty text frame is ignored", "2.2", count_frames(""), over=FRAMES),
    case("a frame of a dash is ignored", "2.2", count_frames("-"), over=FRAMES),
    case("a count of one is legal", "2.2", count_of_one, over=FRAMES),
    case("a count with leading zeros of six digits", "2.2", leading_zeros, over=FRAMES),
    case("digits while chunks are collected are data", "2.2", digits_inside_chunks, over=FRAMES),
    case("WebSocket pings between chunks", "15.10", pings_between_chunks, over=FRAMES),
    case("a fragmented WebSocket message, cut inside a character", "1.1", fragmented_frames, over=FRAMES),
    case("a hundred messages in one packet", "2", many_messages_in_one_packet, over=FRAMES),
    case("a message that comes byte by byte", "2", byte_by_byte, over=FRAMES),
    case("the chunk too many of C++ affects no other client", "2.1", exact_multiple_of_cpp, over=FRAMES),
]

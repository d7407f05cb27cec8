"""What no client sends: the connection is closed or the request refused, and the server lives (4.0, U12, RFC 6455)."""

import os
import socket
import time

from pando_client import DEADLINE, Closed, ProtocolError
from transcript import FRAMES, case


def still_serves(world):
    other = world.connect(ns=world.ns + "-after")
    other.must("p", {"p": "/a", "d": 1})
    assert other.get("/a") == 1


def closes(name, text, section="4.0"):
    """The frame ends the connection without an answer; other connections are served; nothing was written."""

    def play(world):
        connection = world.connect()
        connection.send_frame(text)
        heard = connection.expect_closed()
        assert all(message["t"] == "c" for message in heard), heard
        still_serves(world)
        assert world.connect().get("/") is None

    return case(f"{name}: the connection closes", section, play)


def survives(name, text, section="4.0"):
    """Refused or closed, as the server likes; it lives, and nothing was written."""

    def play(world):
        connection = world.connect()
        connection.waiting.append((1, "p", None))
        try:
            connection.send_text(text) if isinstance(text, str) else connection.send_frame(text)
            assert connection.response(1)["s"] != "ok", "accepted"
        except (Closed, ConnectionError):
            pass
        still_serves(world)
        assert world.connect().get("/") is None

    return case(f"{name}: refused or closed", section, play)


def request(body, action="p", r="1"):
    return f'{{"t":"d","d":{{"r":{r},"a":"{action}","b":{body}}}}}'


def raw_frames(name, play_raw, section="RFC 6455"):
    """Bytes that break the WebSocket protocol end the connection; `play_raw` sends them."""

    def play(world):
        raw = world.raw()
        raw.receive_text()
        try:
            play_raw(raw)
        except ConnectionError:
            pass  # closed while we were still sending: that is the answer
        raw.expect_closed()
        still_serves(world)
        assert world.connect().get("/") is None

    return case(f"{name}: the connection closes", section, play, over=FRAMES)


PUT = request('{"p":"/a","d":1}')


def unmasked(raw):
    raw.send_frame(PUT, masked=False)


def oversize_count(world):
    """17 MB announced: above the suggested cap (14) the connection closes at once, before any chunk."""
    connection = world.connect()
    connection.send_frame("99999")
    assert all(message["t"] == "c" for message in connection.expect_closed())
    still_serves(world)


def unfinished_chunks(world):
    connection = world.connect()
    connection.send_frame("3")
    connection.send_frame('{"t":"d",')
    connection.cut()
    still_serves(world)


def binary(world):
    """All frames are text (2). A binary frame closes the connection, or is ignored; it never writes."""
    raw = world.raw()
    raw.receive_text()
    try:
        raw.send_frame(PUT, raw.BINARY)
        raw.send_frame(b"", raw.PING)
        while raw.receive_frame()[1] not in (raw.PONG, raw.CLOSE):
            pass
    except (Closed, ConnectionError):
        pass
    still_serves(world)


def close_is_answered(world):
    raw = world.raw()
    raw.receive_text()
    raw.send_frame((1000).to_bytes(2, "big"), raw.CLOSE)
    assert raw.expect_closed() in (1000, 1005)


def half_a_head(world):
    tcp = socket.create_connection(("127.0.0.1", world.port))
    tcp.sendall(b"GET /.ws?v=5 HTTP/1.1\r\nHost: localhost")
    tcp.close()
    still_serves(world)


def garbage_head(world):
    for data in (os.urandom(2000), b"\r\n" * 1000, b"GET " + b"a" * 200_000, b"\x16\x03\x01" + os.urandom(200)):
        tcp = socket.create_connection(("127.0.0.1", world.port), timeout=2)
        try:
            tcp.sendall(data)
            tcp.shutdown(socket.SHUT_WR)
            while tcp.recv(65536):
                pass
        except (ConnectionError, TimeoutError):
            pass
        tcp.close()
    still_serves(world)


def bad_upgrades(world):
    """Upgrades that lack what RFC 6455 4.2.1 demands get a status that is not 101."""
    good = {
        "Host": "localhost", "Upgrade": "websocket", "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    for change in ({"Sec-WebSocket-Key": None}, {"Sec-WebSocket-Version": "12"}, {"Upgrade": None}, {"Connection": None},
                   {"Sec-WebSocket-Key": "short"}):
        headers = {name: value for name, value in {**good, **change}.items() if value is not None}
        tcp = socket.create_connection(("127.0.0.1", world.port), timeout=5)
        lines = ["GET /.ws?v=5&ns=demo HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        tcp.sendall("\r\n".join([*lines, "", ""]).encode())
        head = tcp.recv(4096)
        assert head.startswith(b"HTTP/1.1 ") and not head.startswith(b"HTTP/1.1 101"), (change, head[:100])
        tcp.close()
    still_serves(world)


def duplicate_keys(world):
    """RFC 8259 leaves duplicate keys open: the last one counts, as to `JSON.parse` and our clients' other parsers."""
    stamp = '{".sv":{"increment":5}}'
    for number, (text, wanted) in enumerate([
        ('{"x":1,"y":3,"x":2}', {"x": 2, "y": 3}),
        ('{"x":1,"y":{"z":1,"z":{"w":2},"z":7},"x":null}', {"y": {"z": 7}}),
        (f'{{"x":{stamp},"y":3,"x":2}}', {"x": 2, "y": 3}),
        (f'{{"x":2,"y":{stamp},"x":{stamp}}}', {"x": 5, "y": 5}),
        (f'{{"x":{{"a":{stamp},"b":{stamp},"a":1}},"y":1,"y":{{"c":{stamp}}}}}', {"x": {"a": 1, "b": 5}, "y": {"c": 5}}),
        (f'{{"x":{{"a":{stamp}}},"x":{{"a":0}}}}', {"x": {"a": 0}}),
    ]):
        connection = world.connect()
        for r, (action, where) in enumerate((("p", "put"), ("m", "merge"), ("o", "later"), ("om", "later-merge")), 1):
            path = f"/{where}/{number}"
            connection.waiting.append((r, action, None))
            connection.send_frame(f'{{"t":"d","d":{{"r":{r},"a":"{action}","b":{{"p":"{path}","d":{text}}}}}}}')
            assert connection.response(r)["s"] == "ok", (action, text)
        for where in ("put", "merge"):
            assert connection.get(f"/{where}/{number}") == wanted, (where, text)
        connection.close()
        other = world.connect()
        deadline = time.monotonic() + DEADLINE
        for where in ("later", "later-merge"):
            while (seen := other.get(f"/{where}/{number}")) != wanted:
                assert time.monotonic() < deadline, (where, text, seen)
    still_serves(world)


def odd_queries(world):
    """Query objects no SDK makes: any answer, no crash, no hang."""
    queries = [
        {"l": 0}, {"l": -1}, {"l": 1.5}, {"l": "2"}, {"l": 2**31}, {"l": 1e300}, {"i": 5}, {"i": ""}, {"i": ".x"}, {"i": "a.b"},
        {"i": ".key", "sp": 5}, {"i": ".key", "sp": None}, {"sp": {}}, {"sp": [1]}, {"sn": 5, "sp": 1}, {"sn": "a"}, {"vf": "x", "l": 1},
        {"sin": "yes", "sp": 1}, {"unknown": 1}, {"i": "/".join("k" * 1000)}, {"l": True}, {"en": "a"}, 5, "x", [], None, [{}],
    ]
    for query in queries:
        for action, extra in (("g", {}), ("q", {"t": 1, "h": ""}), ("n", {"t": 1})):
            connection = world.connect()
            try:
                connection.ask(action, {"p": "/a", "q": query, **extra})
            except Closed:
                pass
            except ProtocolError as error:
                raise ProtocolError(f"{action} with {query}: {error}") from None
            connection.close()
    still_serves(world)


DEEP = (33, 100, 2000, 100_000)

CASES = [
    closes("not JSON", "this is not json"),
    closes("JSON cut short", PUT[:-1]),
    closes("something after the JSON", PUT + "}"),
    closes("two messages in one frame", PUT + PUT),
    closes("a trailing comma", '{"t":"d","d":{"r":1,"a":"s","b":{"c":{}},}}'),
    closes("single quotes", "{'t':'d'}"),
    closes("a comment", PUT + "// x"),
    closes("NaN", request('{"p":"/a","d":NaN}')),
    closes("a number with a leading zero", request('{"p":"/a","d":01}')),
    closes("a raw control character in a string", request('{"p":"/a","d":"x\ny"}')),
    closes("a bad escape", request(r'{"p":"/a","d":"\x"}')),
    closes("a bad unicode escape", request(r'{"p":"/a","d":"\u12g4"}')),
    closes("an array instead of an envelope", "[1,2]"),
    closes("a string instead of an envelope", '"hello there"'),
    closes("an empty object", "{}"),
    closes("an envelope without t", '{"d":{"r":1,"a":"s","b":{}}}'),
    closes("an envelope without d", '{"t":"d"}'),
    closes("an envelope whose d is a string", '{"t":"d","d":"x"}'),
    closes("a request without an action", '{"t":"d","d":{"r":1,"b":{"p":"/a","d":1}}}'),
    closes("a request without a body", '{"t":"d","d":{"r":1,"a":"p"}}'),
    closes("a put without a path", request('{"d":1}')),
    closes("a put without data", request('{"p":"/a"}')),
    closes("a listen without a path", request('{"h":""}', "q")),
    survives("a path that is a number", request('{"p":5,"d":1}')),
    survives("a request number that is a string", request('{"p":"/a","d":1}', r='"1"')),
    survives("a fractional request number", request('{"p":"/a","d":1}', r="1.5")),
    survives("a request number beyond 64 bits", request('{"p":"/a","d":1}', r="99999999999999999999")),
    closes("invalid UTF-8", b'{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":"\xff"}}}', "4.0"),
    closes("an overlong UTF-8 form", b'{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":"\xc0\xaf"}}}', "4.0"),
    closes("UTF-8 beyond U+10FFFF", b'{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":"\xf4\x90\x80\x80"}}}', "4.0"),
    closes("a character cut off at the end", b'{"t":"d","d":{"r":1,"a":"p","b":{"p":"/a","d":"x"}}}\xf0\x9f', "4.0"),
    *[survives(f"objects nested {depth} deep", request('{"p":"/a","d":' + '{"k":' * depth + "1" + "}" * depth + "}"))
      for depth in DEEP],
    *[survives(f"arrays nested {depth} deep", request('{"p":"/a","d":' + "[" * depth + "1" + "]" * depth + "}"))
      for depth in DEEP],
    survives("unclosed brackets, 100000 of them", "[" * 100_000),
    survives("a path of 100000 segments", request('{"p":"' + "/k" * 100_000 + '","d":1}')),
    survives("a number of 100000 digits and an exponent", request('{"p":"/a","d":' + "9" * 100_000 + "e400}")),
    survives("an exponent of a hundred digits", request('{"p":"/a","d":1e' + "9" * 100 + "}")),
    case("duplicate keys: the last one counts", "4.0", duplicate_keys),
    case("odd query objects are answered or close the connection", "7.1", odd_queries),
    case("a binary frame never writes", "2", binary, over=FRAMES),
    case("an oversize count frame closes the connection", "14", oversize_count, over=FRAMES),
    case("a connection lost between chunks", "2.1", unfinished_chunks, over=FRAMES),
    raw_frames("an unmasked frame", unmasked),
    raw_frames("a reserved bit", lambda raw: raw.send_frame(PUT, reserved=4)),
    raw_frames("a reserved opcode", lambda raw: raw.send_frame(PUT, 3)),
    raw_frames("a reserved control opcode", lambda raw: raw.send_frame("", 0xB)),
    raw_frames("a fragmented ping", lambda raw: raw.send_frame("x", raw.PING, fin=False)),
    raw_frames("a ping of 126 bytes", lambda raw: raw.send_frame("x" * 126, raw.PING)),
    raw_frames("a continuation of nothing", lambda raw: raw.send_frame(PUT, 0)),
    raw_frames("a new text inside a fragmented one",
               lambda raw: (raw.send_frame("{", fin=False), raw.send_frame(PUT))),
    raw_frames("a frame length with the top bit set", lambda raw: raw.send_frame("x", length=1 << 63)),
    raw_frames("a frame of a terabyte", lambda raw: raw.send_frame("x", length=1 << 40)),
    case("a close frame is answered", "RFC 6455", close_is_answered, over=FRAMES),
    case("half an HTTP head", "1.1", half_a_head, over=FRAMES),
    case("garbage instead of an HTTP head", "1.1", garbage_head, over=FRAMES),
    case("upgrades that lack a header are refused", "1.1", bad_upgrades, over=FRAMES),
]

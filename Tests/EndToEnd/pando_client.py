"""A client of the realtime protocol, written from the wire protocol document alone.

`Connection` is one connection over any of the transports (`transports.py`): messages out, messages in, in arrival order,
each checked for the shape that the strictest official client needs. `RawSocket` speaks bytes, for what no well-behaved
client would send. `Cache` is what a client SDK keeps of its listens. Every wait has a deadline.
"""

import base64
import os
import socket
import struct
import time
from collections import deque

import tree
from transports import (  # noqa: F401 (others take them from here)
    CHUNK, DEADLINE, Closed, ProtocolError, byte_chunks, compact, open_transport, shorten, surrogate_split_chunks, units,
    utf16_chunks,
)


def check_shape(message):
    """What every message must look like so that no official client stumbles (0.1, 3.2, 3.3, 5)."""

    def need(condition, rule):
        if not condition:
            raise ProtocolError(f"{rule}: {shorten(message)}")

    need(isinstance(message, dict) and set(message) == {"t", "d"}, "3.1 an envelope has exactly t and d")
    body = message["d"]
    need(message["t"] in ("c", "d"), "3.1 t is c or d")
    if message["t"] == "c":
        need("t" in body and "d" in body, "3.2 a control message has a verb and always a d")
        return
    need("error" not in body, "3.3 never a data message with an error member")
    if "r" in body:
        need(type(body["r"]) is int, "3.3 r is an integer")
        need(isinstance(body.get("b"), dict), "3.3 a response has a body")
        need(isinstance(body["b"].get("s"), str), "3.3 a response has a status")
        need("d" in body["b"], "3.3 a response always has d")
        return
    need(set(body) == {"a", "b"}, "5 a push has exactly a and b")
    push = body["b"]
    if body["a"] in ("d", "m", "rm", "c"):
        need(isinstance(push.get("p"), str), "5 a push has a path")
        need(not push["p"].startswith("/"), "5 a push path has no leading slash")
    if body["a"] in ("d", "m", "rm"):
        need("d" in push, "5.1 a data push has d, even when null")
        need("t" not in push or type(push["t"]) is int, "0.1 rule 4: t is an integer or absent")
    if body["a"] == "m":
        need(isinstance(push["d"], dict) and push["d"], "5.2 never an empty merge")


class Connection:
    """One connection of the realtime protocol, handshake done. `transport` is `ws`, `lp` or `upgrade`."""

    def __init__(
        self, port, ns="demo", *, ls=None, version="5", host=None, query=None, handshake=True, first_r=1, transport="ws",
        **options,
    ):
        if query is None:
            query = f"v={version}" + (f"&ls={ls}" if ls else "") + (f"&ns={ns}" if ns is not None else "")
        self.host = host or f"127.0.0.1:{port}"
        self.transport = open_transport(transport, port, self.host, query, **options)
        self.port, self.ns = port, ns
        self.next_r = first_r
        self.waiting = deque()  # (r, action, body) of unanswered requests, in the order sent
        self.pushes = deque()  # data pushes that arrived while a response was awaited
        self.hello = self.handshake() if handshake else None
        self.session = self.hello["s"] if self.hello else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Sending

    def send_frame(self, text):
        """One text frame; by long polling, one message of these bytes."""
        self.transport.send_frame(text)

    def send_text(self, text, chunks=utf16_chunks):
        """One message, chunked if it is longer than a frame may be."""
        self.transport.send_text(text, chunks)

    def send(self, message, chunks=utf16_chunks):
        self.send_text(compact(message), chunks)

    def keep_alive(self):
        self.transport.keep_alive()

    def request(self, action, body, r=None, chunks=utf16_chunks):
        """Sends one request without waiting; answers its number."""
        if r is None:
            r, self.next_r = self.next_r, self.next_r + 1
        self.waiting.append((r, action, body))
        self.send({"t": "d", "d": {"r": r, "a": action, "b": body}}, chunks)
        return r

    # Receiving

    def receive(self, timeout=None):
        """The next whole message of any kind, reassembled and checked."""
        patience = timeout or DEADLINE
        try:
            message = self.transport.receive(time.monotonic() + patience)
        except TimeoutError:
            unanswered = list(self.waiting)[:5]
            raise ProtocolError(f"nothing arrived within {patience} s; unanswered: {unanswered}") from None
        check_shape(message)
        return message

    def handshake(self):
        message = self.receive()
        hello = message["d"].get("d")
        if message["t"] != "c" or message["d"]["t"] != "h":
            raise ProtocolError(f"3.2 the first message is the handshake, got {shorten(message)}")
        if type(hello["ts"]) is not int or hello["ts"] <= 2**31:
            raise ProtocolError(f"3.2 ts is an integer above 2^31, got {hello['ts']!r}")
        if hello["v"] != "5" or not isinstance(hello["s"], str) or not hello["s"]:
            raise ProtocolError(f"3.2 a handshake with v 5 and a session id, got {hello}")
        if hello["h"] != self.host:
            raise ProtocolError(f"0.1 rule 10: h is the Host of the request ({self.host}), got {hello['h']!r}")
        return hello

    def next_data(self):
        """The body of the next data message: `("response", r, b)` or `("push", action, b)`."""
        message = self.receive()
        if message["t"] != "d":
            raise ProtocolError(f"expected a data message, got {shorten(message)}")
        body = message["d"]
        if "r" not in body:
            return "push", body["a"], body["b"]
        if not self.waiting:
            raise ProtocolError(f"0.1 rule 1: a reply to no request: {shorten(message)}")
        r, action, asked = self.waiting.popleft()
        if body["r"] != r:
            raise ProtocolError(f"0.1 rule 1: expected the answer to r={r}, got {shorten(message)}")
        if action == "q" and body["b"]["s"] == "ok" and not isinstance(body["b"]["d"], dict):
            raise ProtocolError(f"0.1 rule 3: a listen ok has an object in d: {shorten(message)}")
        return "response", r, body["b"]

    def response(self, r):
        """Waits for the answer to request `r`; pushes that come before it are queued in `pushes`."""
        while True:
            kind, name, body = self.next_data()
            if kind == "push":
                self.pushes.append((name, body))
            elif name == r:
                return body

    def ask(self, action, body, **options):
        """One request and its answer, `{"s":…,"d":…}`."""
        return self.response(self.request(action, body, **options))

    def must(self, action, body, **options):
        """One request that has to succeed; answers `d`."""
        answer = self.ask(action, body, **options)
        if answer["s"] != "ok":
            raise ProtocolError(f"{action} {shorten(body)} was refused: {shorten(answer)}")
        return answer["d"]

    def get(self, path, query=None):
        return self.must("g", {"p": path, "q": query or {}})

    def fence(self):
        """A round trip through the database: when it returns, everything committed before has been pushed here."""
        self.ask("g", {"p": "/fence", "q": {}})

    def taken_pushes(self):
        """The pushes queued so far; the queue is empty afterwards."""
        taken = list(self.pushes)
        self.pushes.clear()
        return taken

    # Ending

    def expect_closed(self):
        """Waits for the server to end the connection; anything it said before is returned."""
        heard, deadline = [], time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            try:
                heard.append(self.receive())
            except Closed:
                return heard
        raise ProtocolError("the connection stayed open")

    def close(self):
        """A polite end: close frame both ways, or `disconn`."""
        self.transport.close()

    def cut(self):
        """The network goes away: FIN without a close frame. By long polling: the page is left."""
        self.transport.cut()

    def reset(self):
        """The process dies: RST."""
        self.transport.reset()


class RawSocket:
    """A TCP connection that did the upgrade by hand and sends any bytes as frames."""

    TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA

    def __init__(self, port, ns="demo", path=None, headers=(), host=None):
        self.tcp = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)
        self.host = host or f"127.0.0.1:{port}"
        lines = [
            f"GET {path or f'/.ws?v=5&ns={ns}'} HTTP/1.1",
            f"Host: {self.host}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            *headers,
        ]
        self.tcp.sendall("\r\n".join([*lines, "", ""]).encode())
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            self.fill()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        self.status = int(head.split()[1])
        self.head = head.decode("latin-1")

    def fill(self):
        data = self.tcp.recv(65536)
        if not data:
            raise Closed("end of stream")
        self.buffer += data

    def need(self, count):
        while len(self.buffer) < count:
            self.fill()
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def send_frame(self, payload, opcode=TEXT, *, fin=True, masked=True, reserved=0, length=None):
        """One frame; `length` lies about the payload's size when given."""
        payload = payload.encode() if isinstance(payload, str) else payload
        count = len(payload) if length is None else length
        head = bytes([(0x80 if fin else 0) | reserved << 4 | opcode])
        bit = 0x80 if masked else 0
        if count < 126:
            head += bytes([bit | count])
        elif count < 65536:
            head += struct.pack(">BH", bit | 126, count)
        else:
            head += struct.pack(">BQ", bit | 127, count)
        if masked:
            key = b"\x01\x02\x03\x04"
            payload = bytes(byte ^ key[index & 3] for index, byte in enumerate(payload))
            head += key
        self.tcp.sendall(head + payload)

    def receive_frame(self):
        """(FIN and reserved bits, opcode, payload) of the next frame."""
        first, second = self.need(2)
        count = second & 0x7F
        if count == 126:
            (count,) = struct.unpack(">H", self.need(2))
        elif count == 127:
            (count,) = struct.unpack(">Q", self.need(8))
        if second & 0x80:
            raise ProtocolError("RFC 6455 5.1: a server must not mask")
        return first & 0xF0, first & 0x0F, self.need(count)

    def receive_text(self):
        """The next text frame's payload, answering nothing; the handshake included."""
        while True:
            bits, opcode, payload = self.receive_frame()
            if opcode == self.TEXT:
                if bits != 0x80:
                    raise ProtocolError("1.1 each part is one unfragmented text frame")
                return payload.decode("utf-8")
            if opcode == self.CLOSE:
                raise Closed(f"close frame {payload[:2].hex()}")

    def expect_closed(self):
        """Waits for the end of the stream (or a reset); answers the close code, if a close frame came."""
        code = None
        try:
            while True:
                _, opcode, payload = self.receive_frame()
                if opcode == self.CLOSE:
                    code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else 1005
                    return code
        except (Closed, ConnectionError):
            return code
        except TimeoutError:
            raise ProtocolError("the connection stayed open") from None
        finally:
            self.tcp.close()

    def close(self):
        self.tcp.close()


class Listen:
    """One listen of a cache: where, which query, under which tag, and what is known."""

    def __init__(self, path, query, tag, known=None):
        self.path, self.query, self.tag, self.node = tree.segments(path), query, tag, known

    def body(self, with_hash=True, cuts=None):
        body = {"p": "/" + "/".join(self.path)}
        if self.query is not None:
            body |= {"q": self.query, "t": self.tag}
        if with_hash:
            body["h"] = tree.simple_hash(self.node)
        if cuts is not None:
            body["ch"] = tree.compound_hash(self.node, cuts)
        return body

    def apply(self, path, new):
        """An overwrite at an absolute path: above, at or below this listen."""
        depth = len(self.path)
        if path[:depth] == self.path:
            inside = path[depth:]
            if self.query is not None and len(inside) > 1 and tree.get(self.node, inside[:1]) is None:
                return  # deep data of a child this window does not hold is not usable (7.5)
            self.node = tree.put(self.node, inside, new)
        elif self.path[: len(path)] == path:
            self.node = tree.get(new, self.path[len(path) :])

    def trim(self):
        """What a client does after each push: filter and limit its own copy again."""
        if self.query is not None and self.node is not None:
            self.node = tree.window(self.node, self.query)


class Cache:
    """What an SDK keeps of a connection's listens. Pushes go to it in arrival order."""

    def __init__(self):
        self.listens = {}  # (path segments, tag or None) -> Listen

    def add(self, listen):
        self.listens[listen.path, listen.tag] = listen
        return listen

    def apply(self, action, body):
        base, tag = tree.segments(body["p"]), body.get("t")
        reached = [listen for listen in self.listens.values() if listen.tag == tag]
        if tag is not None and any(base[: len(listen.path)] != listen.path for listen in reached):
            raise ProtocolError(f"0.1 rule 8: a tagged push above its query: {shorten(body)}")
        if action == "rm":
            for listen in reached:
                if listen.path == base:
                    listen.node = tree.apply_range_merge(listen.node, body["d"])
        elif action in ("d", "m"):
            entries = {"": body["d"]} if action == "d" else body["d"]
            # Priorities last: inside one merge, the node they belong to may be in a later entry.
            for relative in sorted(entries, key=lambda path: path.endswith(".priority")):
                for listen in reached:
                    listen.apply(base + tree.segments(relative), tree.parse(entries[relative]))
        else:
            raise ProtocolError(f"5 unexpected push {action}: {shorten(body)}")
        for listen in reached:
            listen.trim()


class CachedClient:
    """A connection with a cache: the part of an SDK that keeps data in step."""

    def __init__(self, port, ns, cache=None, **options):
        self.connection = Connection(port, ns, **options)
        self.cache = cache or Cache()

    def listen(self, path, query=None, tag=None, *, cuts=None):
        """Listens (with the hash of what is known); returns once the ok has arrived."""
        key = (tree.segments(path), tag)
        listen = self.cache.listens.get(key) or self.cache.add(Listen(path, query, tag))
        self.connection.must("q", listen.body(cuts=cuts))
        self.absorb()
        return listen

    def absorb(self):
        """Applies the pushes that have arrived; answers how many there were."""
        taken = self.connection.taken_pushes()
        for action, body in taken:
            self.cache.apply(action, body)
        return len(taken)

    def sync(self):
        """Waits until everything committed so far has arrived, and applies it; answers the number of pushes."""
        self.connection.fence()
        return self.absorb()

    def reconnect(self, port):
        """What a client does after a lost connection: a new one, and each listen again with its cache's hash."""
        self.connection = Connection(port, self.connection.ns, ls=self.connection.session)
        for listen in self.cache.listens.values():
            self.connection.must("q", listen.body())
        return self.absorb()

    def close(self):
        self.connection.close()

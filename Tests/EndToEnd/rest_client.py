"""A client of the REST API that sees every byte, written from the REST document and RFC 9112 alone.

`Wire` is one TCP connection: bytes out, answers in, one after the other, so that pipelining and what no well-behaved
client would send can be tested. `Rest` is the comfortable side: one keep-alive connection, one database. `EventStream`
reads server-sent events and checks the form of every frame. Every wait has a deadline.
"""

import json
import re
import socket
import struct
import time

from pando_client import DEADLINE, Closed, ProtocolError, compact, shorten

OWNER = ("Authorization", "Bearer owner")
WITHOUT_BODY = (204, 304)  # and everything below 200 (RFC 9112 6.3)


def pretty_error(text):
    """An error body, byte for byte (§3)."""
    return ('{\n  "error" : ' + json.dumps(text, ensure_ascii=False) + "\n}\n").encode()


def with_namespace(target, ns):
    """The target with `ns` behind its other parameters; as it stands if it names one itself, or for `None`."""
    if ns is None or re.search(r"[?&]ns=", target):
        return target
    return f"{target}{'&' if '?' in target else '?'}ns={ns}"


class Response:
    """One answer, exactly as it came. `fields` keeps order, spelling and repetition."""

    def __init__(self, version, status, reason, fields, body):
        self.version, self.status, self.reason, self.fields, self.body = version, status, reason, fields, body

    def all(self, name):
        return [value for other, value in self.fields if other.lower() == name.lower()]

    def header(self, name):
        """The one value of a field, or None; twice the same field is an error."""
        values = self.all(name)
        if len(values) > 1:
            raise ProtocolError(f"the header {name} came {len(values)} times: {values}")
        return values[0] if values else None

    @property
    def text(self):
        return self.body.decode("utf-8")

    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            raise ProtocolError(f"not JSON: {self!r}") from None

    @property
    def etag(self):
        return self.header("ETag")

    def expect(self, status, body=None):
        """The status and, where given, the exact body (bytes or text). Answers itself."""
        if self.status != status:
            raise ProtocolError(f"expected the status {status}, got {self!r}")
        wanted = body.encode() if isinstance(body, str) else body
        if wanted is not None and self.body != wanted:
            raise ProtocolError(f"expected the body {wanted!r}, got {self!r}")
        return self

    def expect_error(self, status, text=None):
        """An error object in the exact form of §3; with this text, where given."""
        if self.status != status:
            raise ProtocolError(f"expected the status {status}, got {self!r}")
        if text is not None:
            return self.expect(status, pretty_error(text))
        found = self.json()
        if not isinstance(found, dict) or not isinstance(found.get("error"), str) or not found["error"]:
            raise ProtocolError(f"rest §3: an error body is an object with a text in `error`: {self!r}")
        return self.expect(status, pretty_error(found["error"]))

    def __repr__(self):
        lines = "; ".join(f"{name}: {value}" for name, value in self.fields)
        return f"{self.status} {self.reason} [{lines}] {shorten(self.body.decode('utf-8', 'backslashreplace'))!r}"


def check_framing(response):
    """What must hold for every answer, whatever it says (RFC 9110 8.6, RFC 9112 6)."""
    lengths, codings = response.all("Content-Length"), response.all("Transfer-Encoding")
    if lengths and codings:
        raise ProtocolError(f"both a length and a transfer coding: {response!r}")
    if len(lengths) > 1:
        raise ProtocolError(f"two lengths: {response!r}")
    if response.status == 204 and lengths + codings:
        raise ProtocolError(f"RFC 9110 8.6: no Content-Length in a 204: {response!r}")


class Wire:
    """One TCP connection to the server; bytes out, answers in."""

    def __init__(self, port, *, receive_buffer=None):
        self.tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer is not None:
            self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.tcp.settimeout(DEADLINE)
        self.tcp.connect(("127.0.0.1", port))
        self.tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = port
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Sending

    def send(self, data):
        self.tcp.sendall(data.encode() if isinstance(data, str) else data)

    def send_as_far_as_possible(self, data):
        """Sends what a server may refuse half-way; that it stopped listening is no failure of the test."""
        try:
            self.send(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    @staticmethod
    def head(method, target, fields=(), host="127.0.0.1", version="1.1"):
        lines = [f"{method} {target} HTTP/{version}"]
        lines += [f"Host: {host}"] if host is not None else []
        lines += [f"{name}: {value}" for name, value in fields]
        return "\r\n".join([*lines, "", ""]).encode()

    @staticmethod
    def request_bytes(method, target, body=None, fields=(), host="127.0.0.1"):
        """A whole request, its body (text or bytes) framed by a Content-Length."""
        payload = body.encode() if isinstance(body, str) else body
        if payload is not None:
            fields = [*fields, ("Content-Length", len(payload))]
        return Wire.head(method, target, fields, host) + (payload or b"")

    @staticmethod
    def chunked(*chunks, extension="", trailers=()):
        """A chunked body, last chunk and trailer section included."""
        pieces = [chunk.encode() if isinstance(chunk, str) else chunk for chunk in chunks]
        data = b"".join(f"{len(piece):x}{extension}\r\n".encode() + piece + b"\r\n" for piece in pieces)
        return data + b"0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in trailers).encode() + b"\r\n"

    # Receiving

    def fill(self, deadline):
        left = deadline - time.monotonic()
        if left <= 0:
            raise ProtocolError(f"no whole answer within {DEADLINE} s, only {self.buffer[:200]!r}")
        self.tcp.settimeout(left)
        try:
            data = self.tcp.recv(1 << 18)
        except TimeoutError:
            raise ProtocolError(f"no whole answer within {DEADLINE} s, only {self.buffer[:200]!r}") from None
        except ConnectionError as error:
            raise Closed(str(error)) from None
        finally:
            self.tcp.settimeout(DEADLINE)
        if not data:
            raise Closed(f"end of stream after {self.buffer[:200]!r}")
        self.buffer += data

    def until(self, mark, deadline):
        while mark not in self.buffer:
            self.fill(deadline)
        data, self.buffer = self.buffer.split(mark, 1)
        return data

    def exactly(self, count, deadline):
        while len(self.buffer) < count:
            self.fill(deadline)
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def receive_head(self, deadline=None):
        """The next status line and header fields; the body stays unread."""
        text = self.until(b"\r\n\r\n", deadline or time.monotonic() + DEADLINE).decode("latin-1")
        status_line, *lines = text.split("\r\n")
        found = re.fullmatch(r"HTTP/(1\.[01]) ([1-5][0-9]{2}) ([ -~]*)", status_line)
        if not found:
            raise ProtocolError(f"RFC 9112 4: not a status line: {status_line!r}")
        fields = []
        for line in lines:
            field = re.fullmatch(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*", line)
            if not field:
                raise ProtocolError(f"RFC 9112 5: not a header field: {line!r}")
            fields.append(field.groups())
        return Response(found[1], int(found[2]), found[3], fields, b"")

    def receive(self, method="GET"):
        """The next whole answer. `method` is that of the request: the answer to HEAD has no body."""
        deadline = time.monotonic() + DEADLINE
        response = self.receive_head(deadline)
        check_framing(response)
        if method == "HEAD" or response.status < 200 or response.status in WITHOUT_BODY:
            return response
        if response.header("Transfer-Encoding") is not None:
            response.body = self.receive_chunks(response, deadline)
        elif response.header("Content-Length") is not None:
            response.body = self.exactly(int(response.header("Content-Length")), deadline)
        else:
            if "close" not in (response.header("Connection") or "").lower():
                raise ProtocolError(f"no length, no coding, and the connection stays open: {response!r}")
            response.body = self.rest(deadline)
        return response

    def receive_chunks(self, response, deadline):
        if response.header("Transfer-Encoding").lower() != "chunked":
            raise ProtocolError(f"an unexpected transfer coding: {response!r}")
        pieces = []
        while True:
            size = int(self.until(b"\r\n", deadline).split(b";")[0], 16)
            if size == 0:
                while self.until(b"\r\n", deadline):
                    pass  # trailers
                return b"".join(pieces)
            pieces.append(self.exactly(size, deadline))
            if self.exactly(2, deadline) != b"\r\n":
                raise ProtocolError("RFC 9112 7.1: a chunk ends with CR LF")

    def rest(self, deadline):
        """Everything up to the end of the stream."""
        try:
            while True:
                self.fill(deadline)
        except Closed:
            data, self.buffer = self.buffer, b""
            return data

    def ask(self, method, target, body=None, fields=(), host="127.0.0.1"):
        self.send(self.request_bytes(method, target, body, fields, host))
        return self.receive(method)

    def expect_closed(self):
        """The server ends the connection and has said nothing more."""
        said = self.rest(time.monotonic() + DEADLINE)
        if said:
            raise ProtocolError(f"said before closing: {said[:300]!r}")
        self.close()

    # Ending

    def half_close(self):
        self.tcp.shutdown(socket.SHUT_WR)

    def reset(self):
        """The process dies: RST."""
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.tcp.close()

    def close(self):
        self.tcp.close()


class Rest:
    """One database over one keep-alive connection, opened again if the server closed it after an answer."""

    def __init__(self, port, ns, *, fields=()):
        self.port, self.ns, self.fields = port, ns, list(fields)
        self.wire = None

    def ask(self, method, target, body=None, fields=(), host="127.0.0.1"):
        """One request and its answer. A body that is not text or bytes is sent as JSON."""
        if body is not None and not isinstance(body, (str, bytes)):
            body = compact(body)
        if self.wire is None:
            self.wire = Wire(self.port)
        response = self.wire.ask(method, with_namespace(target, self.ns), body, [*self.fields, *fields], host)
        if "close" in (response.header("Connection") or "").lower():
            self.close()
        return response

    def get(self, path, query="", fields=()):
        """The value at a path, which must be readable."""
        return self.ask("GET", f"{path}.json{query and '?' + query}", fields=fields).expect(200).json()

    def must(self, method, path, body=None, query="", fields=()):
        """A request that has to succeed."""
        response = self.ask(method, f"{path}.json{query and '?' + query}", body, fields)
        if response.status not in (200, 204):
            raise ProtocolError(f"{method} {path} was refused: {response!r}")
        return response

    def put(self, path, value):
        return self.must("PUT", path, compact(value))

    def patch(self, path, value):
        return self.must("PATCH", path, compact(value))

    def put_rules(self, rules):
        """Loads rules (text, or an object) into this database, as the administrator of --dev."""
        source = rules if isinstance(rules, str) else compact(rules)
        return self.ask("PUT", "/.settings/rules.json", source, [] if OWNER in self.fields else [OWNER]).expect(200)

    def stream(self, path, query="", fields=(), **options):
        target = with_namespace(f"{path}.json{query and '?' + query}", self.ns)
        return EventStream(self.port, target, [*self.fields, *fields], **options)

    def close(self):
        if self.wire is not None:
            self.wire.close()
            self.wire = None


class Refused(ProtocolError):
    """A stream was asked for and an ordinary answer came; it is in `response`."""

    def __init__(self, response):
        super().__init__(f"not a stream: {response!r}")
        self.response = response


class EventStream:
    """Server-sent events of one location. `next()` answers `(event, data)` with the data parsed."""

    EVENTS = ("put", "patch", "keep-alive", "cancel", "auth_revoked", "log")

    def __init__(
        self, port, target, fields=(), *, accept="text/event-stream", receive_buffer=None, host="127.0.0.1"
    ):
        self.wire = Wire(port, receive_buffer=receive_buffer)
        self.wire.send(Wire.head("GET", target, [("Accept", accept), *fields], host))
        self.head = self.wire.receive_head()
        kind = self.head.header("Content-Type") or ""
        if self.head.status != 200 or not kind.startswith("text/event-stream"):
            response, deadline = self.head, time.monotonic() + DEADLINE
            if response.header("Transfer-Encoding") is not None:
                response.body = self.wire.receive_chunks(response, deadline)
            else:
                response.body = self.wire.exactly(int(response.header("Content-Length") or 0), deadline)
            self.close()
            raise Refused(response)
        self.check_head()
        self.is_chunked = self.head.header("Transfer-Encoding") is not None
        self.text = b""  # decoded bytes of the stream that are not yet an event
        self.ended = False

    def check_head(self):
        """§8: what starts a stream."""
        head = self.head
        wanted = {
            "Content-Type": "text/event-stream; charset=utf-8",
            "Cache-Control": "no-cache",
            "Access-Control-Allow-Origin": "*",
            "Content-Length": None,
            "Content-Encoding": None,
        }
        for name, value in wanted.items():
            if head.header(name) != value:
                raise ProtocolError(f"rest §8: {name} of a stream is {value!r}: {head!r}")
        if head.header("Transfer-Encoding") not in (None, "chunked"):
            raise ProtocolError(f"an unknown transfer coding: {head!r}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def fill(self, deadline):
        """More bytes of the stream, out of their chunks if there are any. Raises `Closed` at the end."""
        if self.ended:
            raise Closed("the stream has ended")
        if not self.is_chunked:
            if not self.wire.buffer:
                self.wire.fill(deadline)
            self.text, self.wire.buffer = self.text + self.wire.buffer, b""
            return
        size = int(self.wire.until(b"\r\n", deadline).split(b";")[0], 16)
        self.text += self.wire.exactly(size, deadline)
        if self.wire.exactly(2, deadline) != b"\r\n":
            raise ProtocolError("RFC 9112 7.1: a chunk ends with CR LF")
        if size == 0:
            self.ended = True
            raise Closed("the stream has ended")

    def next_raw(self, timeout=None):
        """The next event of any kind, as `(name, data text)`; its form is two lines and a blank line, nothing else."""
        deadline = time.monotonic() + (timeout or DEADLINE)
        while b"\n\n" not in self.text:
            self.fill(deadline)
        frame, self.text = self.text.split(b"\n\n", 1)
        found = re.fullmatch(r"event: ([a-z_-]+)\ndata: ([^\r\n]*)", frame.decode("utf-8"))
        if not found or found[1] not in self.EVENTS:
            raise ProtocolError(f"8.1 a frame is two lines and a blank line: {frame[:300]!r}")
        return found[1], found[2]

    def next(self, timeout=None):
        """The next event but keep-alives, data parsed and checked."""
        while True:
            name, text = self.next_raw(timeout)
            if name == "keep-alive":
                if text != "null":
                    raise ProtocolError(f"8.1 a keep-alive carries null, got {text!r}")
                continue
            if name == "auth_revoked":
                return name, text
            data = json.loads(text)
            if name in ("put", "patch"):
                if not isinstance(data, dict) or list(data) != ["path", "data"] or data["path"][:1] != "/":
                    raise ProtocolError(f"8.1 data is an object of path and data: {shorten(text)}")
                if compact(data) != text:
                    raise ProtocolError(f"rest §3: compact JSON, got {shorten(text)}")
                if name == "patch" and (not isinstance(data["data"], dict) or not data["data"]):
                    raise ProtocolError(f"8.1 a patch carries an object: {shorten(text)}")
            return name, data

    def expect(self, name, path, value):
        got = self.next()
        # A patch is a set of members: the server may do what brings data before what takes it away.
        same = name == "patch" or got[1] is None or compact(got[1]["data"]) == compact(value)
        if got != (name, {"path": path, "data": value}) or not same:
            raise ProtocolError(f"expected {name} {path} {shorten(value)}\n     got {shorten(list(got))}")
        return self

    def put(self, path, value):
        """The next event is this put."""
        return self.expect("put", path, value)

    def patch(self, path, value):
        """The next event is this patch."""
        return self.expect("patch", path, value)

    def expect_closed(self):
        """The server ends the stream, saying nothing more, and not inside a frame."""
        try:
            got = self.next()
        except Closed:
            if self.text:
                raise ProtocolError(f"8.1 the stream ended inside a frame: {self.text[:300]!r}") from None
            return
        raise ProtocolError(f"expected the end of the stream, got {shorten(list(got))}")

    def close(self):
        self.wire.close()


class StreamCopy:
    """What a naive client keeps of a stream: it replaces what an event names, and knows nothing else."""

    def __init__(self, value=None):
        self.value = value

    def apply(self, name, data):
        if name == "put":
            self.replace(data["path"], data["data"])
        elif name == "patch":
            for key, value in data["data"].items():
                self.replace(f"{data['path'].rstrip('/')}/{key}", value)
        else:
            raise ProtocolError(f"unexpected event {name}: {shorten(data)}")

    def replace(self, path, value):
        keys = [key for key in path.split("/") if key]
        self.value = self.replaced(self.value, keys, value)

    @classmethod
    def replaced(cls, node, keys, value):
        if not keys:
            return value
        if isinstance(node, list):
            node = {str(index): item for index, item in enumerate(node) if item is not None}
        children = dict(node) if isinstance(node, dict) else {}
        child = cls.replaced(children.get(keys[0]), keys[1:], value)
        children.pop(keys[0], None)
        if child is not None and child != {}:
            children[keys[0]] = child
        return children or None

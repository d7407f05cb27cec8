"""Long polling as the JS SDK does it in a page (`BrowserPollConnection`), written from §1.5 alone.

Two threads stand for the two script tags that may be outstanding. A script that comes back is read by `calls_of`, a
reader of the few forms that a response may have.
"""

import collections
import json
import random
import re
import socket
import struct
import threading
import time

from transports import (
    CLOSE_PATIENCE, Closed, ProtocolError, connect_tcp, reset_tcp, shorten, url_base64,
)

PIECE = 1840  # characters of one segment (1.5.2)
URL_BUDGET = 1870  # characters of data in one URL, headers of segments included
SEGMENT_HEADER = 30  # what the header of a segment is reckoned at
POLL_PATIENCE = 25  # seconds a poll stays alone (1.5.2)
LOSSES = (None, None, None, "request", "answer")  # what happens to a poll when something does
KEPT_RESPONSES = 256  # numbers behind the newest at which a response may come again
LONGEST_HOLD = 60  # seconds after which a poll without an answer is an error of the server

PARAGRAPHS = ("\u2028", "\u2029")  # ends of lines in old JavaScript, so never inside an answer (1.5)


# Scripts

def skip_function(script, at):
    """The end of the function definition that begins there; its body is only balanced, not understood."""
    depth, quote = 0, None
    while at < len(script):
        sign = script[at]
        if quote:
            at += sign == "\\"
            quote = None if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign == "{":
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    raise ProtocolError(f"1.5.1 a function without an end: {shorten(script)}")


def read_argument(script, at):
    """One argument of a call and its end: JSON, or text between single quotes."""
    found = re.compile(r"'([^'\\\n]*)'").match(script, at)
    if found:
        return found[1], found.end()
    try:
        return json.JSONDecoder().raw_decode(script, at)
    except ValueError:
        raise ProtocolError(f"1.5 not JSON at {at} of {shorten(script)}") from None


def calls_of(script, definitions=False):
    """The calls of a response in their order, each as its name and its arguments; `definitions` answers the names of
    the functions that are defined as well.
    """
    space, name = re.compile(r"[\s;]*"), re.compile(r"(function\s+)?(pLPCommand|pRTLPCB)\s*\(")
    calls, defined = [], []
    at = space.match(script).end()
    while at < len(script):
        found = name.match(script, at)
        if not found:
            raise ProtocolError(f"1.5 neither a call nor a definition at {at} of {shorten(script)}")
        if found[1]:
            defined.append(found[2])
            at = skip_function(script, found.end())
        else:
            arguments, at = [], found.end()
            while True:
                at = space.match(script, at).end()
                if script.startswith(")", at):
                    at += 1
                    break
                value, at = read_argument(script, at)
                arguments.append(value)
                at = space.match(script, at).end()
                at += script.startswith(",", at)
            calls.append((found[2], arguments))
        at = space.match(script, at).end()
    return (calls, defined) if definitions else calls


def segments_of(data, number, piece=PIECE):
    """The segments of one message (its bytes), the first of them with that number: `(seg, ts, d)`."""
    text = url_base64(data)
    pieces = [text[at : at + piece] for at in range(0, len(text), piece)] or [""]
    return [(number + index, len(pieces), part) for index, part in enumerate(pieces)]


def next_url_data(segments):
    """Takes as many segments as fit from the front; the rest of the URL that carries them."""
    data, index = "", 0
    while segments and len(segments[0][2]) + SEGMENT_HEADER + len(data) <= URL_BUDGET:
        number, count, piece = segments.popleft()
        data += f"&seg{index}={number}&ts{index}={count}&d{index}={piece}"
        index += 1
    return data


# HTTP

class Line:
    """One kept HTTP/1.1 connection for GETs, as a browser's network stack keeps it: when a connection that was used
    before turns out to be closed, before any byte of an answer, the request is made once more on a new one.

    `loses` says, asked before each request, whether its answer gets lost on the way: then the request is repeated.
    """

    def __init__(self, port, host, loses=lambda: None):
        self.port, self.host, self.loses = port, host, loses
        self.tcp, self.buffer, self.was_used = None, b"", False
        self.is_over = False

    def get(self, target, slow=None):
        """(Status, header fields, body). `slow` is called when nothing has come for `POLL_PATIENCE` seconds."""
        lost = self.loses()
        while True:
            fresh = self.tcp is None
            if fresh:
                if self.is_over:
                    raise Closed("closed")
                self.tcp, self.buffer = connect_tcp(self.port), b""
            try:
                self.tcp.sendall(f"GET {target} HTTP/1.1\r\nHost: {self.host}\r\nAccept: */*\r\n\r\n".encode())
                if lost:
                    if lost == "answer":
                        self.receive(slow)
                    lost = None
                    self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.drop()  # with RST: a connection that is closed in order says that its answer was received
                    continue
                return self.receive(slow)
            except (Closed, ConnectionError, OSError) as error:
                answered = bool(self.buffer)
                self.drop()
                if fresh or answered or self.is_over:
                    raise Closed(str(error)) from None

    def fill(self, slow):
        deadline, told = time.monotonic() + LONGEST_HOLD, False
        while True:
            self.tcp.settimeout(min(max(0.01, deadline - time.monotonic()), POLL_PATIENCE))
            try:
                data = self.tcp.recv(1 << 18)
                break
            except TimeoutError:
                if slow and not told:
                    told = True
                    slow()
                if time.monotonic() >= deadline:
                    raise ProtocolError(f"1.5.2 a poll without an answer for {LONGEST_HOLD} s") from None
        if not data:
            raise Closed("end of stream")
        self.buffer += data

    def receive(self, slow):
        while b"\r\n\r\n" not in self.buffer:
            self.fill(slow)
        head, _, rest = self.buffer.partition(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")
        found = re.fullmatch(r"HTTP/1\.1 ([1-5][0-9]{2}) [ -~]*", status_line)
        if not found:
            raise ProtocolError(f"RFC 9112 4: not a status line: {status_line!r}")
        fields = {}
        for line in lines:
            name, _, value = line.partition(":")
            if name.lower() in fields:
                raise ProtocolError(f"the header {name} came twice: {lines}")
            fields[name.lower()] = value.strip()
        if not fields.get("content-length", "").isdigit():
            raise ProtocolError(f"RFC 9112 6: an answer without a length: {lines}")
        count = int(fields["content-length"])
        pieces, got = [rest], len(rest)
        while got < count:
            self.buffer = b""
            self.fill(slow)
            pieces.append(self.buffer)
            got += len(self.buffer)
        body = b"".join(pieces)
        self.buffer = b""
        if len(body) > count:
            raise ProtocolError(f"RFC 9112 6: {len(body) - count} bytes too many after {lines}")
        if fields.get("connection", "").lower() == "close":
            self.drop()
        return int(found[1]), fields, body

    def drop(self):
        tcp, self.tcp = self.tcp, None
        if tcp is not None:
            tcp.close()

    def end(self, how):
        """From any thread: ends the connection, and wakes the thread that waits on it."""
        self.is_over = True
        tcp = self.tcp
        if tcp is not None:
            try:
                how(tcp)
            except OSError:
                pass  # it is gone already


def half_close(tcp):
    tcp.shutdown(socket.SHUT_RDWR)


def check_script(status, fields, body):
    """What every response that a script tag loads must look like (1.5); answers its text."""
    if status != 200:
        raise Closed(f"1.5.3 an HTTP error on a script load closes the transport: {status} {body[:200]!r}")
    if fields.get("content-type") != "application/javascript; charset=utf-8":
        raise ProtocolError(f"1.5 the content type of a script: {fields}")
    if fields.get("cache-control") != "no-store":
        raise ProtocolError(f"1.5 a script must not be stored: {fields}")
    text = body.decode("utf-8")
    if any(sign in text for sign in PARAGRAPHS):
        raise ProtocolError(f"1.5 U+2028 and U+2029 are escaped: {shorten(text)}")
    return text


class LongPolling:
    """One session on `/.lp`.

    - `losses`: a seed. Some polls are then cut, some of them after their answer was on its way, and asked again.
    - `deliver`: takes each message in place of `receive`; `ended`: is called once, with the reason, when the session is
      over and we did not end it. Both are called with `lock` held.
    """

    name = "lp"

    def __init__(self, port, host, query, deliver=None, ended=None, lock=None, losses=None):
        self.port, self.host = port, host
        self.deliver, self.ended = deliver or self.keep, ended
        self.changed = threading.Condition(lock or threading.RLock())
        self.messages = collections.deque()
        self.segments = collections.deque()
        self.next_segment = 0
        self.serial = random.randrange(100_000_000)
        self.outstanding = 0  # requests the client waits for
        self.carrying = set()  # serials of unanswered requests that carry data
        self.is_hurried = False  # `close` wants what was sent to have been read
        self.sends_polls = True
        self.problem = None  # why the session is over
        self.is_over = False  # we ended it
        self.next_response, self.early = 0, {}  # responses come in order of their number
        self.taken, self.repeated_count = {}, 0  # responses of late, by number: one may be sent again, and is ignored then
        self.close_after = None
        self.request_count = 0
        dice = random.Random(losses)
        self.loses = (lambda: None) if losses is None else lambda: dice.choice(LOSSES)
        self.lines = [Line(port, host), Line(port, host)]
        self.threads = []
        self.id = self.password = None
        self.ns = re.search(r"(?:^|&)(ns=[^&]*)", query)
        self.query = query

    def begin(self):
        """Opens the session: the start script, the frame that says goodbye, the first poll."""
        number = random.randrange(1, 1000)
        script = self.get(self.lines[0], f"start=t&ser={self.serial}&cb={number}&{self.query}")
        calls, defined = calls_of(script, definitions=True)
        if sorted(defined) != ["pLPCommand", "pRTLPCB"]:
            raise ProtocolError(f"1.5.1 the start script defines both functions: {shorten(script)}")
        for callback in (f"pLPCommand{number}", f"pRTLPCB{number}"):
            if callback not in script:
                raise ProtocolError(f"1.5.1 the callbacks carry the number {number}: {shorten(script)}")
        self.process(calls)
        if self.id is None:
            return self.end_session("the server gave no id")
        self.check_frame()
        for line in self.lines:
            line.loses = self.loses
            thread = threading.Thread(target=self.poll, args=(line,), daemon=True)
            self.threads.append(thread)
            thread.start()
        return None

    def get(self, line, parameters, slow=None):
        self.request_count += 1
        return check_script(*line.get(f"/.lp?{parameters}", slow))

    def credentials(self):
        return f"id={self.id}&pw={self.password}"

    def tail(self):
        return f"&{self.ns[1]}" if self.ns else ""

    def check_frame(self):
        """The page whose unload says `disconn` (1.5.3)."""
        status, fields, body = self.lines[1].get(f"/.lp?dframe=t&{self.credentials()}{self.tail()}")
        text = body.decode("utf-8")
        if status != 200 or not fields.get("content-type", "").startswith("text/html"):
            raise ProtocolError(f"1.5.3 the frame is a page: {status} {fields}")
        if "disconn=t" not in text or self.id not in text or self.password not in text:
            raise ProtocolError(f"1.5.3 the frame names its session: {shorten(text)}")

    # Polls

    def may_poll(self):
        has_reason = bool(self.segments) or (self.is_hurried and bool(self.carrying))
        return self.sends_polls and self.outstanding < (2 if has_reason else 1)

    def poll(self, line):
        try:
            while True:
                with self.changed:
                    self.changed.wait_for(lambda: self.problem is not None or self.is_over or self.may_poll())
                    if self.problem is not None or self.is_over:
                        return
                    self.serial += 1
                    serial = self.serial
                    data = next_url_data(self.segments)
                    self.outstanding += 1
                    if data:
                        self.carrying.add(serial)
                released = []

                def release(released=released):
                    with self.changed:
                        if not released:
                            released.append(True)
                            self.outstanding -= 1
                            self.changed.notify_all()

                try:
                    script = self.get(
                        line, f"{self.credentials()}&ser={serial}{self.tail()}{data}", slow=release)
                    with self.changed:
                        self.process(calls_of(script))
                        self.carrying.discard(serial)
                finally:
                    release()
        except (Closed, ConnectionError, OSError) as error:
            self.end_session(str(error))
        except ProtocolError as error:
            self.end_session(error)

    # Responses

    def process(self, calls):
        if not calls:
            raise ProtocolError("1.5.2 a response without a call")
        with self.changed:
            for name, arguments in calls:
                if name == "pRTLPCB":
                    self.take_response(*arguments)
                elif arguments[:1] == ["start"]:
                    self.take_start(*arguments[1:])
                elif arguments == ["close"]:
                    self.end_session("closed by the server")
                elif arguments[:1] == ["close"] and len(arguments) == 2 and type(arguments[1]) is int:
                    self.sends_polls = False
                    self.close_after = arguments[1]
                    self.close_if_through()
                else:
                    raise ProtocolError(f"1.5.3 this verb throws in the client: {arguments}")

    def take_start(self, identifier, password):
        if not re.fullmatch("[0-9]+", identifier) or not re.fullmatch("[0-9A-Za-z]{10}", password):
            raise ProtocolError(f"1.5.1 decimal digits and ten alphanumerics, got {identifier!r} and {password!r}")
        self.id, self.password = identifier, password

    def take_response(self, number, messages):
        if type(number) is not int or not isinstance(messages, list):
            raise ProtocolError(f"1.5.2 a number and a list of messages: {shorten([number, messages])}")
        if number in self.taken:
            if self.taken[number] != messages:
                raise ProtocolError(f"1.5.2 response {number} came twice, and was another: {shorten(messages)}")
            self.repeated_count += 1
            return
        self.taken[number] = messages
        self.taken.pop(number - KEPT_RESPONSES, None)
        if number < self.next_response:
            raise ProtocolError(f"1.5.2 response {number} came behind {self.next_response}")
        self.early[number] = messages
        while self.next_response in self.early:
            for message in self.early.pop(self.next_response):
                self.deliver(message)
            self.next_response += 1
        self.close_if_through()

    def close_if_through(self):
        if self.close_after is not None and self.close_after < self.next_response:
            self.end_session("closed by the server")

    def keep(self, message):
        self.messages.append(message)
        self.changed.notify_all()

    def end_session(self, problem):
        with self.changed:
            if self.problem is not None:
                return
            self.problem = problem
            self.changed.notify_all()
            if self.ended and (not self.is_over or isinstance(problem, ProtocolError)):
                self.ended(problem)

    # The verbs

    def send_frame(self, text):
        """One message of exactly these bytes."""
        with self.changed:
            if self.problem is not None:
                raise Closed(str(self.problem))
            made = segments_of(text.encode() if isinstance(text, str) else text, self.next_segment)
            self.next_segment += len(made)
            self.segments.extend(made)
            self.changed.notify_all()

    def send_text(self, text, chunks=None):
        """Messages are not chunked here, whatever a client would do over a WebSocket."""
        self.send_frame(text)

    def keep_alive(self):
        """The polls do it."""

    def receive(self, deadline):
        with self.changed:
            while not self.messages:
                if isinstance(self.problem, ProtocolError):
                    raise self.problem
                if self.problem is not None:
                    raise Closed(self.problem)
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError
                self.changed.wait(left)
            return self.messages.popleft()

    def flush(self):
        """Waits until the server has read what was sent: a newer poll makes it answer the one that carried it."""
        with self.changed:
            self.is_hurried = True
            self.changed.notify_all()
            self.changed.wait_for(
                lambda: self.problem is not None or not (self.segments or self.carrying), CLOSE_PATIENCE)

    def leave(self, how, says_goodbye=True, flushes=True):
        with self.changed:
            if self.is_over:
                return
        if flushes:
            self.flush()
        with self.changed:
            self.is_over = True
            was_open = self.problem is None
            self.changed.notify_all()
        # The frame's unload handler makes a synchronous GET, then the polls go.
        if says_goodbye and self.id is not None:
            try:
                status, _, body = Line(self.port, self.host).get(f"/.lp?disconn=t&{self.credentials()}")
            except (Closed, OSError):
                if was_open:
                    self.end_session("gone")
            else:
                if (status, body) != (200, b""):
                    self.end_session(ProtocolError(f"1.5.3 disconn is answered 200 and empty: {status} {body[:200]!r}"))
        for line in self.lines:
            line.end(how)
        self.end_session("closed by us")

    def close(self):
        """The page goes on without the session: `disconn`, and no more polls."""
        self.leave(half_close)

    def cut(self):
        """The page is left: its frame says `disconn`, its polls are cut."""
        self.leave(half_close)

    def reset(self):
        """The same, the polls reset."""
        self.leave(reset_tcp)

    def vanish(self):
        """The browser dies, or the network under it: nothing is said any more."""
        self.leave(half_close, says_goodbye=False, flushes=False)

    def abandon(self):
        """What the SDK does with its polls after an upgrade: at once, with `disconn` for the old id."""
        self.leave(half_close, flushes=False)

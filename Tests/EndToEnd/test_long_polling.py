"""Long polling and the end of sessions against the real binary (realtime §1.5, §1.6, §3.4).

`Page` is a small client of its own over plain sockets, written from the protocol document: it has two requests under way at
most, puts responses in the order of their numbers, and does not forgive a gap, a message twice, or a changed response.
"""

import base64
import itertools
import json
import random
import re
import select
import signal
import socket
import struct
import threading
import time

import pytest

from pando_client import DEADLINE, Closed, Connection, RawSocket, check_shape, compact

START = re.compile(r"^pLPCommand\('start','([0-9]+)','([A-Za-z0-9]{10})'\);$")
RESPONSE = re.compile(r"^pRTLPCB\(([0-9]+),(\[.*\])\);$")
CLOSE = re.compile(r"^pLPCommand\('close'(?:,([0-9]+))?\);$")
PIECE = 1840  # characters of Base64 in one segment (1.5.2)
PRESENCE = 10  # seconds: the least --presence-timeout
HOLD, GAP, STEP = PRESENCE / 4, PRESENCE / 2, PRESENCE / 8


class HTTP:
    """One connection; requests and answers by hand."""

    def __init__(self, port, timeout=DEADLINE, host=None):
        self.tcp = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.host = host or f"127.0.0.1:{port}"
        self.buffer = b""

    def send(self, target, method="GET", headers=(), body=b""):
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.host}", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        self.tcp.sendall("\r\n".join([*lines, "", ""]).encode() + body)

    def fill(self):
        data = self.tcp.recv(65536)
        if not data:
            raise Closed("end of stream")
        self.buffer += data

    def receive(self, head_only=False):
        """(status, headers, body) of the next answer."""
        while b"\r\n\r\n" not in self.buffer:
            self.fill()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
        count = 0 if head_only else int(headers["content-length"])
        while len(self.buffer) < count:
            self.fill()
        body, self.buffer = self.buffer[:count], self.buffer[count:]
        return int(lines[0].split()[1]), headers, body.decode()

    def ask(self, target, **options):
        self.send(target, **options)
        return self.receive(head_only=options.get("method") == "HEAD")

    def is_readable(self, timeout=0):
        return bool(self.buffer) or bool(select.select([self.tcp], [], [], timeout)[0])

    def close(self):
        self.tcp.close()

    def reset(self):
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.tcp.close()


def encode(message):
    text = message if isinstance(message, str) else compact(message)
    return base64.urlsafe_b64encode(text.encode()).decode().replace("=", ".")


class Page:
    """One session by long polling."""

    def __init__(self, port, ns="demo", *, ls=None, callback="7", serial=100):
        self.port, self.ns = port, ns
        self.http = HTTP(port)
        query = f"start=t&ser={serial}&cb={callback}&v=5" + (f"&ls={ls}" if ls else "") + f"&ns={ns}"
        status, headers, body = self.http.ask(f"/.lp?{query}")
        assert status == 200, body
        self.start_headers, self.start_body = headers, body
        self.serial = serial * 7  # the polls' serials have nothing to do with that of the start
        self.segment = 0
        self.next_number = 0
        self.early = {}
        self.seen = {}
        self.closed_behind = None
        self.messages = []
        self.id = self.pw = None
        self.take(body)
        self.hello = self.messages.pop(0)
        self.session = self.hello["d"]["d"].get("s") if self.hello["d"]["t"] == "h" else None
        self.polls = {}  # serial: connection
        self.carrying = set()  # serials of polls with segments
        self.idle = [self.http]
        self.next_r = 1

    # Answers

    def take(self, body):
        """Takes a script: the page's functions are called in order."""
        for line in body.splitlines():
            if found := START.match(line):
                self.id, self.pw = found.groups()
            elif found := RESPONSE.match(line):
                number, text = int(found[1]), found[2]
                assert self.seen.setdefault(number, text) == text, f"response {number} has changed"
                if number >= self.next_number:
                    self.early[number] = json.loads(text.replace('["__proto__"]:', '"__proto__":'))
            elif found := CLOSE.match(line):
                self.closed_behind = int(found[1]) if found[1] else -1
            else:
                assert line.startswith("function "), line
            while self.next_number in self.early:
                for message in self.early.pop(self.next_number):
                    check_shape(message)
                    self.messages.append(message)
                self.next_number += 1

    @property
    def is_closed(self):
        return self.closed_behind is not None and self.closed_behind < self.next_number

    # Requests

    def url(self, serial, segments=()):
        query = f"id={self.id}&pw={self.pw}&ser={serial}&ns={self.ns}"
        for index, (number, total, text) in enumerate(segments):
            query += f"&seg{index}={number}&ts{index}={total}&d{index}={text}"
        return f"/.lp?{query}"

    def cut_up(self, *messages):
        """The segments of messages."""
        segments = []
        for message in messages:
            text = encode(message)
            pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]
            for piece in pieces:
                segments.append((self.segment, len(pieces), piece))
                self.segment += 1
        return segments

    def poll(self, segments=(), http=None, serial=None):
        """Opens a poll; answers its serial."""
        if serial is None:
            self.serial += 1
            serial = self.serial
        http = http or (self.idle.pop() if self.idle else HTTP(self.port))
        http.send(self.url(serial, segments))
        self.polls[serial] = http
        if segments:
            self.carrying.add(serial)
        return serial

    def receive(self, serial):
        """The answer to one poll."""
        http = self.polls[serial]
        status, headers, body = http.receive()
        assert status == 200, body
        assert headers["content-type"].startswith("application/javascript")
        assert headers["cache-control"] == "no-store"
        del self.polls[serial]
        self.idle.append(http)
        self.take(body)
        return body

    def pump(self, timeout=0):
        """Takes the answers that are there."""
        owners = {http.tcp: serial for serial, http in self.polls.items()}
        ready = select.select(list(owners), [], [], timeout)[0] if owners else []
        for tcp in ready:
            self.receive(owners[tcp])
        return bool(ready)

    def send(self, *messages):
        """As the SDK: waits until fewer than two polls are under way, and sends what fits."""
        segments = self.cut_up(*messages)
        while segments:
            deadline = time.monotonic() + DEADLINE
            while len(self.polls) >= 2:
                assert time.monotonic() < deadline, "no poll was released"
                self.pump(0.1)
            batch, length = [], 0
            while segments and length + len(segments[0][2]) + 30 <= 1870:
                length += len(segments[0][2]) + 30
                batch.append(segments.pop(0))
            self.poll(batch)

    def wait(self, condition, timeout=DEADLINE):
        """Polls until the condition is true of this page; its result."""
        deadline = time.monotonic() + timeout
        while not (result := condition()):
            assert time.monotonic() < deadline, f"nothing came within {timeout} s; got {self.messages[-5:]}"
            assert not self.is_closed, "the session was closed"
            if not self.polls:
                self.poll()
            self.pump(0.1)
        return result

    def request(self, action, body):
        r, self.next_r = self.next_r, self.next_r + 1
        self.send({"t": "d", "d": {"r": r, "a": action, "b": body}})
        return r

    def response(self, r):
        def find():
            for index, message in enumerate(self.messages):
                if message["t"] == "d" and message["d"].get("r") == r:
                    del self.messages[index]
                    return message["d"]["b"]
            return None

        return self.wait(find)

    def ask(self, action, body):
        return self.response(self.request(action, body))

    def must(self, action, body):
        answer = self.ask(action, body)
        assert answer["s"] == "ok", answer
        return answer["d"]

    def pushes(self):
        """(path, data) of the pushes so far; they are gone afterwards."""
        found = [m["d"]["b"] for m in self.messages if m["t"] == "d" and "r" not in m["d"]]
        self.messages = [m for m in self.messages if m["t"] != "d" or "r" in m["d"]]
        return [(push["p"], push["d"]) for push in found]

    def get(self, path):
        return self.must("g", {"p": path, "q": {}})

    def disconnect(self):
        with_connection = HTTP(self.port)
        answer = with_connection.ask(f"/.lp?disconn=t&id={self.id}&pw={self.pw}")
        with_connection.close()
        return answer

    def close(self):
        for http in [*self.idle, *self.polls.values()]:
            http.close()


@pytest.fixture
def page(world):
    pages = []

    def make(**options):
        made = Page(world.port, world.ns, **options)
        pages.append(made)
        return made

    yield make
    for one in pages:
        one.disconnect()
        one.close()


@pytest.fixture
def short(servers):
    """A server on which absence is noticed soon, with several loops."""
    return servers(memory=True, arguments=["--loops", 3, "--presence-timeout", PRESENCE])


@pytest.fixture
def many(servers):
    """A server with several loops: connections land on each in turn."""
    return servers(memory=True, arguments=["--loops", 3])


# Starting


def test_a_session_starts(page):
    one = page()
    assert one.start_headers["content-type"] == "application/javascript; charset=utf-8"
    assert one.start_headers["cache-control"] == "no-store"
    assert 'parent.window["pLPCommand7"]' in one.start_body and 'parent.window["pRTLPCB7"]' in one.start_body
    assert one.id.isdigit() and re.fullmatch("[A-Za-z0-9]{10}", one.pw)
    hello = one.hello["d"]["d"]
    assert hello["h"] == f"127.0.0.1:{one.port}" and hello["v"] == "5" and hello["s"]


@pytest.mark.parametrize(
    "query",
    [
        "start=t&ser=1&cb=7);alert(1&v=5",
        "start=t&ser=1&cb=%3Cscript%3E",
        "start=t&ser=1&cb=123456789012345678901",
        "",
        "id=1",
        "id=1&ser=2",
        "id=1&pw=aaaaaaaaaa",
        "disconn=t&id=1",
    ],
)
def test_malformed_requests_are_refused(world, query):
    http = HTTP(world.port)
    status, headers, body = http.ask(f"/.lp?{query}")
    assert status == 400 and "script" not in body.replace("application", ""), body
    status, _, _ = http.ask("/.lp?disconn=t&id=1&pw=aaaaaaaaaa")
    assert status == 200, "the connection goes on"
    http.close()


@pytest.mark.parametrize(
    "address",
    [
        "id=1&pw=aaaaaaaaaa",
        "id=1&pw=short",
        "id=1&pw=aaaaaaaaa%22",
        "id=1&pw=%3Cscript%3Ealert",
        "id=x&pw=aaaaaaaaaa",
        "id=-1&pw=aaaaaaaaaa",
        "id=99999999999999999999999&pw=aaaaaaaaaa",
    ],
)
def test_requests_for_a_session_that_is_not_there(world, address):
    """§1.5.3: 200 with the end, also where no session could have such an id or password."""
    http = HTTP(world.port)
    status, headers, body = http.ask(f"/.lp?{address}&ser=2")
    assert (status, body.strip()) == (200, "pLPCommand('close');") and "javascript" in headers["content-type"]
    assert http.ask(f"/.lp?disconn=t&{address}")[::2] == (200, "")
    status, headers, body = http.ask(f"/.lp?dframe=t&{address}")
    assert status == 200 and headers["content-type"].startswith("text/html") and "<script>alert" not in body
    http.close()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_only_get_and_head(page, method):
    one = page()
    http = HTTP(one.port)
    status, headers, _ = http.ask(one.url(one.serial + 1), method=method)
    assert status == 405 and headers["allow"] == "GET, HEAD"
    http.close()


def test_head_changes_nothing(page):
    """RFC 9110 §9.2.1: it begins no session, takes no response, ends no session."""
    one = page()
    http = HTTP(one.port)
    for query in (one.url(one.serial + 1), "/.lp?start=t&cb=1", f"/.lp?disconn=t&id={one.id}&pw={one.pw}"):
        status, headers, _ = http.ask(query, method="HEAD")
        assert status == 200 and headers["connection"] == "keep-alive"
    assert one.must("s", {"c": {}}) == "", "the session goes on"
    http.close()
    assert one.must("s", {"c": {}}) == ""


@pytest.mark.parametrize("wrong", ["id", "pw"])
def test_a_wrong_id_or_password_gets_the_end_of_a_session(page, wrong):
    one = page()
    id, pw = (int(one.id) + 1, one.pw) if wrong == "id" else (one.id, "0000000000")
    http = HTTP(one.port)
    for query in (f"id={id}&pw={pw}&ser=5", f"id={2**63}&pw={pw}&ser=5", f"id={1 << 24 | 5}&pw={pw}&ser=5"):
        status, headers, body = http.ask(f"/.lp?{query}")
        assert (status, body.strip()) == (200, "pLPCommand('close');")
    assert http.ask(f"/.lp?disconn=t&id={id}&pw={pw}")[::2] == (200, "")
    assert one.must("s", {"c": {}}) == "", "the session itself goes on"
    http.close()


def test_an_unknown_namespace_is_reported_in_the_first_response(locked_world):
    one = Page(locked_world.port, "nowhere")
    assert one.hello["d"]["t"] == "s" and one.hello["d"]["d"].startswith("Firebase error")
    assert one.next_number == 1
    one.poll()
    while not one.is_closed:
        assert one.pump(DEADLINE)
        if not one.is_closed and not one.polls:
            one.poll()
    one.close()


def test_requests_of_an_ended_session_do_not_revive_it(servers):
    server = servers(dev=False, arguments=["--presence-timeout", PRESENCE])
    one = Page(server.port, "nowhere")
    began = time.monotonic()
    while one.receive(one.poll()).strip() != "pLPCommand('close');":
        assert time.monotonic() - began < GAP + 5
    assert one.is_closed and time.monotonic() - began > GAP - 1
    one.close()


def test_pages_from_elsewhere_are_refused_in_dev_mode(world):
    http = HTTP(world.port)
    status, _, _ = http.ask("/.lp?start=t&ser=1&cb=1&v=5", headers=["Referer: https://evil.example/", "Sec-Fetch-Site: cross-site"])
    assert status == 403
    http.close()


# Polls


def test_every_request_gets_one_reply_and_no_message_comes_twice(page):
    one = page()
    assert one.must("s", {"c": {"sdk.js.12-18-0": 1}}) == ""
    one.must("q", {"p": "/x", "h": ""})
    for value in range(20):
        one.must("p", {"p": "/x", "d": value})
    assert one.pushes() == [("x", value) for value in range(20)]
    assert one.get("/x") == 19


def test_a_newer_poll_releases_the_older(page):
    one = page()
    first = one.poll()
    second = one.poll()
    one.receive(first)
    assert list(one.polls) == [second] and not one.polls[second].is_readable(0.3)
    assert one.seen[one.next_number - 1] == "[]"


def test_a_push_answers_the_poll_that_waits(page, world):
    one, other = page(), world.connect()
    one.must("q", {"p": "/x", "h": ""})
    one.wait(lambda: one.polls)
    other.must("p", {"p": "/x", "d": "\u2028\u2029ö😀"})
    one.wait(lambda: any("r" not in m["d"] for m in one.messages))
    assert one.pushes() == [("x", "\u2028\u2029ö😀")]
    assert not any("\u2028" in text or "\u2029" in text for text in one.seen.values())


def test_segments_in_any_order_and_twice(page):
    one = page()
    messages = [{"t": "d", "d": {"r": r, "a": "p", "b": {"p": f"/o/r{r}", "d": "v" * size}}} for r, size in enumerate([3, 6000, 1, 2500])]
    segments = one.cut_up(*messages)
    assert len(segments) > 6
    order = random.Random(5).sample(segments * 2, 2 * len(segments))
    for segment in order:
        while len(one.polls) >= 2:
            one.pump(1)
        one.poll([segment])
    for r in range(4):
        assert one.response(r)["s"] == "ok"
    assert one.get("/o") == {"r0": "vvv", "r1": "v" * 6000, "r2": "v", "r3": "v" * 2500}
    assert not [m for m in one.messages if "r" in m["d"]], "no answer comes twice"


def test_many_segments_in_one_request(page):
    one = page()
    segments = one.cut_up(*[{"t": "d", "d": {"r": r, "a": "s", "b": {"c": {}}}} for r in range(20)])
    one.poll(segments)
    answers = [one.response(r) for r in range(20)]
    assert all(answer["s"] == "ok" for answer in answers)


@pytest.mark.parametrize(
    "segments",
    [
        [(0, 1, "!!!!")],
        [(0, 1, "")],
        [(0, 3, "e30."), (1, 3, "e30.")],
        [(0, 1, "eyJ0")],
        [(0, 1, "eyJ9=")],
        [(0, 1, "e30=")],
        [(0, 1, encode('{"t":"d"}')), (1, 1, "x")],
        [(0, 2, "eyJ0"), (1, 3, "eyJ0")],
        [(1000, 1, encode('{"t":"c","d":{"t":"p","d":{}}}'))],
        [(0, 1, encode('{"t":"d","d":{"a":"s"}}'))],
    ],
    ids=str,
)
def test_a_malformed_message_ends_the_session(page, segments):
    one = page()
    serial = one.poll(segments)
    assert one.receive(serial).strip() == "pLPCommand('close');"
    serial = one.poll()
    assert one.receive(serial).strip() == "pLPCommand('close');"


@pytest.mark.parametrize("segments", ["seg0=0&ts0=0&d0=a", "seg0=0&d0=a", "seg0=0&ts0=1"])
def test_segments_that_lack_something_are_refused(page, segments):
    one = page()
    http = HTTP(one.port)
    status, _, body = http.ask(f"{one.url(one.serial + 1)}&{segments}")
    assert status == 400 and "parameter" in body
    assert one.must("s", {"c": {}}) == "", "the session goes on"
    http.close()


def test_a_message_that_does_not_go_on_ends_the_session(servers):
    server = servers(memory=True, arguments=["--request-timeout", 1])
    one = Page(server.port)
    one.poll([(0, 2, "eyJ0")])
    deadline = time.monotonic() + DEADLINE
    while not one.is_closed:
        assert time.monotonic() < deadline
        if not one.polls:
            one.poll()
        one.pump(0.1)
    one.close()


def test_a_member_does_not_set_the_prototype(page, world):
    """In an object literal `"__proto__": x` is no member."""
    one, other = page(), world.connect()
    value = {"__proto__": {"a": 1}, "b": '"__proto__":', "c": "__proto__"}
    one.must("q", {"p": "/x", "h": ""})
    other.must("p", {"p": "/x", "d": value})
    one.wait(lambda: any("r" not in m["d"] for m in one.messages))
    assert one.pushes() == [("x", value)]
    text = "".join(one.seen.values())
    assert text.count('["__proto__"]:') == 1
    assert '"__proto__":' not in text.replace('\\"__proto__\\":', "").replace('["__proto__"]:', "")


def test_large_values_in_both_directions(page, world):
    one, other = page(), world.connect()
    value = {f"k{index}": "ä€😀" * 400 for index in range(300)}
    one.must("p", {"p": "/up", "d": "x" * 100_000})
    assert other.get("/up") == "x" * 100_000
    one.must("q", {"p": "/down", "h": ""})
    other.must("p", {"p": "/down", "d": value})
    one.wait(lambda: any("r" not in m["d"] for m in one.messages))
    assert one.pushes() == [("down", value)]
    assert one.get("/down") == value
    assert one.must("p", {"p": "/after", "d": 1}) == ""


def test_a_burst_waits_for_its_own_answers(page):
    """More than a session may have under way, some of it large: all is done, and answered in order."""
    one = page()
    sizes = [100_000 if r % 400 == 7 else 3 for r in range(1500)]
    one.send(*[{"t": "d", "d": {"r": r, "a": "p", "b": {"p": f"/b/k{r}", "d": "x" * size}}} for r, size in enumerate(sizes)])
    one.wait(lambda: len(one.messages) >= len(sizes), timeout=30)
    assert [(m["d"]["r"], m["d"]["b"]["s"]) for m in one.messages] == [(r, "ok") for r in range(len(sizes))]


def test_a_client_that_polls_seldom_gets_the_newest_value(page, world):
    """What is pushed to it while it does not poll is bounded: it gets the values of now."""
    one, other = page(), world.connect()
    one.must("q", {"p": "/x", "h": ""})
    while one.polls:
        one.polls.popitem()[1].close()
    for value in range(400):
        other.request("p", {"p": "/x", "d": {"value": value, "text": "t" * 10_000}})
    for r in [r for r, _, _ in list(other.waiting)]:
        assert other.response(r)["s"] == "ok"
    pushes = []

    def is_current():
        pushes.extend(one.pushes())
        return pushes and (pushes[-1] == ("x", {"value": 399, "text": "t" * 10_000}) or pushes[-1] == ("x/value", 399))

    one.wait(is_current)
    assert len(compact(pushes)) < 3_000_000, "not all of the 4 MB"
    assert one.must("p", {"p": "/y", "d": 1}) == ""


def test_a_poll_is_answered_before_the_client_gives_up(short):
    one = Page(short.port)
    began = time.monotonic()
    serial = one.poll()
    one.receive(serial)
    assert HOLD - 0.1 <= time.monotonic() - began < HOLD + 5
    assert one.seen[1] == "[]"
    one.close()


def test_a_poll_sent_ahead_is_held_and_answered(short):
    """The second poll of a connection is read while the first is answered: its timer must outlive that answer."""
    one, writer = Page(short.port), Page(short.port)
    one.must("q", {"p": "/x", "h": ""})
    http = HTTP(short.port)
    first, second = one.poll(http=http), one.poll(http=http)
    writer.must("p", {"p": "/x", "d": 1})
    one.receive(first)
    began = time.monotonic()
    one.receive(second)
    assert time.monotonic() - began < HOLD + 5
    one.close()
    writer.close()


def test_any_number_of_polls_may_be_sent_ahead(servers):
    """None needs stack of the one before: each is answered by an event of its own."""
    server = servers(memory=True, dev=False)
    put = b"PUT /a.json HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 65536\r\n\r\n" + b'"' + b"x" * 65534 + b'"'
    poll = b"GET /.lp?id=1&pw=aaaaaaaaaa&ser=1 HTTP/1.1\r\nHost:\r\n\r\n"
    polls = 8500
    # Large bodies widen the socket's window and the server's reads, so that thousands of polls come in one.
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE) as tcp:
            sender = threading.Thread(target=tcp.sendall, args=(put * 60,), daemon=True)
            sender.start()
            count_heads(tcp, 60)
            sender.join(DEADLINE)
            sender = threading.Thread(target=tcp.sendall, args=(put + poll * polls,), daemon=True)
            sender.start()
            count_heads(tcp, 1 + polls)
            sender.join(DEADLINE)
        assert server.alive, server.stderr()


def count_heads(tcp, wanted):
    """Reads until as many responses have begun."""
    end = b""
    while wanted > 0:
        data = tcp.recv(1 << 20)
        assert data, f"the connection ended {wanted} responses early"
        text = end + data
        wanted -= text.count(b"HTTP/1.1 ")
        end = text[-8:]


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_poll_that_is_cut_loses_nothing(page, world, how):
    """The connection breaks before there is an answer: the next poll gets it, with the next number."""
    one, other = page(), world.connect()
    one.must("q", {"p": "/x", "h": ""})
    for value in range(5):
        one.wait(lambda: one.polls)
        for serial, http in list(one.polls.items()):
            getattr(http, how)()
            del one.polls[serial]
        other.must("p", {"p": "/x", "d": value})
    one.wait(lambda: len(one.messages) >= 5)
    assert one.pushes() == [("x", value) for value in range(5)]


@pytest.mark.parametrize("again", ["same serial", "next serial"])
def test_an_answer_that_was_not_read_comes_again(page, world, again):
    one, other = page(), world.connect()
    one.must("q", {"p": "/x", "h": ""})
    one.wait(lambda: one.polls)
    while len(one.polls) > 1:
        one.pump(0.1)
    (serial, http), = one.polls.items()
    # A window that is full: what is answered stays in the server's kernel, and is lost with the connection.
    small = socket.socket()
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    small.connect(("127.0.0.1", one.port))
    holder = HTTP.__new__(HTTP)
    holder.tcp, holder.host, holder.buffer = small, http.host, b""
    one.polls.clear()
    http.close()
    serial = one.poll(http=holder)
    value = "v" * 300_000
    other.must("p", {"p": "/x", "d": value})
    assert holder.is_readable(DEADLINE)
    holder.reset()
    del one.polls[serial]
    one.poll(serial=serial if again == "same serial" else None)
    one.wait(lambda: one.messages)
    assert one.pushes() == [("x", value)]
    assert one.must("p", {"p": "/y", "d": 1}) == ""


def test_a_repeated_poll_does_not_acknowledge_unread_data(page, world):
    """The next request comes on the same connection, but its client's machine has not taken the answer before."""
    one, other = page(), world.connect()
    one.must("q", {"p": "/x", "h": ""})
    for serial in list(one.polls):
        one.polls.pop(serial).close()
    small = socket.socket()
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    small.connect(("127.0.0.1", one.port))
    holder = HTTP.__new__(HTTP)
    holder.tcp, holder.host, holder.buffer = small, f"127.0.0.1:{one.port}", b""
    one.poll(http=holder)
    value = "v" * 40_000
    other.must("p", {"p": "/x", "d": value})
    assert holder.is_readable(DEADLINE)
    one.poll(one.cut_up({"t": "d", "d": {"r": 900, "a": "p", "b": {"p": "/asked", "d": 1}}}), http=holder)
    deadline = time.monotonic() + DEADLINE
    while other.get("/asked") != 1:
        assert time.monotonic() < deadline
    holder.reset()
    one.polls.clear()
    assert one.response(900)["s"] == "ok"
    assert one.pushes() == [("x", value)]


def test_large_responses_are_read_before_the_next_request_is_processed(many):
    """Requests for sessions of several loops, sent ahead on one connection, and answers that are read late."""
    pages, writer = [Page(many.port) for _ in range(3)], Connection(many.port)
    for one in pages:
        one.must("q", {"p": "/x", "h": ""})
        for serial in list(one.polls):
            one.polls.pop(serial).close()
    value = "v" * 200_000
    writer.must("p", {"p": "/x", "d": value})
    http = HTTP(many.port)
    for one in pages:
        one.poll(http=http)
    for one in pages:
        (serial,) = one.polls
        one.receive(serial)
        one.idle = []
        one.wait(lambda: one.messages)
        assert one.pushes() == [("x", value)]
    for closing in (*pages, writer, http):
        closing.close()


def page_with_one_poll(page, world):
    """A page that listens at /x, another client, and the serial number of the page's only poll."""
    one, other = page(), world.connect()
    one.must("q", {"p": "/x", "h": ""})
    for serial in list(one.polls):
        one.polls.pop(serial).close()
    return one, other, one.poll()


def test_a_poll_may_be_repeated_on_many_connections(page, world):
    one, other, serial = page_with_one_poll(page, world)
    copies = [one.polls[serial]]
    for _ in range(40):
        one.poll(serial=serial, http=HTTP(one.port))
        copies.append(one.polls[serial])
    deadline = time.monotonic() + DEADLINE
    while sum(copy.is_readable() for copy in copies) < len(copies) - 16:
        assert time.monotonic() < deadline, "the oldest are given up"
        select.select([copy.tcp for copy in copies if not copy.is_readable()], [], [], 0.1)
    other.must("p", {"p": "/x", "d": 1})
    one.wait(lambda: one.messages)
    assert one.pushes() == [("x", 1)]
    for copy in copies:
        copy.close()


def test_a_poll_on_two_connections_gets_the_same_response_on_both(page, world):
    """Which of the two came first, and which still lives, the server cannot know."""
    one, other, serial = page_with_one_poll(page, world)
    first = one.polls.pop(serial)
    one.poll(serial=serial)
    other.must("p", {"p": "/x", "d": 1})
    one.wait(lambda: one.messages)
    assert one.pushes() == [("x", 1)]
    one.take(first.receive()[2])
    assert one.messages == []
    assert one.must("p", {"p": "/y", "d": 1}) == ""


def lose(page, serial):
    """A proxy reads the answer to a poll to its end, and its client never gets it."""
    http = page.polls.pop(serial)
    status, _, body = http.receive()
    assert status == 200, body
    http.close()


def test_a_response_that_a_proxy_has_lost_comes_again_behind_a_late_copy(page, world):
    """The copy of an earlier poll does not show that the client has received the later response."""
    one, other, first = page_with_one_poll(page, world)
    other.must("p", {"p": "/x", "d": 1})
    one.receive(first)
    lost = one.poll(http=HTTP(one.port))
    other.must("p", {"p": "/x", "d": 2})
    lose(one, lost)
    for serial in (first, lost):
        one.poll(serial=serial)
        one.receive(serial)
    assert one.pushes() == [("x", 1), ("x", 2)]
    assert one.must("p", {"p": "/y", "d": 1}) == ""


def test_a_response_that_a_proxy_has_lost_comes_again_behind_other_polls(page, world):
    """The client's other poll goes on meanwhile, and shows nothing of the first one."""
    one, other, lost = page_with_one_poll(page, world)

    def put(r):
        message = {"t": "d", "d": {"r": r, "a": "p", "b": {"p": "/y", "d": r}}}
        return one.poll(one.cut_up(message), http=HTTP(one.port))

    carrying = put(900)
    lose(one, lost)
    other.must("p", {"p": "/x", "d": 1})
    for r in (901, 902):
        one.receive(carrying)
        carrying = put(r)
    one.poll(serial=lost)
    one.receive(lost)
    assert [one.response(r)["s"] for r in (900, 901, 902)] == ["ok"] * 3
    assert one.pushes() == [("x", 1)]


def test_requests_over_any_loop_reach_their_session(many):
    """Each request on a connection of its own, and each connection with requests of all sessions."""
    pages = [Page(many.port) for _ in range(4)]
    for index, one in enumerate(pages):
        assert one.must("p", {"p": f"/p{index}", "d": index}) == ""
    http = [HTTP(many.port) for _ in range(4)]
    for round in range(12):
        for index, one in enumerate(pages):
            for connection in [*one.idle, *one.polls.values()]:
                if connection not in http:
                    connection.close()
            one.idle, one.polls = [], {}
        for index, one in enumerate(pages):
            connection = http[(round + index) % 4]
            r, one.next_r = one.next_r, one.next_r + 1
            serial = one.poll(one.cut_up({"t": "d", "d": {"r": r, "a": "p", "b": {"p": f"/p{index}", "d": round}}}), http=connection)
            while not any(m["d"].get("r") == r for m in one.messages):
                one.receive(serial)
                if not any(m["d"].get("r") == r for m in one.messages):
                    one.idle = []
                    serial = one.poll(http=connection)
            one.idle, one.polls = [], {}
    assert pages[0].must("g", {"p": "/", "q": {}}) == {f"p{index}": 11 for index in range(4)}
    for one in pages:
        one.close()
    for connection in http:
        connection.close()


def test_requests_sent_ahead_are_answered_in_order(many):
    """A client that pipelines, on a connection that moves from loop to loop between its requests."""
    pages = [Page(many.port) for _ in range(3)]
    http = HTTP(many.port)
    for one in pages:
        http.send(f"/.lp?disconn=t&id={one.id}&pw={one.pw}")
        http.send("/.json?ns=demo")
    for one in pages:
        assert http.receive()[::2] == (200, "")
        assert http.receive()[0] == 200
    for one in pages:
        assert one.receive(one.poll()).strip() == "pLPCommand('close');"
        one.close()
    http.close()


# Identity


def test_requests_behind_a_sign_in_wait_for_it(page):
    one = page()
    messages = [
        {"t": "d", "d": {"r": 1, "a": "gauth", "b": {"cred": "owner"}}},
        {"t": "d", "d": {"r": 2, "a": "p", "b": {"p": "/x", "d": 1}}},
        {"t": "d", "d": {"r": 3, "a": "unauth", "b": {}}},
    ]
    one.send(*messages)
    assert one.response(1) == {"s": "ok", "d": {"auth": None, "expires": None}}
    assert one.response(2)["s"] == "ok"
    assert one.response(3)["s"] == "ok"


def test_pings_are_answered(page):
    one = page()
    one.send({"t": "c", "d": {"t": "p", "d": {}}})
    one.wait(lambda: {"t": "c", "d": {"t": "o", "d": None}} in one.messages)


# Ends


def watch(world_or_server, ns, path="/gone"):
    watcher = Connection(world_or_server.port, ns)
    watcher.must("q", {"p": path, "h": ""})
    return watcher


def wait_for_push(watcher, value, timeout=DEADLINE):
    """Waits until the value is pushed."""
    deadline = time.monotonic() + timeout
    pushed = [body["d"] for _, body in watcher.taken_pushes()]
    while value not in pushed:
        assert time.monotonic() < deadline
        message = watcher.receive(timeout=deadline - time.monotonic())
        pushed.append(message["d"]["b"].get("d"))


def test_leaving_the_page_ends_the_session(page, world):
    one, watcher = page(), watch(world, world.ns)
    one.must("o", {"p": "/gone", "d": True})
    http = HTTP(one.port)
    status, headers, body = http.ask(f"/.lp?dframe=t&id={one.id}&pw={one.pw}&ns={world.ns}")
    assert status == 200 and headers["content-type"].startswith("text/html")
    assert f"/.lp?disconn=t&id={one.id}&pw={one.pw}" in body
    assert one.get("/gone") is None, "the page itself ends nothing"
    one.wait(lambda: one.polls)
    assert one.disconnect()[::2] == (200, "")
    wait_for_push(watcher, True)
    while one.polls:
        one.pump(1)
    assert one.is_closed
    assert one.receive(one.poll()).strip() == "pLPCommand('close');"
    watcher.close()
    http.close()


def test_requests_sent_before_a_page_is_left_are_executed(servers):
    server = servers(memory=True, arguments=["--loops", 1])
    one, other, leaving = Page(server.port), Connection(server.port), HTTP(server.port)
    assert leaving.ask("/.lp?disconn=t&id=1&pw=aaaaaaaaaa")[0] == 200
    # A worker reads the first; the others wait for it.
    messages = [{"t": "d", "d": {"r": 1, "a": "p", "b": {"p": "/big", "d": "x" * 200_000}}}]
    messages += [{"t": "d", "d": {"r": 2 + r, "a": "p", "b": {"p": f"/k{r}", "d": r}}} for r in range(10)]
    segments = one.cut_up(*messages)
    for segment in segments[:-11]:
        while len(one.polls) >= 2:
            one.pump(0.1)
        one.poll([segment])
    while len(one.polls) >= 2:
        one.pump(0.1)
    one.poll(segments[-11:])
    leaving.send(f"/.lp?disconn=t&id={one.id}&pw={one.pw}")
    assert leaving.receive()[0] == 200
    deadline = time.monotonic() + DEADLINE
    while other.get("/k9") != 9:
        assert time.monotonic() < deadline
    assert other.get("/big") == "x" * 200_000
    while one.polls:
        one.pump(1)
    assert one.is_closed
    for closing in (one, other, leaving):
        closing.close()


def test_a_client_that_stops_polling_is_disconnected(short):
    one, watcher = Page(short.port), watch(short, "demo")
    one.must("o", {"p": "/gone", "d": True})
    one.close()
    began = time.monotonic()
    wait_for_push(watcher, True, PRESENCE + 5)
    assert GAP - 1 < time.monotonic() - began < PRESENCE + 4
    watcher.close()


def test_a_client_that_polls_stays_connected(short):
    one, watcher = Page(short.port), watch(short, "demo")
    one.must("o", {"p": "/gone", "d": True})
    began = time.monotonic()
    while time.monotonic() - began < PRESENCE + 2:
        if not one.polls:
            one.poll()
        one.pump(0.5)
    assert one.get("/gone") is None
    one.disconnect()
    wait_for_push(watcher, True)
    one.close()
    watcher.close()


def test_a_client_that_comes_back_replaces_its_session(page, world):
    one, watcher = page(), watch(world, world.ns)
    one.must("o", {"p": "/gone", "d": True})
    one.wait(lambda: one.polls)
    two = page(ls=one.session)
    wait_for_push(watcher, True)
    while one.polls:
        one.pump(1)
    assert one.is_closed
    assert two.get("/gone") is True
    watcher.close()


def test_a_client_is_told_that_the_server_stops(many):
    pages = [Page(many.port) for _ in range(5)]
    for one in pages[:3]:
        one.must("o", {"p": "/gone", "d": True})
        one.wait(lambda: one.polls)
    many.signal(signal.SIGTERM)
    for one in pages[:3]:
        while one.polls:
            one.pump(1)
        assert one.is_closed
    for one in pages:
        one.close()
    # Sessions that have no connection are not waited for.
    assert many.process.wait(2.5) == 0


@pytest.mark.parametrize("how", ["close frame", "half-closed", "reset", "broken frame", "malformed message"])
def test_a_websocket_session_ends_with_its_disconnect_request(world, how):
    """The client leaves its socket open: the session is over all the same."""
    watcher = watch(world, world.ns)
    raw = RawSocket(world.port, world.ns)
    raw.receive_text()
    raw.send_frame(compact({"t": "d", "d": {"r": 1, "a": "o", "b": {"p": "/gone", "d": True}}}))
    raw.receive_text()
    began = time.monotonic()
    if how == "close frame":
        raw.send_frame(struct.pack(">H", 1000), raw.CLOSE)
    elif how == "half-closed":
        raw.tcp.shutdown(socket.SHUT_WR)
    elif how == "reset":
        raw.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.tcp.close()
    elif how == "broken frame":
        raw.send_frame(b"x", 0x3)
    else:
        raw.send_frame("{")
    wait_for_push(watcher, True)
    assert time.monotonic() - began < 4, "not only when TCP ends, 5 s later"
    raw.close()
    watcher.close()


class Swallower:
    """A relay that can stop to pass anything on, while both of its connections stay open."""

    def __init__(self, port):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.target, self.port = port, self.listener.getsockname()[1]
        self.swallows, self.sockets = False, []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            self.sockets += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self.relay, args=(source, sink), daemon=True).start()

    def relay(self, source, sink):
        try:
            while data := source.recv(65536):
                if not self.swallows:
                    sink.sendall(data)
        except OSError:
            pass

    def close(self):
        for one in [self.listener, *self.sockets]:
            one.close()


@pytest.mark.parametrize("transport", ["websocket", "long polling"])
def test_a_vanished_client_is_disconnected_after_the_presence_timeout(short, transport):
    relay, watcher = Swallower(short.port), watch(short, "demo")
    if transport == "websocket":
        raw = RawSocket(relay.port, "demo", host=f"127.0.0.1:{short.port}")
        raw.receive_text()
        raw.send_frame(compact({"t": "d", "d": {"r": 1, "a": "o", "b": {"p": "/gone", "d": True}}}))
        raw.receive_text()
    else:
        raw = Page(relay.port)
        raw.must("o", {"p": "/gone", "d": True})
        raw.wait(lambda: raw.polls)
    relay.swallows = True
    began = time.monotonic()
    wait_for_push(watcher, True, PRESENCE + 5)
    waited = time.monotonic() - began
    assert PRESENCE / 2 - 1 < waited < PRESENCE + 4, waited  # a slow machine adds to the promise
    raw.close()
    relay.close()
    watcher.close()


@pytest.mark.parametrize("seconds", [0, 9, 3601])
def test_presence_timeouts_that_make_no_sense_are_refused(seconds):
    import server

    result = server.run("serve", "--memory", "--presence-timeout", seconds)
    assert result.returncode == 78 and "--presence-timeout: must be 10 to 3600" in result.stderr


# Moving to a WebSocket


class Mover:
    """A page that moves its session to a WebSocket, step by step (1.6)."""

    def __init__(self, one):
        self.page = one
        self.web = Connection(one.port, query=f"v=5&s={one.session}&ns={one.ns}", handshake=False)
        self.web.next_r = one.next_r
        assert self.web.receive() == {"t": "c", "d": {"t": "a", "d": {}}}

    def pings(self, count=2):
        for _ in range(count):
            self.web.send({"t": "c", "d": {"t": "p", "d": {}}})
            assert self.web.receive() == {"t": "c", "d": {"t": "o", "d": None}}

    def switch(self, order="an"):
        for verb in order:
            target = self.web if verb == "a" else self.page
            target.send({"t": "c", "d": {"t": verb, "d": {}}})

    def finish(self):
        """The rest of the polling: all messages up to the server's `n`, and then its end."""
        one, end = self.page, {"t": "c", "d": {"t": "n", "d": {}}}
        deadline = time.monotonic() + DEADLINE
        while not one.is_closed:
            assert time.monotonic() < deadline
            if not one.polls:
                one.poll()
            one.pump(0.1)
        assert one.messages[-1] == end and one.messages.count(end) == 1
        assert one.closed_behind == one.next_number - 1
        one.messages.pop()


@pytest.mark.parametrize("order", ["an", "na"])
def test_a_session_moves_to_a_websocket(many, order):
    for round in range(6):
        ns = f"move-{round}"
        one, writer, watcher = Page(many.port, ns), Connection(many.port, ns), watch(many, ns)
        one.must("q", {"p": "/x", "h": ""})
        one.must("o", {"p": "/gone", "d": True})
        mover = Mover(one)
        writer.must("p", {"p": "/x", "d": 0})
        mover.pings()
        # Data by polling, the switch, and data by WebSocket at once: everything in this order.
        count = 40
        one.send(*[{"t": "d", "d": {"r": 100 + r, "a": "p", "b": {"p": "/log", "d": r}}} for r in range(count)])
        mover.switch(order)
        for r in range(count, 2 * count):
            mover.web.send({"t": "d", "d": {"r": 100 + r, "a": "p", "b": {"p": "/log", "d": r}}})
        writer.must("p", {"p": "/x", "d": 1})
        mover.finish()
        answered = [m["d"]["r"] for m in one.messages if "r" in m["d"]]
        pushed = [m["d"]["b"]["d"] for m in one.messages if "r" not in m["d"]]
        while len(answered) < 2 * count or len(pushed) < 2:
            body = mover.web.receive()["d"]
            if "r" in body:
                answered.append(body["r"])
            else:
                pushed.append(body["b"]["d"])
        assert answered == list(range(100, 100 + 2 * count))
        assert pushed == [0, 1]
        # The page of the disconnect frame goes when polling ends, and says so.
        assert one.disconnect()[0] == 200
        mover.web.next_r = 500
        assert mover.web.must("g", {"p": "/log", "q": {}}) == 2 * count - 1
        assert mover.web.must("g", {"p": "/gone", "q": {}}) is None
        mover.web.close()
        wait_for_push(watcher, True)
        for closing in (one, writer, watcher):
            closing.close()


def test_data_waits_for_the_end_of_polling(many):
    """What comes by WebSocket is not looked at before everything that comes by polling."""
    one = Page(many.port)
    mover = Mover(one)
    mover.pings()
    mover.switch("a")
    mover.web.next_r = 50
    asked = mover.web.request("p", {"p": "/x", "d": "web"})
    one.must("p", {"p": "/x", "d": "polling"})
    with pytest.raises(AssertionError):
        mover.web.receive(timeout=0.3)
    mover.switch("n")
    mover.finish()
    assert mover.web.response(asked)["s"] == "ok"
    assert mover.web.get("/x") == "web"
    mover.web.close()
    one.close()


def test_messages_behind_the_end_of_polling_are_ignored(many):
    one = Page(many.port)
    mover = Mover(one)
    mover.pings()
    mover.switch("n")
    while len(one.polls) >= 2:
        one.pump(1)
    one.poll([(one.segment, 2, "!!!!"), (one.segment + 1000, 1, "e30.")])
    mover.switch("a")
    mover.finish()
    mover.web.next_r = 50
    assert mover.web.must("s", {"c": {}}) == ""
    mover.web.close()
    one.close()


@pytest.mark.parametrize("when", ["offered", "pinged"])
def test_a_websocket_that_fails_leaves_the_session_where_it_is(many, when):
    one = Page(many.port)
    for attempt in range(3):
        mover = Mover(one)
        if when == "pinged":
            mover.pings()
        mover.web.reset() if attempt % 2 else mover.web.close()
        assert one.must("p", {"p": "/x", "d": attempt}) == ""
    mover = Mover(one)
    mover.pings()
    mover.switch()
    mover.finish()
    mover.web.next_r = 100
    assert mover.web.get("/x") == 2
    mover.web.close()
    one.close()


def test_a_websocket_that_fails_behind_its_switch_ends_the_session(many):
    """The client can send nothing any more, and does not always see it: firebase-js-sdk issue 494."""
    one, watcher = Page(many.port), watch(many, "demo")
    one.must("o", {"p": "/gone", "d": True})
    mover = Mover(one)
    mover.pings()
    mover.switch("a")
    mover.web.reset()
    mover.switch("n")
    wait_for_push(watcher, True)
    while one.polls:
        one.pump(1)
    assert one.is_closed
    one.close()
    watcher.close()


@pytest.mark.parametrize("session", ["", "x", "0" * 32, "of another"])
def test_an_unknown_session_is_not_joined(many, session):
    one = Page(many.port)
    if session == "of another":
        other = Connection(many.port)
        session = other.session
    web = Connection(many.port, query=f"v=5&s={session}&ns=demo", handshake=False)
    assert web.expect_closed() == []
    assert one.must("s", {"c": {}}) == ""
    one.close()


def test_a_session_of_another_namespace_is_not_joined(many):
    one = Page(many.port, "mine")
    web = Connection(many.port, query=f"v=5&s={one.session}&ns=yours", handshake=False)
    assert web.expect_closed() == []
    one.close()


# Everything at once


@pytest.mark.parametrize("seed", range(4))
def test_no_event_is_lost_or_repeated_when_connections_break(many, seed):
    """Connections break before and behind answers, polls are asked again, requests overtake each other."""
    chance = random.Random(seed)
    one, writer = Page(many.port), Connection(many.port)
    one.must("q", {"p": "/x", "h": ""})
    values, sent, got = itertools.count(), [], []
    deadline = time.monotonic() + 4
    while time.monotonic() < deadline:
        action = chance.random()
        if action < 0.35:
            value = next(values)
            writer.must("p", {"p": "/x", "d": value})
            sent.append(value)
        elif action < 0.5 and one.polls:
            serial = chance.choice(list(one.polls))
            http = one.polls.pop(serial)
            chance.choice([http.close, http.reset])()
            if chance.random() < 0.5:
                one.poll(serial=serial)
        elif action < 0.7 and len(one.polls) < 2:
            one.poll()
        else:
            one.pump(0.01)
        got += [value for _, value in one.pushes()]

    def caught_up():
        got.extend(value for _, value in one.pushes())
        return len(got) >= len(sent)

    one.wait(caught_up, timeout=30)
    assert got == sent
    assert one.must("p", {"p": "/y", "d": 1}) == ""
    one.close()
    writer.close()


@pytest.mark.parametrize("seed", range(8))
def test_a_move_loses_and_repeats_nothing_when_connections_break(many, seed):
    """Pushes, requests and broken polls between any two steps of the move."""
    chance = random.Random(seed)
    ns = f"move-{seed}"
    one, writer = Page(many.port, ns), Connection(many.port, ns)
    one.must("q", {"p": "/x", "h": ""})
    sent, asked, answered, pushed = [], [], [], []
    numbers = itertools.count(1000)

    def collect(messages):
        for message in messages:
            body = message["d"]
            if message["t"] != "d":
                continue
            if "r" in body:
                answered.append(body["r"])
            else:
                pushed.append(body["b"]["d"])

    def stir(target):
        for _ in range(chance.randrange(6)):
            action = chance.random()
            if action < 0.4:
                sent.append(len(sent))
                writer.must("p", {"p": "/x", "d": sent[-1]})
            elif action < 0.7:
                r = next(numbers)
                asked.append(r)
                target.send({"t": "d", "d": {"r": r, "a": "p", "b": {"p": f"/w/{r}", "d": r}}})
            elif action < 0.85 and set(one.polls) - one.carrying:
                # Not one that brings something: whether that has arrived, no client could know.
                http = one.polls.pop(serial := max(set(one.polls) - one.carrying))
                chance.choice([http.close, http.reset])()
                if chance.random() < 0.5:
                    one.poll(serial=serial)
            else:
                if len(one.polls) < 2:
                    one.poll()
                one.pump(0.01)

    stir(one)
    mover = Mover(one)
    stir(one)
    mover.pings(1)
    stir(one)
    mover.pings(1)
    stir(one)
    verbs = chance.choice(["an", "na"])
    mover.switch(verbs[0])
    mover.switch(verbs[1])
    stir(mover.web)
    deadline = time.monotonic() + DEADLINE
    end = {"t": "c", "d": {"t": "n", "d": {}}}
    while end not in one.messages:
        assert time.monotonic() < deadline, (one.next_number, sorted(one.early))
        stir(mover.web)
        if not one.polls:
            one.poll()
        one.pump(0.05)
    assert one.messages[-1] == end
    collect(one.messages)
    while len(answered) < len(asked) or len(pushed) < len(sent):
        collect([mover.web.receive()])
    assert answered == asked and pushed == sent
    assert mover.web.must("g", {"p": "/w", "q": {}}) == ({str(r): r for r in asked} or None)
    for closing in (mover.web, one, writer):
        closing.close()

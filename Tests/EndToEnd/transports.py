"""How messages travel between client and server, written from the wire protocol document alone.

`WebSocket` is §2, `LongPolling` (in `long_polling.py`) §1.5, `Upgrading` §1.6: it begins with long polling and goes
on over a WebSocket. All have the same verbs: `send_text` one message, `receive` the next one, `close`, `cut`, `reset`.
"""

import base64
import collections
import ctypes
import json
import os
import re
import socket
import struct
import threading
import time

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

TRANSPORTS = ("ws", "lp", "upgrade")
SOCKET_HOLDS = 32 << 10  # bytes that the buffers of a connection take, at least
# Seconds any single wait may take. It only ends a test that hangs: 10 MiB by long polling take a debug build 10 s on a busy machine.
DEADLINE = float(os.environ.get("PANDO_TEST_DEADLINE", "60"))
CHUNK = 16384  # UTF-16 code units (or bytes, for C++) in one frame (2.1)
CLOSE_PATIENCE = 2  # seconds that a polite end may take


class ProtocolError(AssertionError):
    """The server broke a rule of the wire protocol."""


class Closed(Exception):
    """The connection ended while it was opened, or while a message was sent or awaited."""


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def shorten(text, limit=600):
    text = text if isinstance(text, str) else compact(text)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def units(text):
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf16_chunks(text, size=CHUNK):
    """The frames of one message, cut by UTF-16 units and never inside a surrogate pair."""
    data, at, chunks = text.encode("utf-16-le"), 0, []
    while at < len(data):
        end = min(at + 2 * size, len(data))
        if end < len(data) and 0xD8 <= data[end - 1] <= 0xDB:
            end -= 2
        chunks.append(data[at:end].decode("utf-16-le").encode())
        at = end
    return chunks


def surrogate_split_chunks(text, size=CHUNK):
    """The same, cut hard every `size` units, as JS, iOS and Android cut: the halves of a split pair travel in their
    three-byte forms, as from a stack that encodes each frame by itself.
    """
    data = text.encode("utf-16-le")
    return [
        data[at : at + 2 * size].decode("utf-16-le", "surrogatepass").encode("utf-8", "surrogatepass")
        for at in range(0, len(data), 2 * size)
    ]


def byte_chunks(text, size=CHUNK):
    """The frames of one message as C++ cuts it: by bytes, inside characters too."""
    data = text.encode()
    return [data[at : at + size] for at in range(0, len(data), size)]


def control(verb, payload=None):
    return compact({"t": "c", "d": {"t": verb, "d": {} if payload is None else payload}})


def connect_tcp(port, timeout=DEADLINE):
    tcp = socket.create_connection(("127.0.0.1", port), timeout=timeout)
    tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return tcp


def reset_tcp(tcp):
    """Ends a TCP connection with an RST, also while another thread sits in its `recv`."""
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # Closing the descriptor sends nothing while a thread is blocked on it. connect(AF_UNSPEC) resets a TCP socket at
    # once, and wakes that thread; where the kernel refuses it, reading is shut down first.
    libc = ctypes.CDLL(None, use_errno=True)
    address = struct.pack("H14x", socket.AF_UNSPEC)
    if libc.connect(tcp.fileno(), address, len(address)) != 0:
        tcp.shutdown(socket.SHUT_RD)
        tcp.close()


class WebSocket:
    """One WebSocket to `/.ws`."""

    name = "ws"

    def __init__(self, port, host, query):
        tcp = connect_tcp(port)
        # The library reads in a thread of its own: a timeout of the socket would end a connection that is silent.
        tcp.settimeout(None)
        self.is_over = False
        try:
            self.socket = connect(
                f"ws://{host}/.ws?{query}",
                sock=tcp,
                compression=None,
                max_size=None,
                max_queue=None,  # never stop reading: a slow test must not look like a slow client
                ping_interval=None,
                proxy=None,
                open_timeout=DEADLINE,
                close_timeout=CLOSE_PATIENCE,
            )
        except ConnectionClosed as closed:  # before the handshake was sent or read
            raise Closed(str(closed)) from None

    def send_frame(self, text):
        """One text frame, given as text or as the raw bytes of its payload."""
        try:
            self.socket.send(text.encode() if isinstance(text, str) else text, text=True)
        except ConnectionClosed as closed:
            raise Closed(str(closed)) from None

    def send_text(self, text, chunks=utf16_chunks):
        """One message, chunked if it is longer than a frame may be."""
        pieces = chunks(text)
        if len(pieces) > 1:
            self.send_frame(str(len(pieces)))
        for piece in pieces:
            self.send_frame(piece)

    def keep_alive(self):
        self.send_frame("0")

    def receive_frame(self, deadline):
        try:
            frame = self.socket.recv(timeout=None if deadline is None else max(0.001, deadline - time.monotonic()))
        except ConnectionClosed as closed:
            raise Closed(str(closed)) from None
        if not isinstance(frame, str):
            raise ProtocolError("2 all frames are text")
        if frame.strip() in ("", "0"):
            raise ProtocolError(f"2.3 the server sent the frame {frame!r}, which hangs a JS client for good")
        return frame

    def receive(self, deadline):
        """The next whole message, reassembled; `deadline` None waits for good. A `TimeoutError` if none comes."""
        text = self.receive_frame(deadline)
        if re.fullmatch("[0-9]{1,6}", text):
            if len(text) > 4:
                raise ProtocolError(f"2.2 iOS reads counts of at most four digits, got {text}")
            parts = [self.receive_frame(deadline) for _ in range(int(text))]
            text = "".join(parts)
            if any(units(part) > CHUNK for part in parts):
                raise ProtocolError(f"2.1 a chunk is longer than {CHUNK} units: {[units(part) for part in parts]}")
        elif units(text) > CHUNK:
            raise ProtocolError(f"2.1 an unchunked frame of {units(text)} units")
        try:
            return json.loads(text)
        except ValueError:
            raise ProtocolError(f"3.1 not JSON: {shorten(text)}") from None

    def close(self):
        """A polite end: close frame both ways."""
        if not self.is_over:
            self.is_over = True
            self.socket.close()

    def cut(self):
        """The network goes away: FIN without a close frame."""
        self.is_over = True
        self.socket.socket.shutdown(socket.SHUT_RDWR)
        # The thread that reads may be about to: it must not find the next connection behind the same descriptor.
        self.socket.recv_events_thread.join(DEADLINE)
        self.socket.socket.close()

    def reset(self):
        """The process dies: RST."""
        self.is_over = True
        reset_tcp(self.socket.socket)


class Upgrading:
    """Begins with long polling and moves the session to a WebSocket (1.6), as `Connection` of the JS SDK does.

        polling ──(secondary open, two pongs)──▶ sending by WebSocket ──(n by polling)──▶ WebSocket

    `upgrade_after` is the number of messages to be sent before the second transport is opened: the move falls into the
    middle of whatever the test does.
    """

    name = "upgrade"
    RESPONSES_REQUIRED = 2  # pongs until the WebSocket counts as healthy (1.6)
    UPGRADE_PATIENCE = 60  # seconds until the client gives the upgrade up (1.6)

    def __init__(self, port, host, query, upgrade_after=0):
        from long_polling import LongPolling  # it needs this module

        self.port, self.host = port, host
        # The secondary names the session in `s`, and no earlier one.
        self.query = "&".join(part for part in query.split("&") if not part.startswith("ls="))
        self.upgrade_after = upgrade_after
        self.sent = 0
        self.lock = threading.RLock()
        self.arrived = threading.Condition(self.lock)
        self.messages = collections.deque()
        self.pending = []  # what came by the WebSocket before `n` on the polls: it is given after what the polls bring
        self.responses_required = self.RESPONSES_REQUIRED
        self.secondary, self.secondary_is_opening = None, False
        self.session, self.problem, self.is_over = None, None, False
        self.upgraded = threading.Event()
        self.polling = LongPolling(
            port, host, query, deliver=self.primary_message, ended=self.primary_ended, lock=self.lock)
        self.sends_by = self.receives_by = self.polling
        self.polling.begin()

    @property
    def request_count(self):
        return self.polling.request_count

    # What comes

    def give(self, message):
        self.messages.append(message)
        self.arrived.notify_all()

    def end(self, problem):
        with self.lock:
            self.problem = self.problem or problem
            self.arrived.notify_all()

    def primary_message(self, message):
        with self.lock:
            verb = message["d"].get("t") if message.get("t") == "c" else None
            if verb == "n":
                if self.sends_by is not self.secondary or self.secondary is None:
                    return self.end(ProtocolError("1.6 the server ended its polls before the client did"))
                if self.receives_by is self.secondary:
                    return self.end(ProtocolError("1.6 two ends of transmission"))
                self.receives_by = self.secondary
                for held in self.pending:
                    self.give(held)
                self.pending = []
                self.upgraded.set()
                self.arrived.notify_all()
                # The SDK closes the old transport now: its frame goes and says `disconn`, for an id whose session has
                # moved on and must not end.
                threading.Thread(target=self.polling.abandon, daemon=True).start()
                return None
            if self.receives_by is not self.polling:
                return self.end(ProtocolError(f"1.6 n is the last message of the polls, then came {shorten(message)}"))
            self.give(message)
            if verb == "h":
                self.session = message["d"]["d"]["s"]
                self.upgrade_if_due()
            return None

    def primary_ended(self, problem):
        with self.lock:
            if not self.upgraded.is_set() or isinstance(problem, ProtocolError):
                self.end(problem)

    def secondary_message(self, message):
        with self.lock:
            if self.secondary is None:
                return None  # given up meanwhile
            if self.receives_by is self.secondary:
                return self.give(message)
            # The SDK holds data. Control messages belong to the move until this side sends by the WebSocket: after that
            # they answer the test, a pong for a ping, and may overtake `n`.
            if message.get("t") == "d" or self.sends_by is self.secondary:
                return self.pending.append(message)
            verb = message["d"]["t"]
            if verb == "r":
                return self.drop_secondary()
            if verb == "o":
                self.responses_required -= 1
            if verb in ("a", "o"):
                self.upgrade_if_healthy()
            return None

    # The move

    def upgrade_if_due(self):
        if self.session and not self.secondary_is_opening and self.sent >= self.upgrade_after and not self.is_over:
            self.secondary_is_opening = True
            threading.Thread(target=self.run_secondary, daemon=True).start()

    def run_secondary(self):
        try:
            secondary = WebSocket(self.port, self.host, f"{self.query}&s={self.session}")
        except Exception:  # noqa: BLE001 (refused: the client stays with its polls)
            return
        with self.lock:
            if self.is_over:
                secondary.close()
                return
            self.secondary = secondary
        while True:
            try:
                self.secondary_message(secondary.receive(None))
            except Closed as closed:  # either transport
                if self.sends_by is secondary:
                    self.end(closed)
                return
            except ProtocolError as error:
                return self.end(error)

    def drop_secondary(self):
        secondary, self.secondary = self.secondary, None
        threading.Thread(target=secondary.close, daemon=True).start()

    def upgrade_if_healthy(self):
        if self.responses_required > 0:
            return self.secondary.send_text(control("p"))
        self.secondary.send_text(control("a"))
        self.polling.send_text(control("n"))
        self.sends_by = self.secondary
        return None

    def wait_until_upgraded(self, timeout=DEADLINE):
        if not self.upgraded.wait(timeout):
            raise ProtocolError(f"1.6 no upgrade within {timeout} s: {self.problem}")

    # The verbs

    def send_text(self, text, chunks=utf16_chunks):
        with self.lock:
            # The server reads nothing more here before `n` has come by the polls, whose thread needs the lock: a text that
            # the sockets do not hold would wait for that with the lock held.
            if self.sends_by is self.secondary and len(text) > SOCKET_HOLDS:
                self.arrived.wait_for(lambda: self.upgraded.is_set() or self.problem is not None, DEADLINE)
            self.sends_by.send_text(text, chunks)
            self.sent += 1
            self.upgrade_if_due()

    def send_frame(self, text):
        with self.lock:
            self.sends_by.send_frame(text)
            self.sent += 1
            self.upgrade_if_due()

    def keep_alive(self):
        with self.lock:
            self.sends_by.keep_alive()

    def receive(self, deadline):
        with self.lock:
            while not self.messages:
                if self.problem is not None:
                    raise self.problem if isinstance(self.problem, ProtocolError) else Closed(str(self.problem))
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError
                self.arrived.wait(left)
            return self.messages.popleft()

    def leave(self, how):
        """A move that has begun ends first, so that the end cannot overtake what was sent before it."""
        with self.lock:
            if self.is_over:
                return
            self.is_over = True
            moving = self.secondary is not None and self.sends_by is self.secondary
            if not moving and self.secondary is not None:
                self.drop_secondary()
        if not moving:
            return how(self.polling)
        with self.lock:
            self.arrived.wait_for(lambda: self.upgraded.is_set() or self.problem is not None, CLOSE_PATIENCE)
        how(self.secondary)
        return self.polling.vanish()

    def close(self):
        self.leave(lambda transport: transport.close())

    def cut(self):
        self.leave(lambda transport: transport.cut())

    def reset(self):
        self.leave(lambda transport: transport.reset())


def open_transport(name, port, host, query, **options):
    """The transport of that name: `ws`, `lp` or `upgrade`."""
    from long_polling import LongPolling

    if name == "lp":
        transport = LongPolling(port, host, query, **options)
        transport.begin()
        return transport
    return {"ws": WebSocket, "upgrade": Upgrading}[name](port, host, query, **options)


def url_base64(data):
    """Base64 with `-`, `_` and the padding `.` (1.5.2)."""
    return base64.urlsafe_b64encode(data).decode().replace("=", ".")

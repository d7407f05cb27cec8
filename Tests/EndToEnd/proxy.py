"""A TCP proxy on loopback that fails as networks do: it swallows, it cuts, it refuses.

`Proxy(port)` forwards to that port. `swallow()` loses every byte from now on in both directions while the sockets stay
open; `cut_all()` ends every connection; `cut_sockets_after(count)` lets each WebSocket live for so many messages of the
server. `target` may be changed at any time: new connections go there.
"""

import socket
import struct
import threading

BUFFER = 1 << 16


class Link:
    """One client's connection through the proxy."""

    def __init__(self, proxy, client):
        self.proxy, self.client = proxy, client
        self.server = None
        self.first_bytes = b""

    def run(self):
        try:
            self.first_bytes = self.client.recv(BUFFER)
            if not self.first_bytes:
                return self.end()
            self.proxy.seen.append(self.first_bytes.split(b"\r\n", 1)[0].decode("latin-1"))
            self.server = socket.create_connection(("127.0.0.1", self.proxy.target), timeout=5)
            self.server.settimeout(None)
            for tcp in (self.client, self.server):
                tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.server.sendall(self.first_bytes)
        except OSError:
            return self.end()
        threading.Thread(target=self.forward, args=(self.client, self.server), daemon=True).start()
        if self.is_socket and self.proxy.message_limit is not None:
            return self.forward_messages(self.proxy.message_limit)
        return self.forward(self.server, self.client)

    @property
    def is_socket(self):
        return self.first_bytes.startswith(b"GET /.ws")

    def forward(self, source, sink):
        try:
            while data := source.recv(BUFFER):
                if not self.proxy.swallows:
                    sink.sendall(data)
        except OSError:
            pass
        if not self.proxy.swallows:
            self.end()

    def forward_messages(self, limit):
        """The answer to the upgrade and so many frames of the server, then the end. Below zero not even the answer."""
        if limit < 0:
            return self.end()
        stream = self.server.makefile("rb")
        try:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = stream.readline()
                if not line:
                    return self.end()
                head += line
            self.client.sendall(head)
            for _ in range(limit):
                start = stream.read(2)
                if len(start) < 2:
                    break
                count, more = start[1] & 0x7F, b""
                if count >= 126:
                    more = stream.read(2 if count == 126 else 8)
                    (count,) = struct.unpack(">H" if len(more) == 2 else ">Q", more)
                self.client.sendall(start + more + stream.read(count))
            else:
                self.proxy.sockets_cut.append(limit)
        except (OSError, struct.error):
            pass
        return self.end()

    def end(self):
        self.proxy.links.discard(self)
        for tcp in (self.client, self.server):
            if tcp is not None:
                try:
                    tcp.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                tcp.close()


class Proxy:
    def __init__(self, target, port=0):
        self.target = target
        self.swallows = False
        self.message_limit = None  # messages of the server on each new WebSocket; None for all
        self.links, self.seen = set(), []
        self.sockets_cut = []  # how many messages each had
        self.listener = socket.create_server(("127.0.0.1", port), backlog=256)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.swallows:
                continue
            link = Link(self, client)
            self.links.add(link)
            threading.Thread(target=link.run, daemon=True).start()

    def swallow(self):
        """From now on nothing arrives any more, without a close."""
        self.swallows = True

    def cut_all(self, only_sockets=False):
        for link in list(self.links):
            if link.is_socket or not only_sockets:
                link.end()

    def cut_sockets_after(self, count):
        """Each new WebSocket; None leaves them alone again."""
        self.message_limit = count

    def close(self):
        # Closing alone does not wake a thread that sits in accept.
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        self.swallows = False
        self.cut_all()

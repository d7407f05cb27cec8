"""What compressed WebSockets cost a server and spare the network: real JSON to many listeners, compressed and plain, in turns.

    .build-e2e/venv/bin/python Tests/EndToEnd/compression_figures.py

A put by REST replaces a document, a part of ISO 3166-2 (Debian's iso-codes), and the next one follows when every listener has
the push. Each listener gets the same bytes, as one frame, and they are the document. Bytes are those of the frames. Processor
time is the server's, all threads, the kernel's part included; memory is its resident memory at the peak, and its growth since
the first put. No figure is a rate: a machine that is busy with other work changes little.

No test of its own: test_compression.py runs it with a few listeners. Figures: public/docs/performance.md, *Compression*.
"""

import argparse
import contextlib
import http.client
import itertools
import json
import pathlib
import statistics
import tempfile
import time

from deflate_client import CLIENT_BITS, TEXT, DeflateClient
from server import Server
from test_storms import Memory

SOURCE = pathlib.Path("/usr/share/iso-codes/json/iso_3166-2.json")
PATH = "/regions"
DEADLINE = 60  # seconds; only bounds a run that would otherwise hang


class Listener(DeflateClient):
    """Listens to the path, with or without an offer of permessage-deflate."""

    def __init__(self, port, *offers):
        super().__init__(port, *offers, path="/.ws?v=5&ns=default")
        assert b'"t":"h"' in self.receive().message
        body = {"t": "d", "d": {"r": 1, "a": "q", "b": {"p": PATH, "h": ""}}}
        self.socket.sendall(b"".join(self.frames(TEXT, json.dumps(body).encode(), is_compressed=False)))
        while b'"r":1' not in self.receive().message:
            pass
        assert self.at == len(self.buffer)

    def frame(self):
        """The next frame as it came, and its message."""
        self.buffer, self.at = self.buffer[self.at:], 0
        message = self.receive().message
        return self.buffer[:self.at], message


def documents(count, size):
    """Different ones of about as many bytes; real names and codes, one behind the other."""
    entries = itertools.cycle(json.loads(SOURCE.read_text())["3166-2"])
    for _ in range(count):
        document = {}
        while len(text := json.dumps(document, ensure_ascii=False, separators=(",", ":"))) < size:
            entry = next(entries)
            document[entry["code"]] = {name: value for name, value in entry.items() if name != "code"}
        yield document, text.encode()


def processor_seconds(process):
    """Of all threads of a process."""
    # The CPU clock of a whole process, as clock_getcpuclockid(3) makes its number.
    return time.clock_gettime(~process.pid << 3 | 2)


def measure(folder, is_compressed, listeners, pushes, size):
    """Bytes for each push and listener, processor time for each, resident memory."""
    offers = [{CLIENT_BITS: None}] if is_compressed else []
    server = Server(folder, memory=True)
    with contextlib.ExitStack() as stack:
        stack.callback(server.kill)
        server.start()
        clients = [stack.enter_context(Listener(server.port, *offers)) for _ in range(listeners)]
        writer = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
        stack.callback(writer.close)
        memory, start, received, plain = Memory(server), processor_seconds(server.process), 0, 0
        for document, text in documents(pushes, size):
            writer.request("PUT", f"{PATH}.json?print=silent", text)
            assert writer.getresponse().read() == b""
            frame, message = clients[0].frame()
            assert json.loads(message)["d"]["b"] == {"p": PATH[1:], "d": document}
            for client in clients[1:]:
                assert client.take(len(frame)) == frame, "one frame for all"
            received += len(frame)
            plain += len(message)
        seconds = processor_seconds(server.process) - start
        return {
            "message": plain / pushes, "bytes": received / pushes, "microseconds": seconds * 1e6 / pushes / listeners,
            "peak": (memory.before + memory.growth) / (1 << 20), "growth": memory.growth / (1 << 20),
        }


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listeners", type=int, default=1000)
    parser.add_argument("--pushes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 4000, 16_000], help="bytes of a document, at least")
    options = parser.parse_args(arguments)
    print("| message | bytes to each: plain, compressed | ratio | server µs for each: plain, compressed | ratio | "
          "peak MiB: plain, compressed | more than idle, MiB |")
    print("|---|---|---|---|---|---|---|")
    table = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in options.sizes:
            rounds = []
            for number in range(options.rounds):
                turns = [False, True] if number % 2 == 0 else [True, False]
                rounds.append({
                    turn: measure(pathlib.Path(folder) / f"{size}-{number}-{turn}", turn, options.listeners, options.pushes, size)
                    for turn in turns})

            def medians(name, rounds=rounds):
                return tuple(statistics.median(one[turn][name] for one in rounds) for turn in (False, True))

            row = {name: medians(name) for name in rounds[0][True]}
            ratios = [one[True]["microseconds"] / one[False]["microseconds"] for one in rounds]
            table[size] = row
            print(
                f"| {row['message'][0]:.0f} | {row['bytes'][0]:.0f}, {row['bytes'][1]:.0f} | {row['bytes'][1] / row['bytes'][0]:.2f} "
                f"| {row['microseconds'][0]:.1f}, {row['microseconds'][1]:.1f} "
                f"| {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) "
                f"| {row['peak'][0]:.1f}, {row['peak'][1]:.1f} | {row['growth'][0]:.1f}, {row['growth'][1]:.1f} |", flush=True)
    return table


if __name__ == "__main__":
    main()

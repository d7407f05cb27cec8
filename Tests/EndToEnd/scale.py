"""The scale run: many idle listeners, many leaves, a steady rate of writes, for long; all of it sampled to a CSV.

No test: it takes half an hour, and its figures are the machine's too (public/docs/guarantees.md, *Long runs*). It needs
Python alone, `pando` and `pando-load`; all that it makes is in --work.

    import leaves ─▶ serve ─▶ idle listeners ─▶ writes, open loop ─▶ do listeners answer? ─▶ stop ─▶ start again

Beside them a few *witnesses* listen to places that are written through REST at a slow rate: they show that writes
reach listeners while all the rest goes on, each once and in order, and how late.
"""

import argparse
import base64
import csv
import http.client
import json
import os
import re
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def read(path):
    with open(path) as file:
        return file.read()


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share / 100))] if ordered else None


class Witnesses:
    """Listeners on /witness/N, and the writer whose numbers they must get: each its own, once, in order."""

    def __init__(self, port, count, rate):
        self.port, self.count, self.pause = port, count, 1 / rate
        self.selector, self.buffers = selectors.DefaultSelector(), {}
        self.due, self.next = {}, [0] * count  # (place, number) -> moment it was due; number each expects
        self.window, self.delivered, self.wrong, self.written = [], 0, 0, 0
        self.over = threading.Event()
        for place in range(count):
            self.listen(place)
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self.read_pushes, self.write)]
        for thread in self.threads:
            thread.start()

    def listen(self, place):
        tcp = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = base64.b64encode(os.urandom(16)).decode()
        tcp.sendall(
            f"GET /.ws?v=5&ns=default HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += tcp.recv(4096)
        assert head.startswith(b"HTTP/1.1 101"), head
        self.buffers[tcp] = bytearray(head.split(b"\r\n\r\n", 1)[1])
        query = {"t": "d", "d": {"r": 1, "a": "q", "b": {"p": f"/witness/{place}", "h": ""}}}
        self.send(tcp, 1, json.dumps(query).encode())
        self.selector.register(tcp, selectors.EVENT_READ, place)

    @staticmethod
    def send(tcp, opcode, payload):
        mask = os.urandom(4)
        length = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + struct.pack(">H", len(payload))
        tcp.sendall(bytes([0x80 | opcode]) + length + mask + bytes(b ^ mask[i & 3] for i, b in enumerate(payload)))

    def read_pushes(self):
        asked = time.monotonic()
        while not self.over.is_set():
            for key, _ in self.selector.select(1):
                data = key.fileobj.recv(65536)
                now = time.monotonic()
                if not data:
                    self.wrong += 1
                    self.selector.unregister(key.fileobj)
                    continue
                buffer = self.buffers[key.fileobj]
                buffer += data
                self.frames(key.fileobj, key.data, buffer, now)
            if time.monotonic() - asked > 30:  # as SDKs do
                asked = time.monotonic()
                for key in list(self.selector.get_map().values()):
                    self.send(key.fileobj, 1, b"0")

    def frames(self, tcp, place, buffer, now):
        while len(buffer) >= 2:
            length, at = buffer[1] & 127, 2
            if length == 126:
                if len(buffer) < 4:
                    return
                length, at = struct.unpack(">H", buffer[2:4])[0], 4
            if len(buffer) < at + length:
                return
            opcode, payload = buffer[0] & 15, bytes(buffer[at:at + length])
            del buffer[:at + length]
            if opcode == 9:
                self.send(tcp, 10, payload)
            elif opcode == 1:
                self.message(place, json.loads(payload), now)

    def message(self, place, message, now):
        body = message.get("d") if isinstance(message, dict) else None
        if not isinstance(body, dict) or body.get("a") != "d" or not isinstance(body["b"]["d"], int):
            return
        number = body["b"]["d"]
        if number != self.next[place]:
            self.wrong += 1
        self.next[place] = number + 1
        self.delivered += 1
        self.window.append(now - self.due.pop((place, number), now))

    def write(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        start, turn = time.monotonic(), 0
        while not self.over.is_set():
            moment = start + turn * self.pause
            time.sleep(max(0, moment - time.monotonic()))
            place, number = turn % self.count, turn // self.count
            self.due[place, number] = moment
            connection.request("PUT", f"/witness/{place}.json?ns=default&print=silent", str(number))
            answer = connection.getresponse()
            answer.read()
            if answer.status not in (200, 204):
                self.wrong += 1
            turn += 1
            self.written = turn

    def take(self):
        window, self.window = self.window, []
        return [None if value is None else round(value * 1e6) for value in (
            percentile(window, 50), percentile(window, 99), max(window, default=None))]

    def end(self):
        """Counts of written, delivered, missing and wrong values."""
        self.over.set()
        self.threads[1].join(60)
        # Messages on their way are still read, with a deadline.
        self.over.clear()
        last = threading.Thread(target=self.read_pushes, daemon=True)
        last.start()
        deadline = time.monotonic() + 10
        while self.delivered < self.written and time.monotonic() < deadline:
            time.sleep(0.05)
        self.over.set()
        last.join(5)
        return self.written, self.delivered, self.written - self.delivered, self.wrong


class Sampler:
    """A row every few seconds about the server, its directory and the machine."""

    def __init__(self, path, server, data, every):
        self.server, self.data, self.every = server, data, every
        self.file = open(path, "w", newline="")
        self.csv, self.start, self.phase = None, time.monotonic(), "start"
        self.witnesses, self.over = None, threading.Event()
        self.lock = threading.Lock()
        self.checkpoints = set()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def row(self):
        root = f"/proc/{self.server}"
        status = dict(re.findall(r"(\w+):\s+(\d+)", read(f"{root}/status")))
        rollup = dict(re.findall(r"(\w+):\s+(\d+) kB", read(f"{root}/smaps_rollup")))
        ticks = read(f"{root}/stat").rsplit(")", 1)[1].split()
        names, total, segments, snapshots = os.listdir(self.data) if self.data else [], 0, 0, 0
        for name in names:
            try:
                stat = os.stat(os.path.join(self.data, name))
            except FileNotFoundError:
                continue  # removed since
            total += stat.st_size
            if name.startswith("journal-"):
                segments += 1
            elif "checkpoint" in name and not name.endswith(".tmp"):
                snapshots += 1
                self.checkpoints.add(name)
        sockets = re.search(
            r"TCP: inuse (\d+) orphan \d+ tw (\d+) alloc (\d+) mem (\d+)", read("/proc/net/sockstat"))
        slab = dict(re.findall(r"(\w+):\s+(\d+) kB", read("/proc/meminfo")))
        pressure = {}
        for kind in ("cpu", "io"):
            try:
                pressure[kind] = int(re.search(r"some .*total=(\d+)", read(f"/proc/pressure/{kind}"))[1]) // 1000
            except (OSError, TypeError):
                pressure[kind] = None
        load = read("/proc/loadavg").split()
        witnesses = self.witnesses
        median, high, worst = witnesses.take() if witnesses else (None, None, None)
        return {
            "seconds": round(time.monotonic() - self.start, 1), "phase": self.phase,
            "rss_kb": status["VmRSS"], "anonymous_kb": rollup["Anonymous"], "peak_kb": status["VmHWM"],
            "user_s": int(ticks[11]) / TICKS, "system_s": int(ticks[12]) / TICKS, "threads": status["Threads"],
            "descriptors": len(os.listdir(f"{root}/fd")), "data_bytes": total, "segments": segments,
            "checkpoints": snapshots, "checkpoints_seen": len(self.checkpoints),
            "tcp_inuse": sockets[1], "tcp_time_wait": sockets[2], "tcp_alloc": sockets[3],
            "tcp_memory_bytes": int(sockets[4]) * PAGE, "slab_kb": slab["Slab"], "load1": load[0],
            "runnable": load[3].split("/")[0], "cpu_pressure_ms": pressure["cpu"], "io_pressure_ms": pressure["io"],
            "witness_p50_us": median, "witness_p99_us": high, "witness_max_us": worst,
            "witness_delivered": witnesses.delivered if witnesses else None,
            "witness_wrong": witnesses.wrong if witnesses else None,
        }

    def sample(self):
        with self.lock:
            row = self.row()
            if self.csv is None:
                self.csv = csv.DictWriter(self.file, fieldnames=list(row))
                self.csv.writeheader()
            self.csv.writerow(row)
            self.file.flush()
            return row

    def run(self):
        while not self.over.wait(self.every):
            self.sample()

    def mark(self, phase):
        """Begins a phase with a row of its own; gives that row."""
        self.phase = phase
        row = self.sample()
        say(f"{phase}: {row['rss_kb']} kB resident, {row['descriptors']} descriptors")
        return row

    def threads(self):
        """Processor seconds by thread."""
        found = {}
        for task in os.listdir(f"/proc/{self.server}/task"):
            name, rest = read(f"/proc/{self.server}/task/{task}/stat").split("(", 1)[1].rsplit(")", 1)
            ticks = rest.split()
            found[name] = round(found.get(name, 0) + (int(ticks[11]) + int(ticks[12])) / TICKS, 2)
        return found


def say(words):
    print(time.strftime("%H:%M:%S"), words, flush=True)


def leaves(path, count):
    """`count` small leaves, a thousand in a group."""
    with open(path, "w") as file:
        file.write('{"leaves":{')
        for group in range(-(-count // 1000)):
            size = min(1000, count - group * 1000)
            file.write(("," if group else "") + f'"g{group:04d}":{{')
            file.write(",".join(f'"k{leaf:03d}":"value of {group:04d}/{leaf:03d}"' for leaf in range(size)) + "}")
        file.write("}}\n")


def serve(options, data, log):
    """The server, and the seconds until it has answered."""
    kept = ["--memory"] if data is None else ["--data", data, "--durability", options.durability]
    command = [options.pando, "serve", "--port", str(options.port), "--dev", *kept, *options.server]
    say(" ".join(command))
    server = subprocess.Popen(command, stdout=log, stderr=log)
    begun = time.monotonic()
    while True:
        try:
            asked = http.client.HTTPConnection("127.0.0.1", options.port, timeout=60)
            asked.request("GET", "/nothing.json?ns=default")
            if asked.getresponse().status == 200:
                return server, time.monotonic() - begun
        except OSError:
            if server.poll() is not None or time.monotonic() - begun > 120:
                sys.exit("the server did not start")
            time.sleep(0.05)


def slope(points):
    """Of the line that fits best, by least squares."""
    middle = [sum(axis) / len(points) for axis in zip(*points)]
    spread = sum((x - middle[0]) ** 2 for x, _ in points)
    return sum((x - middle[0]) * (y - middle[1]) for x, y in points) / spread if spread else 0


def summarise(at):
    """What the figures say: is memory flat, are latencies, is the journal bounded?"""
    with open(at("samples.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    steady = [row for row in rows if row["phase"] == "writes"]
    steady = steady[len(steady) // 6 :]  # while memory and the directory come to their size
    for column, name in (("rss_kb", "resident"), ("anonymous_kb", "anonymous")):
        points = [(float(row["seconds"]), float(row[column]) * 1024) for row in steady]
        sizes = [value / 1024 for _, value in points]
        say(f"{name}: {sizes[0]:.0f} kB, at the end {sizes[-1]:.0f}, {min(sizes):.0f} to {max(sizes):.0f}; "
            f"{slope(points) * 3600:+.0f} bytes an hour")
    # Two checkpoints, the journal since the older, and what has gathered for the next.
    largest, most = (max(int(row[column]) for row in rows) for column in ("data_bytes", "segments"))
    made = rows[-1]["checkpoints_seen"]
    say(f"data directory: at most {largest / 1e6:.0f} MB, {most} segments; {made} checkpoints made")
    with open(at("writes.json")) as file:
        run = json.load(file)["runs"][0]
    say(f"latencies (µs): {run['latencies']['acknowledged']}; errors: {run['errors']}")
    timeline = [second for second in run["timeline"] if second["p99"] is not None]
    third = len(timeline) // 3
    for number in range(3):
        seconds = timeline[number * third : (number + 1) * third]
        figures = [percentile([each[key] for each in seconds], share) / 1000
                   for key, share in (("p50", 50), ("p99", 50), ("p99", 10))]
        say("third {}, of its seconds: p50 {:.1f}, p99 {:.1f} (medians), p99 of the best tenth {:.1f} ms".format(
            number + 1, *figures))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pando", required=True, help="the server's binary")
    parser.add_argument("--load", required=True, help="pando-load's binary")
    parser.add_argument("--work", required=True, help="directory for everything; must not exist or be empty")
    parser.add_argument("--port", type=int, default=9471)
    parser.add_argument("--memory", action="store_true", help="a server that keeps nothing; no leaves")
    parser.add_argument("--durability", default="always")
    parser.add_argument("--connections", type=int, default=18000)
    parser.add_argument("--no-listen", action="store_true", help="connections without a listener")
    parser.add_argument("--leaves", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=10_000, help="writes a second; 0 for none")
    parser.add_argument("--duration", type=int, default=1800, help="seconds of writes, or of idling without any")
    parser.add_argument("--witnesses", type=int, default=16)
    parser.add_argument("--every", type=float, default=10, help="seconds between two rows")
    parser.add_argument("server", nargs="*", help="after --: more options of pando serve")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    if os.listdir(options.work):
        sys.exit(f"{options.work} is not empty")

    def at(name):
        return os.path.join(options.work, name)

    data = None if options.memory else at("data")
    if data:
        leaves(at("leaves.json"), options.leaves)
        subprocess.run([options.pando, "import", "--data", data, at("leaves.json")], check=True)
    log = open(at("server.log"), "w")
    server, seconds = serve(options, data, log)
    say(f"up after {seconds:.2f} s")
    sampler = Sampler(at("samples.csv"), server.pid, data, options.every)
    time.sleep(2)
    before = sampler.mark("up")

    idle = subprocess.Popen(
        [options.load, "idle", "--url", f"http://127.0.0.1:{options.port}", "--connections", str(options.connections),
         "--duration", str(options.duration + 600), "--json", at("idle.json"),
         *([] if options.no_listen else ["--listen"])],
        stdout=open(at("idle.txt"), "w"), stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 300
    while len(os.listdir(f"/proc/{server.pid}/fd")) < int(before["descriptors"]) + options.connections:
        if idle.poll() is not None or time.monotonic() > deadline:
            sys.exit("the idle connections did not come up")
        time.sleep(0.2)
    time.sleep(15)  # the last listens' answers, and what was freed on the way
    after = sampler.mark("idle")
    each = (int(after["rss_kb"]) - int(before["rss_kb"])) * 1024 / options.connections
    kernel = (int(after["slab_kb"]) - int(before["slab_kb"])) * 1024 / options.connections
    say(f"{each:.0f} resident bytes a connection; {kernel:.0f} bytes of the kernel's slabs (both ends)")

    threads = sampler.threads()
    if options.rate:
        sampler.witnesses = Witnesses(options.port, options.witnesses, 50)
        sampler.mark("writes")
        writes = subprocess.run(
            [options.load, "writes", "--url", f"http://127.0.0.1:{options.port}", "--rate", str(options.rate),
             "--connections", "64", "--duration", str(options.duration), "--json", at("writes.json"),
             "--html", at("writes.html")],
            stdout=open(at("writes.txt"), "w"), stderr=subprocess.STDOUT)
        say(f"writes ended with exit code {writes.returncode}")
        sampler.mark("after")
        written, delivered, missing, wrong = sampler.witnesses.end()
        say(f"witnesses: {written} written, {delivered} delivered, {missing} missing, {wrong} wrong")
        time.sleep(20)
    else:
        time.sleep(options.duration)
    end = sampler.mark("settled")
    used = {name: round(value - threads.get(name, 0), 2) for name, value in sampler.threads().items()}
    elapsed = end["seconds"] - after["seconds"]
    say(f"processor seconds by thread since the connections are up, in {elapsed:.0f} s: {used}")

    idle.send_signal(signal.SIGINT)  # it asks every connection, and ends
    say(f"idle ended with exit code {idle.wait(120)}")
    time.sleep(5)
    sampler.mark("closed")
    sampler.over.set()
    sampler.thread.join()
    server.send_signal(signal.SIGTERM)
    say(f"server ended with exit code {server.wait(120)}")
    if data:
        server, seconds = serve(options, data, log)
        say(f"up again after {seconds:.2f} s")
        server.send_signal(signal.SIGTERM)
        server.wait(120)
    if options.rate:
        summarise(at)


main()

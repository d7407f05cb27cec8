"""TLS of the server beside nginx that ends TLS in front of the same server, and beside no TLS: one table of rates.

No test: its figures are the machine's too (public/docs/performance.md, *TLS*). It needs nginx (or `--nginx` names an unpacked
one), `openssl`, `pando`, `pando-echo` and `pando-load`; all that it makes is in a temporary folder. nginx has the example of `deploy` and
Debian's `worker_processes auto`. Each round measures all three one after the other, in another order each time.
"""

import argparse
import asyncio
import contextlib
import json
import pathlib
import re
import ssl
import statistics
import subprocess
import tempfile
import time

from websockets.asyncio.client import connect

from server import REPOSITORY, Server, clean_environment
from test_proxies import FIXTURES, Nginx

ISSUER = FIXTURES / "issuer.pem"
# What one round does: the scenario of pando-load, in memory, so that the disk is no part of it.
ROWS = {
    "set and acknowledgement, 64 connections": ["writes", "--connections", 64, "--in-flight", 1],
    "the same, 16 in flight": ["writes", "--connections", 64, "--in-flight", 16],
    "fan-out of 200 bytes to 500": ["fan-out", "--connections", 500, "--size", 200],
    "REST, small": ["rest", "--connections", 64],
}
# The same, and a rate of the row in MB/s.
BULK = {"bulk by REST, GET of 1 MB, MB/s": (["rest", "--connections", 8, "--reads", 100, "--size", 1_000_000], 1)}
ECHO = "bulk by WebSocket, echo of 256 kB, MB/s both ways"
ECHO_CONNECTIONS, ECHO_BYTES = 8, 256_000
HANDSHAKES = "handshakes, TLS 1.3, one after the other"


class ManyWorkers(Nginx):
    def configure(self):
        command = super().configure()
        file = self.folder / "nginx.conf"
        text = file.read_text().replace("master_process off;", "worker_processes auto; worker_rlimit_nofile 8192;")
        text = text.replace("events { }", "events { worker_connections 4096; }")
        # It ends a connection after 1000 requests otherwise.
        file.write_text(text.replace("http {", "http { keepalive_requests 1000000000;", 1))
        return command


def rates(load, row, targets, seconds):
    """The rate of each target, by its name."""
    (_, first), *others = targets
    scenario, scale = BULK.get(row) or (ROWS[row], 1)
    command = [load, *scenario, "--url", first, "--ca", ISSUER, "--duration", seconds, "--warm-up", 1, "--json", "-"]
    for name, url in others:
        command += ["--peer", f"{name}={url}"]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=clean_environment())
    if result.returncode != 0:
        raise SystemExit(f"{row}: {result.stdout}{result.stderr}")
    runs = json.loads(result.stdout)["runs"]
    return {
        name: scale * (run["deliveriesPerSecond"] or run["operationsPerSecond"]) for (name, _), run in zip(targets, runs)}


def echo_rate(url, seconds):
    """What clients in Python get through `pando-echo`, which costs the client more than the server: a lower bound."""
    context = ssl.create_default_context(cafile=ISSUER) if url.startswith("wss:") else None
    message = b"x" * ECHO_BYTES

    async def talk(end):
        async with connect(url, ssl=context, compression=None, max_size=None) as socket:
            count = 0
            while time.monotonic() < end:
                await socket.send(message)
                await socket.recv()
                count += 1
            return count

    async def all():
        end = time.monotonic() + seconds
        return sum(await asyncio.gather(*(talk(end) for _ in range(ECHO_CONNECTIONS))))

    return 2 * ECHO_BYTES * asyncio.run(all()) / seconds / 1e6


@contextlib.contextmanager
def echo(program, *arguments):
    """The port of a `pando-echo`."""
    command = [str(program), "--port", "0", "--no-deflate", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean_environment())
    try:
        yield int(process.stdout.readline().rsplit(":", 1)[1])
    finally:
        process.kill()
        process.wait()


def handshake_rate(port, seconds):
    command = ["openssl", "s_time", "-connect", f"localhost:{port}", "-new", "-time", str(seconds), "-CAfile", str(ISSUER)]
    output = subprocess.run(command, capture_output=True, text=True).stdout
    count, duration = re.search(r"(\d+) connections in (\d+) real seconds", output).groups()
    return int(count) / int(duration)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", default=REPOSITORY / ".build/release/pando-load", help="the program pando-load")
    parser.add_argument("--echo", default=REPOSITORY / ".build/release/pando-echo", help="the program pando-echo")
    parser.add_argument("--nginx", default="/usr/sbin/nginx", help="the program nginx")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=4, help="of each measurement")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        pair = ["--tls-cert", FIXTURES / "localhost.pem", "--tls-key", FIXTURES / "localhost.key"]
        secure = Server(folder / "secure", memory=True, arguments=pair)
        plain = Server(folder / "plain", memory=True, arguments=["--trusted-proxy", "127.0.0.1"])
        with contextlib.ExitStack() as stack:
            for server in (secure, plain):
                stack.callback(server.kill)
                server.start()

            def nginx_before(port, name):
                (folder / name).mkdir()
                proxy = ManyWorkers(options.nginx, folder / name, port, None)
                stack.callback(proxy.stop)
                return proxy.start()

            secure_echo = stack.enter_context(echo(options.echo, *pair))
            plain_echo = stack.enter_context(echo(options.echo))
            nginx = nginx_before(plain.port, "nginx")
            nginx_echo = nginx_before(plain_echo, "nginx-before-the-echo")
            measure(options, {
                "pando": f"https://localhost:{secure.port}", "nginx": f"https://localhost:{nginx.secure_port}",
                "plain": f"http://localhost:{plain.port}",
            }, {"pando": secure.port, "nginx": nginx.secure_port}, {
                "pando": f"wss://localhost:{secure_echo}", "nginx": f"wss://localhost:{nginx_echo.secure_port}",
                "plain": f"ws://localhost:{plain_echo}",
            })


def measure(options, urls, secure_ports, echo_urls):
    rows = {row: [] for row in [*ROWS, *BULK, ECHO, HANDSHAKES]}
    for number in range(options.rounds):
        for row in [*ROWS, *BULK]:
            order = list(urls.items())
            # `--ca` goes with https, so that the first is never the one without TLS.
            order = order if number % 2 == 0 else [order[1], order[0], order[2]]
            rows[row].append(rates(options.load, row, order, options.seconds))
        turns = list(echo_urls.items())[:: 1 if number % 2 == 0 else -1]
        rows[ECHO].append({name: echo_rate(url, options.seconds) for name, url in turns})
        ports = list(secure_ports.items())[:: 1 if number % 2 == 0 else -1]
        rows[HANDSHAKES].append({name: handshake_rate(port, options.seconds) for name, port in ports})
    print("| | rate | / nginx in front | / without TLS |\n|---|---|---|---|")
    for row, rounds in rows.items():
        cells = [f"{statistics.median(one['pando'] for one in rounds):,.0f}".replace(",", " ")]
        for other in ("nginx", "plain"):
            ratios = [one["pando"] / one[other] for one in rounds if other in one]
            cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else "")
        print(f"| {row} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

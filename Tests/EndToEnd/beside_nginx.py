"""TLS of the server beside nginx that ends TLS in front of the same server, and beside no TLS: one table of rates.

No test: its figures are the machine's too (public/docs/performance.md, *TLS*). It needs nginx (or `--nginx` names an unpacked
one), `openssl`, `pando` and `pando-load`; all that it makes is in a temporary folder. nginx has the example of `deploy` and
Debian's `worker_processes auto`. Each round measures all three one after the other, in another order each time.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import tempfile

from server import REPOSITORY, Server, clean_environment
from test_proxies import FIXTURES, Nginx

ISSUER = FIXTURES / "issuer.pem"
# What one round does: the scenario of pando-load, in memory, so that the disk is no part of it.
ROWS = {
    "set and acknowledgement, 64 connections": ["writes", "--connections", 64, "--in-flight", 1],
    "the same, 16 in flight": ["writes", "--connections", 64, "--in-flight", 16],
    "fan-out of 200 bytes to 500": ["fan-out", "--connections", 500, "--size", 200],
    "REST, small": ["rest", "--connections", 64],
    "REST, GET of 1 MB": ["rest", "--connections", 8, "--reads", 100, "--size", 1_000_000],
}
HANDSHAKES = "handshakes, TLS 1.3, one after the other"


class ManyWorkers(Nginx):
    def configure(self):
        command = super().configure()
        file = self.folder / "nginx.conf"
        text = file.read_text().replace("master_process off;", "worker_processes auto; worker_rlimit_nofile 8192;")
        file.write_text(text.replace("events { }", "events { worker_connections 4096; }"))
        return command


def rates(load, row, targets, seconds):
    """The rate of each target, by its name."""
    (_, first), *others = targets
    command = [load, *ROWS[row], "--url", first, "--ca", ISSUER, "--duration", seconds, "--warm-up", 1, "--json", "-"]
    for name, url in others:
        command += ["--peer", f"{name}={url}"]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=clean_environment())
    if result.returncode != 0:
        raise SystemExit(f"{row}: {result.stdout}{result.stderr}")
    runs = json.loads(result.stdout)["runs"]
    return {name: run["deliveriesPerSecond"] or run["operationsPerSecond"] for (name, _), run in zip(targets, runs)}


def handshake_rate(port, seconds):
    command = ["openssl", "s_time", "-connect", f"localhost:{port}", "-new", "-time", str(seconds), "-CAfile", str(ISSUER)]
    output = subprocess.run(command, capture_output=True, text=True).stdout
    count, duration = re.search(r"(\d+) connections in (\d+) real seconds", output).groups()
    return int(count) / int(duration)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", default=REPOSITORY / ".build/release/pando-load", help="the program pando-load")
    parser.add_argument("--nginx", default="/usr/sbin/nginx", help="the program nginx")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=4, help="of each measurement")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        pair = ["--tls-cert", FIXTURES / "localhost.pem", "--tls-key", FIXTURES / "localhost.key"]
        secure = Server(folder / "secure", memory=True, arguments=pair)
        plain = Server(folder / "plain", memory=True, arguments=["--trusted-proxy", "127.0.0.1"])
        nginx = None
        try:
            secure.start()
            plain.start()
            (folder / "nginx").mkdir()
            nginx = ManyWorkers(options.nginx, folder / "nginx", plain.port, None).start()
            measure(options, {
                "pando": f"https://localhost:{secure.port}", "nginx": f"https://localhost:{nginx.secure_port}",
                "plain": f"http://localhost:{plain.port}",
            }, {"pando": secure.port, "nginx": nginx.secure_port})
        finally:
            if nginx:
                nginx.stop()
            secure.kill()
            plain.kill()


def measure(options, urls, secure_ports):
    rows = {row: [] for row in [*ROWS, HANDSHAKES]}
    for number in range(options.rounds):
        for row in ROWS:
            order = list(urls.items())
            # `--ca` goes with https, so that the first is never the one without TLS.
            order = order if number % 2 == 0 else [order[1], order[0], order[2]]
            rows[row].append(rates(options.load, row, order, options.seconds))
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

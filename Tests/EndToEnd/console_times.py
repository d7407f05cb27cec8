"""What a person feels of the console: the time to its first view, to places among many children, and its frames under load.

No test: its figures are the machine's too. It needs Chromium and `pando`; all that it makes
is in a temporary folder. Chromium draws without a graphics processor here, so that a desktop's browser is faster.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from console_page import ConsolePage
from devtools import Browser
from pando_client import Connection
from rest_client import Rest
from tokens import bearer
from server import Server

STEP = 50_000  # children of one PATCH
VISIBLE = 40  # values that change, all of them rows that are shown
# Notes the frame after the one in which a selector had a match for the first time, in ms since the navigation.
NOTE_VIEW = """
window.viewAfter = undefined;
(function look() {
  if (document.querySelector("SELECTOR")) requestAnimationFrame((now) => (window.viewAfter = performance.now()));
  else requestAnimationFrame(look);
})();
"""
NOTE_FRAMES = """
window.frameTimes = [];
(() => { let last = performance.now(); let end = last + MILLISECONDS;
  const tick = (now) => { window.frameTimes.push(now - last); last = now; if (now < end) requestAnimationFrame(tick); else window.framesEnded = true; };
  window.framesEnded = false; requestAnimationFrame(tick); })();
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--children", type=int, default=1_000_000, help="of the large node")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=10, help="of the frames that are measured")
    parser.add_argument("--rate", type=int, default=1000, help="values that change in a second")
    parser.add_argument("--write-to", type=int, help=argparse.SUPPRESS)  # the port, where this process is the one that writes
    options = parser.parse_args()
    if options.write_to:
        return write(options.write_to, options.rate, options.seconds + 2)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        server = Server(folder / "server", memory=True).start()
        browser = Browser(folder / "profile").start()
        try:
            measure(options, server, browser)
        finally:
            browser.kill()
            server.kill()


def measure(options, server, browser):
    rest = Rest(server.port, "default", fields=[bearer("owner")])
    rest.put("/values", {f"v{number:02}": 0 for number in range(VISIBLE)})
    for start in range(0, options.children, STEP):
        body = json.dumps({f"k{number:07}": number for number in range(start, min(start + STEP, options.children))})
        rest.ask("PATCH", "/many.json?print=silent", body).expect(204)
    page = ConsolePage(browser)
    page.size(1280, 800)
    print("| | ms: median | worst |\n|---|---|---|")
    first = ".row:not(.unknown) .key"
    report("first view, nothing in the browser's cache", first_views(page, server, options.rounds, first, "", cached=False))
    report("first view, files in the browser's cache", first_views(page, server, options.rounds, first, "", cached=True))
    children = f"{options.children:,}".replace(",", " ")
    row = ".row[aria-level='2'] .key, .row[aria-level='3'] .key"
    report(f"first rows of a node with {children} children", first_views(page, server, options.rounds, row, "#/data/default/many", cached=True))
    report(f"its last child of {children}, by the key End", [last_child(page, server, options.children) for _ in range(options.rounds)])
    browser.call("Emulation.clearDeviceMetricsOverride")
    print("\n| | frames a second | p50 ms | p95 ms | longest ms |\n|---|---|---|---|---|")
    page.size(1280, 800)
    page.open(server.port, "#/data/default/values")
    page.wait_row("v00", "0")
    frames("nothing changes", page, options.seconds)
    writer = subprocess.Popen([sys.executable, __file__, "--write-to", str(server.port), "--rate", str(options.rate),
                               "--seconds", str(options.seconds)])
    page.wait_rows(lambda rows: any(row["key"] == "v00" and row["value"] != "0" for row in rows), "the first changes")
    frames(f"{options.rate} of the values that are shown change in a second", page, options.seconds)
    if writer.wait(60) != 0:
        raise SystemExit("the writer failed")


def first_views(page, server, rounds, selector, place, cached):
    """Milliseconds from the navigation to the frame after the first view, for each round."""
    found = []
    script = page.browser.call("Page.addScriptToEvaluateOnNewDocument", source=NOTE_VIEW.replace("SELECTOR", selector))["identifier"]
    page.browser.call("Network.enable")
    for _ in range(rounds + 1):
        if not cached:
            page.browser.call("Network.clearBrowserCache")
        page.open(server.port, place)
        page.wait("window.viewAfter !== undefined", "the first view")
        found.append(page.run("window.viewAfter"))
    page.browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    return found[1:]  # the first of them starts the browser's own caches


def last_child(page, server, children):
    page.open(server.port, "#/data/default/many")
    page.wait_row("k0000000", "0")
    page.focus_tree()
    began = time.monotonic()
    page.press("End")
    page.wait_row(f"k{children - 1:07}", str(children - 1))
    return 1000 * (time.monotonic() - began)


def frames(name, page, seconds):
    page.run(NOTE_FRAMES.replace("MILLISECONDS", str(1000 * seconds)))
    page.wait("window.framesEnded", "the end of the frames")
    times = sorted(page.run("window.frameTimes")[1:])
    rate = 1000 * len(times) / sum(times)
    print(f"| {name} | {rate:.1f} | {times[len(times) // 2]:.1f} | {times[int(len(times) * 0.95)]:.1f} | {times[-1]:.1f} |")


def report(name, milliseconds):
    print(f"| {name} | {statistics.median(milliseconds):.0f} | {max(milliseconds):.0f} |", flush=True)


def write(port, rate, seconds):
    with Connection(port, "default") as writer:
        began = time.monotonic()
        for number in range(rate * seconds):
            writer.must("p", {"p": f"/values/v{number % VISIBLE:02}", "d": rate + number})
            time.sleep(max(0, began + number / rate - time.monotonic()))


if __name__ == "__main__":
    main()

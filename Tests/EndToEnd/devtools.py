"""Drives Debian's Chromium, headless, through the DevTools protocol. It reaches nothing but this machine."""

import functools
import http.server
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request

from websockets.sync.client import connect

from transports import DEADLINE

PAGES = pathlib.Path(__file__).parent / "browser"
START_DEADLINE = 60  # seconds until a browser listens; the first start of a profile is slow on a busy machine
LEFT = "Inspected target navigated or closed"  # what a command answers whose page is left while it runs
FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--remote-debugging-port=0", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-default-apps", "--disable-extensions", "--no-default-browser-check", "--no-pings", "--mute-audio",
    # A test must not wait for timers that a background tab slows down.
    "--disable-background-timer-throttling", "--disable-renderer-backgrounding",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
]


def browser_path():
    """The browser's program, None where it is not installed."""
    return os.environ.get("PANDO_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


class PageServer:
    """Serves the folder `browser/` on loopback: another origin than the database's."""

    def __init__(self):
        handler = functools.partial(Quiet, directory=str(PAGES))
        self.server = QuietServer(("127.0.0.1", 0), handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, port, ns="default"):
        return f"http://127.0.0.1:{self.port}/index.html?host=127.0.0.1:{port}&ns={ns}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class QuietServer(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """A browser that reloads drops what it was loading."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def end_headers(self):
        self.send_header("Cache-Control", "no-store")
        super().end_headers()


class Browser:
    """One process with one tab. A profile outlives it."""

    def __init__(self, profile, *flags):
        self.profile = pathlib.Path(profile)
        self.flags = [*FLAGS, *flags]
        self.profile.mkdir(parents=True, exist_ok=True)
        self.process = self.tab = None
        self.number = 0

    def start(self):
        ready = self.profile / "DevToolsActivePort"
        ready.unlink(missing_ok=True)
        with open(self.profile / "stderr.txt", "ab") as stderr:
            self.process = subprocess.Popen(
                [browser_path(), *self.flags, f"--user-data-dir={self.profile}", "about:blank"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True)
        deadline = time.monotonic() + START_DEADLINE
        while not (ready.exists() and ready.read_text().count("\n") >= 1):
            assert self.process.poll() is None, self.stderr()
            assert time.monotonic() < deadline, f"the browser does not listen: {self.stderr()}"
            time.sleep(0.02)
        port = int(ready.read_text().split()[0])
        while not (tabs := [one for one in self.targets(port) if one["type"] == "page"]):
            assert time.monotonic() < deadline, "the browser has no tab"
            time.sleep(0.02)
        self.tab = connect(tabs[0]["webSocketDebuggerUrl"], max_size=None, compression=None, proxy=None)
        self.call("Page.enable")
        return self

    @staticmethod
    def targets(port):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{port}/json/list", timeout=DEADLINE) as answer:
            return json.load(answer)

    def stderr(self):
        return (self.profile / "stderr.txt").read_text(errors="replace")[-2000:]

    def call(self, method, **parameters):
        """One command and its result; events are dropped."""
        self.number += 1
        self.tab.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        deadline = time.monotonic() + 3 * DEADLINE
        while True:
            message = json.loads(self.tab.recv(timeout=max(0.01, deadline - time.monotonic())))
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]

    def before_each_page(self, script):
        self.call("Page.addScriptToEvaluateOnNewDocument", source=script)

    def open(self, url):
        self.call("Page.navigate", url=url)

    def reload(self):
        """Also while the tab is between two pages, when there is nothing to reload yet."""
        deadline = time.monotonic() + DEADLINE
        while True:
            try:
                return self.call("Page.reload", ignoreCache=True)
            except AssertionError:
                assert time.monotonic() < deadline, "the tab has no page"
                time.sleep(0.005)

    def evaluate(self, expression):
        """The value of an expression in the page; None while there is no page."""
        try:
            result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        except AssertionError as error:
            if LEFT not in str(error):
                raise
            return None
        return None if "exceptionDetails" in result else result["result"].get("value")

    def kill(self):
        """SIGKILL of the browser and its helpers, all of the process group that we made."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        if self.process is not None:
            self.process.wait(DEADLINE)
        if self.tab is not None:
            self.tab.close_socket()
            self.tab = None

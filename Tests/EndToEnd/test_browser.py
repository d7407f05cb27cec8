"""A page in a real browser, whatever happens to its WebSockets: always back within the back-off, no event lost or doubled.

The page (`browser/`) speaks the protocol as the JavaScript SDK does, its own code: WebSocket first, long polling while
`firebase:previous_websocket_failure` is set in localStorage, upgrades. Between it and the server stands a proxy, so that
the server's address stays when the server does not. Another client writes all the time; each of those writes must be shown
to each session of the page once. `PANDO_BROWSER_SEED` sets the seed of what is random.
"""

import os
import random
import threading
import time

import pytest
from websockets.exceptions import InvalidMessage

from devtools import Browser, PageServer, browser_path
from pando_client import DEADLINE, Closed, Connection
from proxy import Proxy

SEED = int(os.environ.get("PANDO_BROWSER_SEED", "1"))
RESTARTS = {"allowed": 6, "forbidden": 4}  # the back-off grows with each
RELOADS = 12
# Beyond the back-off that the page itself has reached: connecting, the first listen, a busy machine.
BACK_SLACK = 60
# A page that is left before its frame has loaded, or whose browser is killed, cannot say that it goes: then its polls stop,
# and the server ends the session in this time.
PRESENCE_TIMEOUT = 10
NO_WEBSOCKET = "Object.defineProperty(window, 'WebSocket', {value: undefined});"
SET_FLAG = "localStorage.setItem('firebase:previous_websocket_failure', 'true');"

pytestmark = [
    pytest.mark.skipif(not browser_path(), reason="chromium is not installed; PANDO_CHROMIUM names another one"),
    pytest.mark.timeout(240),
]


class Writer(threading.Thread):
    """Writes children of /events one by one, each once, whatever happens to the server; `acknowledged` are those that
    must be there.
    """

    def __init__(self, scene):
        super().__init__(daemon=True)
        self.scene, self.goes_on = scene, True
        self.acknowledged, self.failure, self.number = [], None, 0

    def run(self):
        try:
            while self.goes_on:
                try:
                    with Connection(self.scene.server.port, "default") as connection:
                        while self.goes_on:
                            self.number += 1
                            connection.must("p", {"p": f"/events/e{self.number}", "d": {"at": int(time.time() * 1000)}})
                            self.acknowledged.append(f"e{self.number}")
                            self.scene.pause.wait(0.01)
                except (Closed, InvalidMessage, OSError, TimeoutError):
                    # The server is down, perhaps since the handshake began; its next start sets another port.
                    self.scene.pause.wait(0.02)
        except Exception as error:  # noqa: BLE001 (shown by the main thread)
            self.failure = error

    def end(self):
        self.goes_on = False
        self.join(3 * DEADLINE)
        assert not self.is_alive() and self.failure is None, self.failure


class Scene:
    """A server, the proxy in front of it, a page, a writer."""

    def __init__(self, server, browser, pages):
        self.server, self.browser, self.pages = server, browser, pages
        self.proxy = Proxy(server.port)
        self.pause = threading.Event()  # never set: a wait that a test can read
        self.writer = Writer(self)

    def open(self):
        self.browser.open(self.pages.url(self.proxy.port))
        self.writer.start()

    def report(self):
        found = self.browser.evaluate("window.page && page.report")
        return found if isinstance(found, dict) else None

    def wait_for(self, what, condition, timeout):
        deadline = time.monotonic() + timeout
        while True:
            report = self.report()
            if report and condition(report):
                return report
            if time.monotonic() > deadline:
                shown = {key: value for key, value in (report or {}).items() if key != "events"}
                pytest.fail(f"not {what} within {timeout:.1f} s: {shown}; asked for {self.proxy.seen[-8:]}")
            time.sleep(0.02)

    def wait_until_back(self):
        """Connected, and shown something that was written after this call began."""
        began = time.monotonic()
        already = len(self.writer.acknowledged)
        while len(self.writer.acknowledged) <= already:
            assert time.monotonic() < began + 3 * DEADLINE and self.writer.failure is None, "the writer is not served"
            time.sleep(0.01)
        marker = self.writer.acknowledged[already]
        report = self.report()
        backoff = report["delay"] / 1000 if report else 1.3
        back = self.wait_for(
            "back", lambda now: now["isConnected"] and marker in now["events"], backoff + BACK_SLACK)
        return back, time.monotonic() - began

    def restart_server(self):
        self.server.kill()
        self.proxy.cut_all()
        self.server.start()
        self.proxy.target = self.server.port

    def check(self):
        """After all: the page shows what is there, which is all that was acknowledged; nothing was shown twice."""
        self.writer.end()
        with Connection(self.server.port, "default") as reader:
            there = reader.get("/events") or {}
            missing = set(self.writer.acknowledged) - there.keys()
            assert not missing, f"acknowledged and not there: {sorted(missing)[:5]}"
            report = self.wait_for(
                "showing everything", lambda now: now["isConnected"] and now["events"] == there, BACK_SLACK)
            assert report["violations"] == []
            # What the page has left is not there any more: each of its earlier sessions has ended.
            deadline = time.monotonic() + PRESENCE_TIMEOUT + BACK_SLACK
            while (here := reader.get("/here") or {}) != {report["life"]: True}:
                assert time.monotonic() < deadline, f"{report['life']} is there, and {here}"
                time.sleep(0.02)
        return report

    def close(self):
        self.writer.goes_on = False
        self.proxy.close()


@pytest.fixture(scope="module")
def pages():
    server = PageServer()
    yield server
    server.close()


@pytest.fixture
def scene(servers, pages, tmp_path):
    browser = Browser(tmp_path / "profile").start()
    made = Scene(servers(arguments=["--presence-timeout", PRESENCE_TIMEOUT]), browser, pages)
    yield made
    made.close()
    browser.kill()


def page_writes(scene, count):
    """The page writes so many numbers; answers once they are acknowledged."""
    scene.browser.evaluate(f"for (let i = 0; i < {count}; i++) page.write('k' + i, i)")
    return scene.wait_for("acknowledged", lambda now: now["waiting"] == 0, BACK_SLACK)


def test_a_page_uses_its_websocket_and_forgets_the_failure(scene):
    scene.open()
    report, _ = scene.wait_until_back()
    assert report["transport"] == "ws" and report["sessions"] == ["ws"]
    scene.wait_for("healthy", lambda now: not now["failed"], BACK_SLACK)
    assert page_writes(scene, 20)["acknowledged"] == 20
    report = scene.check()
    assert report["requests"] == 0
    print(f"WebSocket: an event is there after {report.get('latency')} ms")


def test_a_page_whose_last_websocket_failed_polls_and_moves_to_a_websocket(scene):
    scene.browser.before_each_page(SET_FLAG)
    scene.open()
    scene.wait_until_back()
    report = scene.wait_for("moved", lambda now: now["upgrades"] == 1, BACK_SLACK)
    assert report["sessions"] == ["lp"] and report["transport"] == "ws" and not report["failed"]
    assert page_writes(scene, 20)["acknowledged"] == 20
    report = scene.check()
    assert report["sessions"] == ["lp"], "it is the same session"


FORBIDDEN = {
    "no WebSocket in the page": lambda scene: scene.browser.before_each_page(NO_WEBSOCKET),
    "WebSockets that are never answered": lambda scene: scene.proxy.cut_sockets_after(-1),
    "WebSockets cut after the handshake of HTTP": lambda scene: scene.proxy.cut_sockets_after(0),
    "WebSockets cut after the first message": lambda scene: scene.proxy.cut_sockets_after(1),
}


@pytest.mark.parametrize("how", FORBIDDEN)
def test_a_page_without_a_websocket_that_works_stays_with_its_polls(scene, how):
    FORBIDDEN[how](scene)
    scene.open()
    report = scene.wait_for("polling", lambda now: now["isConnected"] and now["transport"] == "lp", BACK_SLACK)
    scene.wait_until_back()
    assert page_writes(scene, 30)["acknowledged"] == 30
    # Reloaded, it is back at once: the flag, or the missing WebSocket, says so.
    for _ in range(3):
        scene.browser.reload()
        scene.wait_for("a new life", lambda now: now["lives"] > report["lives"], DEADLINE)
        report, _ = scene.wait_until_back()
        assert report["transport"] == "lp"
    report = scene.check()
    print(f"{how}: {report['requests']} requests for {report['messages']} messages, "
          f"an event is there after {report.get('latency')} ms")  # none where all came with the first listen
    assert report["requests"] <= 2 * report["messages"] + 10  # and what opens and closes the sessions


@pytest.mark.parametrize("sockets", RESTARTS)
def test_a_page_is_back_after_each_of_many_restarts_of_the_server(scene, sockets):
    if sockets == "forbidden":
        scene.proxy.cut_sockets_after(1)
    scene.open()
    scene.wait_until_back()
    times = []
    for _ in range(RESTARTS[sockets]):
        scene.restart_server()
        times.append(scene.wait_until_back()[1])
    report = scene.check()
    print(f"{sockets}: back after {', '.join(f'{took:.1f}' for took in times)} s; sessions {report['sessions']}")


def test_a_page_is_back_after_a_server_that_was_down_for_three_seconds(scene):
    """And so is the same profile in a browser that was killed meanwhile."""
    scene.open()
    scene.wait_until_back()
    scene.server.kill()
    scene.proxy.cut_all()
    scene.pause.wait(3)
    scene.server.start()
    scene.proxy.target = scene.server.port
    report, took = scene.wait_until_back()
    print(f"back after {took:.1f} s, {report['sessions']}")
    scene.browser.kill()
    scene.browser.start()
    scene.browser.open(scene.pages.url(scene.proxy.port))
    _, took = scene.wait_until_back()
    print(f"a new browser with this profile is there after {took:.1f} s")
    scene.check()


@pytest.mark.parametrize("sockets", ["allowed", "forbidden"])
def test_a_page_that_is_reloaded_at_random_moments_is_back_each_time(scene, sockets):
    """Mostly while it connects, listens or moves: 0 to 300 ms after the last reload."""
    dice = random.Random(SEED)
    if sockets == "forbidden":
        scene.proxy.cut_sockets_after(1)
    scene.open()
    scene.wait_until_back()
    for _ in range(RELOADS):
        for _ in range(dice.randint(1, 3)):
            scene.browser.reload()
            scene.pause.wait(dice.choice([0.008, 0.03, 0.1, 0.3]) * dice.random())
        scene.wait_until_back()
    report = scene.check()
    print(f"{sockets}: {report['lives']} lives, the last by {report['sessions']}")


def test_a_page_is_back_after_its_websocket_is_cut_again_and_again(scene):
    dice = random.Random(SEED)
    scene.open()
    scene.wait_until_back()
    for _ in range(8):
        scene.pause.wait(dice.random() * 0.2)
        scene.proxy.cut_all(only_sockets=True)
        scene.wait_until_back()
    print(f"sessions {scene.check()['sessions']}")


def test_a_move_to_a_websocket_that_is_cut_at_each_of_its_steps_loses_nothing(scene):
    """The messages of the server on the new socket: `a`, two pongs, then data. Each life loses its socket after one more."""
    scene.browser.before_each_page(SET_FLAG)
    scene.proxy.cut_sockets_after(1)
    scene.open()
    report, _ = scene.wait_until_back()
    for count in range(2, 8):
        scene.proxy.cut_sockets_after(count)
        scene.browser.reload()
        scene.wait_for("a new life", lambda now: now["lives"] > report["lives"], DEADLINE)
        tried = len(scene.proxy.sockets_cut)
        # The move is over, one way or the other, before sockets are left alone again.
        deadline = time.monotonic() + BACK_SLACK
        while len(scene.proxy.sockets_cut) <= tried and time.monotonic() < deadline:
            time.sleep(0.01)
        scene.proxy.cut_sockets_after(None)
        report, _ = scene.wait_until_back()
    report = scene.check()
    print(f"{len(scene.proxy.sockets_cut)} sockets were cut in {report['lives']} lives")

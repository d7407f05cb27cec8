"""The console: how its files are served, and what a person does with it in a real browser."""

import contextlib
import gzip
import itertools
import json
import os
import pathlib
import random
import re
import signal
import threading
import time
import urllib.parse

import pytest

import tree
from console_page import SELECTED, SHIFT, ConsolePage
from devtools import Browser, browser_path
from issuer import hs256
from pando_client import Connection
from proxy import Proxy
from rest_client import Rest, Wire
from server import REPOSITORY, Server, StartFailure
from test_hash_property import KEYS, NUMBERS, STRINGS
from test_tls import Client, pair
from tokens import bearer, unsigned

PUBLIC = REPOSITORY / "public"
OWN_BYTE_LIMIT = 150_000  # of HTML, CSS and JavaScript together, so that the first view is fast
# Intervals of 45 s, shortened and counted.
QUICK_PROBES = """window.probes = 0; const every = setInterval;
window.setInterval = (run, time) => every(time === 45000 ? () => { probes += 1; run(); } : run, time === 45000 ? 300 : time);"""
NOT_FOUND = "append .json to your request URI to use the REST API."
MANY_CHILDREN = int(os.environ.get("PANDO_CONSOLE_CHILDREN", 1_000_000))  # of one node; they are written in a few seconds
SECRET = "0f" * 32

needs_browser = pytest.mark.skipif(not browser_path(), reason="chromium is not installed; PANDO_CHROMIUM names another one")


# Files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("files"), memory=True).start()
    yield server
    server.kill()


def ask(server, target, method="GET", fields=()):
    with Wire(server.port) as wire:
        wire.send(wire.head(method, target, list(fields)))
        return wire.receive(method)


@pytest.mark.parametrize("target, content_type", [
    ("/", "text/html; charset=utf-8"),
    ("/?ns=default", "text/html; charset=utf-8"),
    ("/index.html", "text/html; charset=utf-8"),
    ("/docs", "text/html; charset=utf-8"),
    ("/docs/", "text/html; charset=utf-8"),
    ("/docs/guide.md", "text/markdown; charset=utf-8"),
    ("/js/app.js", "text/javascript; charset=utf-8"),
    ("/css/console.css", "text/css; charset=utf-8"),
    ("/favicon.svg", "image/svg+xml"),
])
def test_a_file_is_served_with_its_type_and_a_strict_policy(files, target, content_type):
    answer = ask(files, target)
    assert answer.status == 200
    assert answer.header("content-type") == content_type
    assert answer.header("cache-control") == "no-cache"
    policy = answer.header("content-security-policy")
    for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"]:
        assert part in policy
    assert "unsafe" not in policy and "http:" not in policy
    assert answer.header("x-content-type-options") == "nosniff"
    assert answer.header("referrer-policy") == "no-referrer"
    again = ask(files, target, fields=[("If-None-Match", answer.header("etag"))])
    assert (again.status, again.body) == (304, b"")
    head = ask(files, target, "HEAD")
    assert (head.status, head.header("content-length")) == (200, str(len(answer.body)))
    packed = ask(files, target, fields=[("Accept-Encoding", "gzip")])
    assert packed.header("etag") != answer.header("etag") or packed.header("content-encoding") is None
    if len(answer.body) > 1024:
        assert gzip.decompress(packed.body) == answer.body and len(packed.body) < len(answer.body)


@pytest.mark.parametrize("target", [
    "/no/such/file", "/../README.md", "/docs/../../README.md", "/docs/%2e%2e/%2e%2e/README.md", "/%2e%2e/README.md", "/docs%2Fguide.md",
    "/..%2fREADME.md", "//etc/passwd", "/index.html%00", "/.git/config", "/js/", "/JS/app.js", "/index.html/", "/docs/guide",
])
def test_what_is_no_file_gets_the_404_of_rest(files, target):
    ask(files, target).expect_error(404, NOT_FOUND)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_files_conditions_and_content(files, method):
    """RFC 9110 §13.2.2 and §9.3.1: conditions hold, and content means nothing in a GET."""
    tag = ask(files, "/").header("etag")
    date = "Sun, 06 Nov 1994 08:49:37 GMT"
    for field, value, status in [
        ("If-Match", tag, 200), ("If-Match", "*", 200), ("If-Match", '"other"', 412), ("If-Match", "W/" + tag, 412),
        ("If-Unmodified-Since", date, 200),  # a file has no date of its last change (RFC 9110 §13.1.4)
    ]:
        assert ask(files, "/", method, fields=[(field, value)]).status == status, (field, value)
    with Wire(files.port) as wire:
        wire.send(wire.request_bytes(method, "/", "") + wire.request_bytes(method, "/", "content"))
        assert wire.receive(method).status == 200
        answer = wire.receive(method)
        assert (answer.status, answer.header("connection")) == (200, "close")
        wire.expect_closed()


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH"])
def test_only_reads_are_for_files(files, method):
    with Wire(files.port) as wire:
        wire.send(wire.request_bytes(method, "/", "1"))
        assert wire.receive(method).status == 404


def test_data_is_never_shadowed_by_a_file(servers, tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("mine")
    (site / "users.json").write_text('"a file"')
    (site / "link.txt").symlink_to("/etc/passwd")
    (site / ".hidden").write_text("hidden")
    server = servers(arguments=["--public", site], memory=True)
    rest = Rest(server.port, "default")
    assert rest.get("/users") is None and rest.get("/") is None
    assert ask(server, "/").body == b"mine"
    for target in ["/link.txt", "/.hidden", "/js/app.js", "/docs"]:
        ask(server, target).expect_error(404, NOT_FOUND)
    (site / "index.html").write_text("changed")
    (site / "new.txt").write_text("new")
    server.signal(signal.SIGHUP)
    deadline = time.monotonic() + 30
    while ask(server, "/").body != b"changed":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert ask(server, "/new.txt").body == b"new"


def test_no_console_serves_no_files(servers):
    server = servers(arguments=["--no-console"], memory=True)
    for target in ["/", "/index.html", "/docs"]:
        ask(server, target).expect_error(404, NOT_FOUND)


@pytest.mark.parametrize("arguments, words", [
    (["--public", "/no/such/directory"], "--public: /no/such/directory can't be read"),
    (["--public", "/tmp", "--no-console"], "--no-console: serves no files, so it can't go with --public"),
])
def test_a_directory_that_cannot_be_served_is_an_error_of_the_configuration(servers, arguments, words):
    server = servers(start=False, arguments=arguments, memory=True)
    with pytest.raises(StartFailure) as failure:
        server.start()
    assert failure.value.code == 78
    assert words in server.stderr()


def test_children_are_listed_to_all_who_may_read_them(files):
    owner = Rest(files.port, "listing", fields=[bearer("owner")])
    owner.put("/", {"a": {"x": 1, "y": {"z": "text"}}, "b": {"c": 1}})
    owner.ask("PUT", "/.settings/rules.json", '{"rules": {"a": {".read": "auth.uid === \'ann\'"}}}').expect(200)
    page = {"kind": "object", "count": 2, "offset": 0, "children": [
        {"key": "x", "kind": "number", "value": 1}, {"key": "y", "kind": "object", "count": 1, "preview": {"z": "text"}}]}
    ann = Rest(files.port, "listing", fields=[bearer(unsigned("ann"))])
    override = "&auth_variable_override=%7B%22uid%22:%22ann%22%7D"
    # All nodes are counted for administrators only, also where they act as another user.
    for rest, parameters, nodes in [(owner, "", {"nodes": 4}), (ann, "", {}), (owner, override, {"nodes": 4})]:
        assert rest.ask("GET", f"/.inspect/children.json?path=/a&measure=true{parameters}").expect(200).json() == page | nodes
    for rest, path, parameters in [(ann, "/", ""), (ann, "/b", ""), (owner, "/b", override), (Rest(files.port, "listing"), "/a", "")]:
        rest.ask("GET", f"/.inspect/children.json?path={path}{parameters}").expect_error(401, "Permission denied")


def test_the_server_is_reported_to_administrators_only(files):
    owner = Rest(files.port, "reports", fields=[bearer("owner")])
    for name in ["stats", "connections", "operations", "log"]:
        Rest(files.port, "reports").ask("GET", f"/.inspect/{name}.json").expect_error(401, "Unauthorized request.")
        assert owner.ask("HEAD", f"/.inspect/{name}.json").status == 200
        owner.ask("PUT", f"/.inspect/{name}.json", "1").expect(405)

    def stats():
        return owner.ask("GET", "/.inspect/stats.json").expect(200).json()

    def request_count():
        return sum(sample["value"] for sample in stats()["metrics"]["pando_requests_total"])

    assert [stats()[name] for name in ("phase", "data", "dev")] == ["ready", None, True]
    before = request_count()
    owner.put("/n", 1)
    # The thread that counts it may do so after the response.
    deadline = time.monotonic() + 30
    while request_count() == before:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    with Connection(files.port, "reports") as connection:
        connection.must("q", {"p": "/n"})
        found = owner.ask("GET", "/.inspect/connections.json?sort=age&limit=1000").expect(200).json()["connections"]
        assert [one["listens"] for one in found if one.get("database") == "reports" and one["transport"] == "websocket"] == [["/n"]]
    refusal = owner.ask("GET", "/.inspect/connections.json?sort=size").expect(400).json()
    assert refusal == {"error": "?sort= is one of age, idle, queue, memory, received, sent, ?limit= 1 to 1000"}
    assert owner.ask("GET", "/.inspect/operations.json").expect(200).json()["threshold_seconds"] == 0.001


def test_the_log_is_shown_from_a_message_on(servers):
    server = servers(memory=True)
    owner = Rest(server.port, "default", fields=[bearer("owner")])

    def messages(after=0):
        return owner.ask("GET", f"/.inspect/log.json?after={after}").expect(200).json()["messages"]

    first = messages()
    assert [one["number"] for one in first] == list(range(1, len(first) + 1))
    assert any(one["level"] == "warning" and one["text"].startswith("--dev") for one in first)
    server.signal(signal.SIGHUP)
    deadline = time.monotonic() + 30
    while not any("SIGHUP" in one["text"] for one in messages(first[-1]["number"])):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for text in ["", "x", "-1", "1.5"]:
        refusal = owner.ask("GET", f"/.inspect/log.json?after={text}").expect(400).json()
        assert refusal == {"error": "after must be the number of a message"}


def own_files():
    return [file for file in PUBLIC.rglob("*") if file.suffix in (".html", ".js", ".css", ".svg") and "vendor" not in file.parts]


def test_the_files_of_the_console_are_small_and_ask_no_other_server():
    sizes = {str(file.relative_to(PUBLIC)): file.stat().st_size for file in own_files() if file.suffix != ".svg"}
    assert sum(sizes.values()) <= OWN_BYTE_LIMIT, sizes
    for file in [*own_files(), *(PUBLIC / "data").iterdir()]:
        text = file.read_text()
        assert not re.search(r"(src|href|url|import|fetch)\W{1,3}(https?:)?//", text), file
        for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]:
            assert word not in text, f"{word} in {file}"


LUMINANCE = [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    """WCAG 2.1: the contrast of two colours as #rrggbb."""
    def luminance(colour):
        parts = [int(colour[place:place + 2], 16) / 255 for place in (1, 3, 5)]
        return sum(weight * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4) for weight, part in zip(LUMINANCE, parts))
    light, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_has_the_contrast_of_wcag_aa(theme):
    style = (PUBLIC / "css/console.css").read_text()
    colours = {name: (light, dark)[theme] for name, light, dark in re.findall(r"--([\w-]+):\s*light-dark\((#\w{6}),\s*(#\w{6})\)", style)}
    pairs = [(text, ground) for text in ("ink", "soft", "accent", "string", "number", "boolean", "name", "method", "danger", "warning")
             for ground in ("paper", "ground", "raised", "hover", "selected")]
    pairs += [(text, "flash") for text in ("ink", "string", "number", "boolean")]
    pairs += [("on-accent", "accent"), ("warning", "warning-soft"), ("ink", "tint"), ("ink", "danger-soft")]
    bad = {pair: round(contrast(colours[pair[0]], colours[pair[1]]), 2) for pair in pairs if contrast(colours[pair[0]], colours[pair[1]]) < 4.5}
    assert not bad


# In the browser


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """One server and one browser; each test has a database of its own."""
    if not browser_path():
        pytest.skip("chromium is not installed")
    server = Server(tmp_path_factory.mktemp("server")).start()
    browser = Browser(tmp_path_factory.mktemp("profile")).start()
    page = ConsolePage(browser)
    yield server, page
    browser.kill()
    server.kill()


numbers = itertools.count(1)

EDITOR = "document.querySelector('.CodeMirror').CodeMirror"


class Desk:
    """A page at a database of its own, and another client of it."""

    def __init__(self, server, page):
        self.server, self.page, self.ns = server, page, f"console-{next(numbers)}"
        self.rest = Rest(server.port, self.ns, fields=[bearer("owner")])

    def open(self, data=None, place="data", keys=""):
        if data is not None:
            self.rest.put("/", data)
        self.page.size(1280, 800)
        self.page.open(self.server.port, f"#/{place}/{self.ns}{keys}")
        if place == "data" and data is not None:
            self.page.wait_rows(lambda rows: rows and rows[0]["kind"] != "unknown", "the root")
        return self.page

    def next_moment(self):
        """Waits until the server's clock shows another millisecond: what is written in the same one is one moment of the history."""
        def now():
            return self.rest.ask("GET", "/.inspect/history.json?path=/&limit=1").expect(200).json()["at"]
        began = now()
        while now() == began:
            pass

    def wait_for(self, path, value):
        """Waits until the server has a value."""
        deadline = time.monotonic() + 30
        while (found := self.rest.get(path)) != value:
            assert time.monotonic() < deadline, f"{path} is {found}; {self.page.text()[:800]}"
            time.sleep(0.02)


@pytest.fixture
def desk(scene):
    server, page = scene
    yield Desk(server, page)
    assert page.complaints() in ([], None)


def test_under_dev_the_console_opens_at_the_root_of_default(scene):
    server, page = scene
    Rest(server.port, "default").put("/greeting", "hello")
    page.size(1280, 800)
    page.open(server.port)
    rows = page.wait_row("greeting", '"hello"')
    assert rows[0] == {"key": "default", "value": "", "badge": "1", "level": 1, "kind": "object"}
    shown = page.run("performance.now()")
    print(f"first rows at most {shown:.0f} ms after the navigation")
    assert page.complaints() == []


# The page's own WebSockets, and what they receive.
WATCH_SOCKETS = """window.sockets = []; window.received = []; const Own = WebSocket;
window.WebSocket = class extends Own {
  constructor(...parts) {
    super(...parts);
    sockets.push(this);
    this.addEventListener("message", (event) => received.push(event.data));
  }
};"""


@needs_browser
def test_over_tls_the_console_negotiates_compression(servers, tmp_path):
    """A real browser: the page over https, its WebSocket over wss, a large push compressed."""
    server = servers(memory=True, arguments=[*pair("localhost"), "--public", PUBLIC])
    browser = Browser(tmp_path / "profile", "--ignore-certificate-errors").start()
    try:
        page = ConsolePage(browser)
        browser.before_each_page(WATCH_SOCKETS)
        page.size(1280, 800)
        page.open(server.port, scheme="https")
        page.wait_rows(lambda rows: rows and rows[0]["key"] == "default", "the root")
        page.wait("sockets.some((one) => one.readyState === 1)", "an open WebSocket")
        sockets = page.run("sockets.map((one) => [one.url, one.extensions])")
        assert all(url.startswith(f"wss://127.0.0.1:{server.port}/") for url, _ in sockets), sockets
        assert all("permessage-deflate" in extensions for _, extensions in sockets), sockets
        client = Client(server.port)
        assert client.ask("PUT", "/texts.json", '{"a":"short"}')[0] == 200
        page.wait_row("texts")
        page.select("texts")
        page.press("ArrowRight")
        page.wait_row("a", '"short"')
        # The tree is fed by event streams: the push is for a WebSocket of its own, which the browser inflates.
        listen = json.dumps({"t": "d", "d": {"r": 1, "a": "q", "b": {"p": "/texts/a", "h": ""}}})
        page.run(f"""(() => {{
          const socket = new WebSocket("wss://127.0.0.1:{server.port}/.ws?v=5&ns=default");
          socket.onopen = () => socket.send({json.dumps(listen)});
        }})()""")
        page.wait("received.some((one) => one.includes('short'))", "the listen's first value")
        assert "permessage-deflate" in page.run("sockets.at(-1).extensions")
        long = " ".join(f"sentence {number} of a long text" for number in range(300))
        assert len(long) > 8000
        assert client.ask("PUT", "/texts/a.json", json.dumps(long))[0] == 200
        page.wait(f"received.some((one) => one.includes({json.dumps(long)}))", "the push")
        page.wait_rows(lambda rows: any("sentence 0 of a long text" in row["value"] for row in rows), "the new text")
        assert page.complaints() == []
    finally:
        browser.kill()


def test_a_level_is_expanded_and_collapsed_and_shows_kinds_and_previews(desk):
    page = desk.open({"a": {"x": 1, "y": {"z": True}}, "b": "text", "c": {".value": 2.5, ".priority": "p"}})
    rows = page.wait_row("a")
    assert [(row["key"], row["value"], row["badge"]) for row in rows[1:]] == [("a", "x: 1, y: {…}", "2"), ("b", '"text"', ""), ("c", "2.5", "")]
    page.select("a")
    page.press("ArrowRight")
    assert [row["level"] for row in page.wait_row("x", "1")] == [1, 2, 3, 3, 2, 2]
    page.press("ArrowDown")
    page.press("ArrowDown")
    page.press("ArrowRight")
    page.wait_row("z", "true")
    page.press("ArrowLeft")
    page.press("ArrowLeft")
    page.press("ArrowLeft")
    page.wait_rows(lambda rows: len(rows) == 4, "collapsed")


def test_a_row_names_who_wrote_just_now(desk):
    page = desk.open({"a": {"x": 1}, "b": 1})
    page.wait_row("b", "1")
    page.wait("document.getElementById('state').className === 'state open'")
    writers = "[...document.querySelectorAll('.row:not([hidden])')].map((row) => `${row.querySelector('.key').textContent} ${row.querySelector('.writer').textContent}`)"
    ann = Rest(desk.server.port, desk.ns, fields=[bearer(unsigned("ann"))])
    ann.put("/a/x", 2)
    page.wait(f"{writers}.includes('a uid ann')")
    Rest(desk.server.port, desk.ns).put("/b", 2)
    page.wait(f"{writers}.includes('b not signed in')")
    # It goes away again.
    page.wait(f"{writers}.includes('a ') && {writers}.includes('b ')")


def test_changes_of_another_client_are_shown_and_flash(desk):
    page = desk.open({"n": 1, "list": {"a": {"v": 1}}})
    page.wait_row("n", "1")
    page.run("window.flashes = 0; const animate = Element.prototype.animate; Element.prototype.animate = function (...rest) { flashes++; return animate.apply(this, rest); }")
    desk.rest.put("/n", 2)
    page.wait_row("n", "2")
    assert page.wait("window.flashes") >= 1
    desk.rest.put("/fresh", "new")
    page.wait_row("fresh", '"new"')
    page.select("list")
    page.press("ArrowRight")
    page.wait_row("a", "v: 1")
    desk.rest.put("/list/b", True)
    page.wait_row("b", "true")
    desk.rest.ask("DELETE", "/list/a.json").expect(200)
    page.wait_rows(lambda rows: all(row["key"] != "a" for row in rows), "a gone")
    desk.rest.put("/n", {"now": "an object"})
    page.wait_row("n", 'now: "an object"')
    with Connection(desk.server.port, desk.ns) as other:
        other.must("m", {"p": "/", "d": {"n/now": None, "list/b": False}})
    page.wait_row("b", "false")
    page.wait_rows(lambda rows: all(row["key"] != "n" for row in rows), "n gone")


def test_a_value_that_changes_all_the_time_is_not_painted_in_each_frame(desk):
    """A flash stands still before it fades: of a value that changes again meanwhile, nothing moves between two changes."""
    page = desk.open({"n": 1})
    page.wait_row("n", "1")
    page.run("window.flashes = []; const { animate } = Element.prototype; Element.prototype.animate = function (...rest) { return flashes[flashes.push(animate.apply(this, rest)) - 1]; }")
    desk.rest.put("/n", 2)
    page.wait("flashes.length")
    colours = page.run("""(([flash]) => { flash.pause();
      return [0, 200, 399, 600, 900].map((time) => { flash.currentTime = time; return getComputedStyle(flash.effect.target).backgroundColor; }); })(flashes)""")
    assert colours[0] == colours[1] == colours[2] != colours[3]
    assert colours[4] == "rgba(0, 0, 0, 0)" not in colours[:4]


def test_a_value_is_edited_with_its_type_and_undone(desk):
    page = desk.open({"n": 5, "s": "five", "p": {".value": 1, ".priority": 7}})
    page.wait_row("s", '"five"')
    page.select("n")
    page.press("Enter")
    page.wait("document.activeElement.className === 'value-input'")
    page.type("12x")
    page.press("Enter")
    page.wait("document.querySelector('.editor .problem')?.textContent")
    page.run("document.activeElement.select()")
    page.type("-12.5")
    page.press("Enter")
    desk.wait_for("/n", -12.5)
    page.wait_row("n", "-12.5")
    page.undo("Set /n")
    desk.wait_for("/n", 5)
    page.wait_row("n", "5")
    # The priority stays.
    page.select("p")
    page.press("F2")
    page.wait("document.activeElement.className === 'value-input'")
    page.type("2")
    page.press("Enter")
    page.wait_row("p", "2")
    assert json.loads(desk.rest.ask("GET", "/p.json?format=export").body) == {".value": 2, ".priority": 7}
    # A server value.
    page.select("n")
    page.press("Enter")
    page.wait("document.activeElement.className === 'value-input'")
    page.run("const type = document.querySelector('.editor .type'); type.value = 'increment'; type.dispatchEvent(new Event('change'))")
    page.run("document.querySelector('.editor .value-input').value = '3'")
    page.press("Enter")
    desk.wait_for("/n", 8)


def test_a_conflict_is_shown_and_nothing_is_overwritten_unasked(desk):
    page = desk.open({"n": 1})
    page.wait_row("n", "1")
    page.select("n")
    page.press("Enter")
    page.wait("document.activeElement.className === 'value-input'")
    page.type("mine")
    desk.rest.put("/n", 2)
    page.press("Enter")
    page.wait("document.querySelector('.editor .problem')?.textContent")  # "mine" is no number
    page.run("document.activeElement.select()")
    page.type("3")
    page.press("Enter")
    page.dialog("There is another value")
    assert page.run("[document.querySelector('.theirs').textContent, document.querySelector('.mine').textContent]") == ["2", "3"]
    assert desk.rest.get("/n") == 2
    page.confirm()
    desk.wait_for("/n", 3)


def test_children_are_added_moved_duplicated_and_deleted(desk):
    page = desk.open({"list": {"a": {"v": 1, "w": 2}}})
    page.select("list")
    page.press("Insert")
    page.dialog("Add to /list")
    page.type("a.b")
    page.press("Enter")
    assert "may not have" in page.wait("document.querySelector('dialog .problem').textContent")
    page.run("document.activeElement.select()")
    page.type("b")
    page.run("document.querySelector('dialog .value-input').value = 'text'")
    page.press("Enter")
    desk.wait_for("/list/b", "text")
    page.wait("!document.querySelector('dialog')")
    page.wait_row("b", '"text"')

    def choose(key, action, title):
        def act():
            page.press("F10", SHIFT)
            page.wait("document.activeElement.getAttribute('role') === 'menuitem'")
            page.run(f"[...document.querySelectorAll('.menu button')].find((item) => item.textContent.startsWith('{action}')).click()")

        page.open_dialog(key, act, title)

    def review(title, changes):
        """Confirms the dialog, and the list of changes behind it."""
        page.press("Enter")
        page.wait(f"document.querySelectorAll('dialog .diff > div').length === {changes}")
        assert title in page.run("document.querySelector('dialog h2').textContent")
        page.confirm()

    choose("a", "Rename", "Rename or move /list/a")
    page.run("document.activeElement.select()")
    page.type("/list/a/inside")
    page.press("Enter")
    assert "into itself" in page.wait("document.querySelector('dialog .problem').textContent")
    page.run("document.activeElement.select()")
    page.type("/moved/here")
    review("Rename or move /list/a", 2)
    desk.wait_for("/", {"list": {"b": "text"}, "moved": {"here": {"v": 1, "w": 2}}})
    page.wait_row("moved")
    choose("b", "Duplicate", "Duplicate /list/b")
    review("Duplicate /list/b", 1)
    desk.wait_for("/list", {"b": "text", "b-copy": "text"})
    page.wait_row("b-copy", '"text"')
    page.open_dialog("moved", lambda: page.press("Delete"), "Delete /moved?")
    assert "4 nodes will be removed" in page.text()
    page.confirm()
    desk.wait_for("/moved", None)
    page.undo("Delete /moved")
    desk.wait_for("/moved", {"here": {"v": 1, "w": 2}})
    page.wait_row("moved")
    choose("list", "Edit as JSON", "/list")
    page.run("document.querySelector('dialog textarea').value = '{\"b\": [1, 2], \"c\": tru}'")
    page.run("document.querySelector('dialog button.primary').click()")
    assert "JSON" in page.wait("document.querySelector('dialog .problem').textContent")
    page.run("document.querySelector('dialog textarea').value = '{\"b\": \"other\", \"c\": true}'")
    page.run("document.querySelector('dialog button.primary').click()")
    page.dialog("Change /list")
    page.wait("document.querySelectorAll('.diff > div').length === 4")  # b: − and +, b-copy: −, c: +
    page.confirm()
    desk.wait_for("/list", {"b": "other", "c": True})


HOSTILE = {
    "<img src=x onerror=hacked()>": "<script>hacked()</script>",
    "__proto__": {"polluted": "<svg onload=hacked()>", "constructor": 1},
    "javascript:hacked()": "${hacked()}",
    "\u202egnp": "left\u202eright",
    "zero\u200bwidth": "a\u0000b\u001bc\nd",
    "\u3164\u00ad\u180e\U000e0041": "\u3164",
    "k" * 700: "v" * 100_000,
    "toString": "toString",
    "'\"><b>": "&lt;b&gt;",
}


def test_whatever_the_tree_holds_is_shown_as_text(desk):
    page = desk.open(HOSTILE)
    page.run("window.hacked = () => { window.isHacked = true; }")
    rows = {row["key"]: row["value"] for row in page.wait_rows(lambda rows: len(rows) == 1 + len(HOSTILE), "all rows")}
    assert rows["<img src=x onerror=hacked()>"] == '"<script>hacked()</script>"'
    assert rows["⟨202E⟩gnp"] == '"left⟨202E⟩right"'
    assert rows["zero⟨200B⟩width"] == r'"a\u0000b\u001bc\nd"'
    assert rows["⟨3164⟩⟨00AD⟩⟨180E⟩⟨E0041⟩"] == '"⟨3164⟩"'
    assert rows["__proto__"].startswith("constructor: 1, polluted: ")
    assert len(rows["k" * 160 + "…"]) <= 320
    for key in ["__proto__", "toString", "<img src=x onerror=hacked()>", "k" * 160 + "…"]:
        page.select(key)
        page.wait(f"document.querySelector('.details h2').textContent.startsWith({json.dumps(key[:60])})")
    page.select("__proto__")
    page.press("ArrowRight")
    page.wait_row("polluted", '"<svg onload=hacked()>"')
    assert page.run("({}).polluted === undefined && !window.isHacked && document.querySelectorAll('#main img, #main script').length === 0")
    page.open(desk.server.port, f"#/query/{desk.ns}")
    press_button(page, "Run")
    page.wait(f"document.querySelectorAll('tbody tr td a').length === {len(HOSTILE)}")
    assert page.run("({}).polluted === undefined && document.querySelectorAll('#main img, #main script').length === 0")


HOSTILE_NAME = "\u202e<img src=x onerror=hacked()>"
# Elements that no page of the console has, and what turns or hides text, in the page or in an attribute.
ATTACKS = """[isHacked, document.querySelectorAll('main :is(img, script, iframe, object)').length,
  [document.body.innerText, ...[...document.querySelectorAll('*')].flatMap((one) => [...one.attributes].map(({ value }) => value))].filter((text) => /[\\u202e\\u0000-\\u0008\\u001b]/.test(text))]"""


def test_what_clients_say_of_themselves_is_shown_as_text(servers, scene):
    """A uid, keys, paths and request ids come from clients, and are in lists of writes, denials, versions, connections and costly
    paths, in the log, in the values that rules saw, in queries and the code for them."""
    _, page = scene
    server = servers(arguments=["--log-level", "debug"])
    owner = Rest(server.port, "default", fields=[bearer("owner")])
    path = f"/{urllib.parse.quote(HOSTILE_NAME)}/__proto__"
    mine = [bearer(unsigned(HOSTILE_NAME)), ("User-Agent", HOSTILE_NAME.encode()), ("X-Request-ID", "<script>hacked()</script>")]
    user = Rest(server.port, "default", fields=mine)
    user.put(path, HOSTILE_NAME)
    user.put(path, {"polluted": HOSTILE_NAME})
    for text in ["true", "false"]:
        owner.put_rules(json.dumps({"rules": {"$any": {".read": True, ".write": f"{text} && auth.uid == data.child('{HOSTILE_NAME}').val()", "$" + "x" * 9: {".validate": True}}}}))
    assert user.ask("PUT", f"{path}.json", b"1").status == 401
    window = "window.isHacked = false; window.hacked = () => { window.isHacked = true; };"
    with before_each_page(page, window), Connection(server.port, "default") as connection:
        connection.must("auth", {"cred": unsigned(HOSTILE_NAME)})
        connection.must("q", {"p": f"/{HOSTILE_NAME}/__proto__", "h": ""})
        page.size(1280, 800)
        shown = "⟨202E⟩<img src=x onerror=hacked()>"

        def look(place, *words):
            page.open(server.port, place)
            for word in words:
                page.wait(f"document.body.innerText.includes({json.dumps(word)})", f"{word} at {place}")
            assert page.run(ATTACKS) == [False, 0, []], place

        key = urllib.parse.quote(HOSTILE_NAME, safe="")
        look(f"#/data/default/{key}", f"uid {shown}", "__proto__")
        look(f"#/history/default/{key}", f"History of /{shown}", f"uid {shown}", "polluted")
        look(f"#/query/default/{key}?q=" + urllib.parse.quote(json.dumps({"orderBy": HOSTILE_NAME, "equalTo": HOSTILE_NAME})), "No children match.")
        look("#/rules/default", f"uid {shown}", f"/{shown}/__proto__")
        press_button(page, "Why?")
        page.dialog("was denied")
        assert shown in page.run("document.querySelector('dialog').innerText") and page.run(ATTACKS) == [False, 0, []]
        page.press("Escape")
        press_button(page, "Versions")
        page.dialog("Published rules")
        assert page.run(ATTACKS) == [False, 0, []]
        page.press("Escape")
        look("#/operations/default", f"uid {shown}", f"/{shown}/__proto__", "is refused")
        user.ask("PUT", f"{path}.json", b"1")
        page.wait(f"[...document.querySelectorAll('section')].some((one) => one.innerText.startsWith('Costly') && one.innerText.includes({json.dumps(shown)}))")
        assert page.run(ATTACKS) == [False, 0, []]
        page.run("document.getElementById('actor').click()")
        page.dialog("Run as")
        page.run("""((kind) => { kind.value = 'user'; kind.dispatchEvent(new Event('change')); })(document.querySelector('dialog select'))""")
        page.run(f"document.querySelector('dialog input[placeholder=uid]').value = {json.dumps(HOSTILE_NAME)}")
        page.confirm()
        page.wait(f"document.getElementById('actor').textContent.startsWith('as {shown[:20]}')")
        assert page.run(ATTACKS) == [False, 0, []] and page.run("({}).polluted === undefined")
    assert page.complaints() == []


def test_a_long_list_is_paged_and_its_end_is_one_key_away(desk):
    step = 50_000
    for start in range(0, MANY_CHILDREN, step):
        body = json.dumps({f"k{number:07}": number for number in range(start, start + step)})
        desk.rest.ask("PATCH", "/many.json?print=silent", body).expect(204)
    page = desk.open(keys="/many")
    page.wait_row("k0000000", "0")
    began = time.monotonic()
    page.focus_tree()
    page.press("End")
    last = f"k{MANY_CHILDREN - 1:07}"
    page.wait_row(last, str(MANY_CHILDREN - 1))
    print(f"the last of {MANY_CHILDREN} children after {1000 * (time.monotonic() - began):.0f} ms")
    assert page.run("document.querySelectorAll('.row').length") < 120
    page.wait(f"document.querySelector('.details h2').textContent === '{last}'")
    page.press("PageUp")
    page.wait_row(f"k{MANY_CHILDREN - 20:07}")
    middle = MANY_CHILDREN // 2
    page.press("/")
    page.wait("document.activeElement.className === 'find'")
    page.type(f"k{middle:07}")
    page.press("Enter")
    page.wait_row(f"k{middle:07}", str(middle))
    page.wait(f"document.querySelector('.details h2').textContent === 'k{middle:07}'")
    page.press("/")
    page.run("document.activeElement.select()")
    page.type("/many")
    page.press("Enter")
    page.wait("location.hash.endsWith('/many')")
    # A search selects the first key with that prefix.
    page.press("/")
    page.run("document.activeElement.select()")
    page.type(f"k{middle + 1000:07}"[:-3])
    page.press("Enter")
    page.wait(f"({SELECTED}) === 'k{middle + 1000:07}'")
    # By the wheel as many rows as it turns, by the scroll bar to any place.
    first = "Math.min(...[...document.querySelectorAll('.row:not([hidden]) .key')].map((key) => Number(key.textContent.slice(1))).filter((number) => number >= 0))"
    before = page.run(first)
    page.browser.call("Input.dispatchMouseEvent", type="mouseWheel", x=300, y=400, deltaX=0, deltaY=2400)
    page.wait(f"Math.abs({first} - {before + 100}) <= 1", "100 rows further")
    page.wait_rows(lambda rows: all(row["kind"] == "number" for row in rows if row["level"] > 1), "every row loaded")
    page.run("(tree => tree.scrollTop = tree.scrollHeight * 0.9)(document.querySelector('.tree'))")
    page.wait(f"Math.abs({first} - {MANY_CHILDREN} * 0.9) < {MANY_CHILDREN} / 100", "nine tenths down")
    page.wait_rows(lambda rows: all(row["kind"] == "number" for row in rows), "every row loaded there")
    assert page.run("document.querySelectorAll('.row').length") < 120
    # Among those in view a row comes.
    shown = page.run(first) + 20
    desk.rest.put(f"/many/k{shown:07}x", "between")
    page.wait_row(f"k{shown:07}x", '"between"')


def test_the_rows_in_view_stay_loaded_when_a_far_page_comes(desk):
    """Of a level about 300 pages of 100 rows are kept; never left out are those in view, and those that are on their way."""
    desk.rest.ask("PATCH", "/many.json?print=silent", json.dumps({f"k{number:05}": number for number in range(31_000)})).expect(204)
    page = desk.open()
    page.wait_row("many")
    assert page.run("""(async () => {
      const { TreeModel } = await import('/js/tree-model.js'), { session } = await import('/js/session.js');
      const model = new TreeModel(["many"]), { root } = model;
      const until = async (condition) => { while (!condition()) await new Promise(requestAnimationFrame); };
      await until(() => root.count > 0 && model.loads === 0);
      let goOn;
      const held = new Promise((resolve) => (goOn = resolve)), children = session.children;
      session.children = async (path, parameters) => {
        if (parameters.offset === 20000) await held;
        return children.call(session, path, parameters);
      };
      model.show(15001, 15010);
      await until(() => root.childAt(15005));
      const late = model.load(root, 200);
      for (let number = 0; number <= 300; number++) await model.load(root, number);
      const kept = [...root.pages.keys()].sort((a, b) => a - b);
      goOn();
      await late;
      delete session.children;
      model.close();
      return [kept, root.childAt(15005)?.key, root.childAt(20000)?.key];
    })()""") == [[*range(147, 154), 200, 300], "k15005", "k20000"]


@contextlib.contextmanager
def before_each_page(page, script):
    """Runs a script in each page that is opened meanwhile."""
    added = page.browser.call("Page.addScriptToEvaluateOnNewDocument", source=script)
    try:
        yield
    finally:
        page.browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])


@contextlib.contextmanager
def through_proxy(server, page):
    """The console of a server that holds 1 at `/n`, opened through a proxy."""
    with Proxy(server.port) as proxy:
        Rest(server.port, "default").put("/n", 1)
        page.size(1280, 800)
        page.open(proxy.port)
        page.wait_row("n", "1")
        yield proxy


def start_again(server, proxy, page):
    """Starts a killed server, and waits until the console is connected to it."""
    server.start()
    proxy.target = server.port
    page.wait("document.getElementById('state').className === 'state open'")


def test_the_console_is_back_after_the_server_was_restarted(servers, scene):
    _, page = scene
    server = servers()
    with through_proxy(server, page) as proxy:
        server.kill()
        proxy.cut_all()
        page.wait("document.getElementById('state').className.includes('waiting') || document.getElementById('state').className.includes('connecting')")
        start_again(server, proxy, page)
        Rest(server.port, "default").put("/n", 2)
        page.wait_row("n", "2")
        Rest(server.port, "default").put("/fresh", 3)
        page.wait_row("fresh", "3")


def test_a_dead_connection_is_found_by_its_silence(servers, scene):
    """Nothing arrives any more, and no close either, as after a sleep. The probes of each 45 s come each 0.3 s here."""
    _, page = scene
    server = servers()
    with before_each_page(page, QUICK_PROBES), through_proxy(server, page) as proxy:
        page.wait("window.probes > 2")
        assert page.run("document.getElementById('state').className") == "state open"
        proxy.swallow()
        page.wait("document.getElementById('state').className !== 'state open'")
        Rest(server.port, "default").put("/n", 2)
        proxy.swallows = False
        page.wait("document.getElementById('state').className === 'state open'")
        page.wait_row("n", "2")


def test_a_value_is_found_in_a_loaded_level(desk):
    page = desk.open({"a": "Bern", "b": {"capital": "Paris"}, "c": "BERNINA", "d": 7})
    page.wait_row("d", "7")
    page.run("const by = document.querySelector('select[aria-label=\"Find by\"]'); by.value = 'value'; by.dispatchEvent(new Event('change'))")

    def find(text, key):
        page.run(f"{{ const field = document.querySelector('.find'); field.focus(); field.value = {json.dumps(text)}; }}")
        page.press("Enter")
        page.wait(f"({SELECTED}) === '{key}'", f"{text} at {key}")

    for text, key in [("bern", "a"), ("bern", "c"), ("bern", "a"), ("paris", "b"), ("7", "d")]:
        find(text, key)
    page.run("document.querySelector('.find').value = 'Rome'")
    page.press("Enter")
    assert "of 4 that are loaded" in page.wait("[...document.querySelectorAll('.toast')].at(-1)?.textContent")


LINES = """(async () => {{ const {{ codeTable }} = await import('/js/snippets.js');
  return [...codeTable({keys}, {query}).querySelectorAll('tr')].slice(1).map((row) => row.children[2].textContent); }})()"""


def test_a_path_and_a_query_are_written_for_each_sdk(desk):
    page = desk.open({"a": 1})
    rest, curl, *lines = page.run(LINES.format(keys='["a b", "$x\\"y"]', query="{}"))
    assert rest == f"http://127.0.0.1:{desk.server.port}/a%20b/%24x%22y.json?ns={desk.ns}" and curl.endswith(f"'{rest}'")
    assert lines == [
        r'''onValue(ref(database, "a b/$x\"y"), (snapshot) => console.log(snapshot.val()));''',
        r'''Database.database().reference(withPath: "a b/$x\"y").observe(.value) { print($0.value ?? "nil") }''',
        r'''Firebase.database.getReference("a b/\$x\"y").get().addOnSuccessListener { println(it.value) }''',
        r'''db.reference("a b/$x\"y").get()''']
    query = '{"orderBy": "age", "startAt": 5, "endBefore": "x", "limitToLast": 2}'
    assert page.run(LINES.format(keys='["u"]', query=query))[2:] == [
        'onValue(query(ref(database, "u"), orderByChild("age"), startAt(5), endBefore("x"), limitToLast(2)), (snapshot) => console.log(snapshot.val()));',
        'Database.database().reference(withPath: "u").queryOrdered(byChild: "age").queryStarting(atValue: 5).queryEnding(beforeValue: "x").queryLimited(toLast: 2).observe(.value) { print($0.value ?? "nil") }',
        'Firebase.database.getReference("u").orderByChild("age").startAt(5.0).endBefore("x").limitToLast(2).get().addOnSuccessListener { println(it.value) }',
        "(this SDK has no endBefore)"]
    assert page.run(LINES.format(keys="[]", query='{"orderBy": "$key", "equalTo": "a", "limitToFirst": 1}'))[2:] == [
        'onValue(query(ref(database, "/"), orderByKey(), equalTo("a"), limitToFirst(1)), (snapshot) => console.log(snapshot.val()));',
        'Database.database().reference(withPath: "/").queryOrderedByKey().queryEqual(toValue: "a").queryLimited(toFirst: 1).observe(.value) { print($0.value ?? "nil") }',
        'Firebase.database.getReference("/").orderByKey().equalTo("a").limitToFirst(1).get().addOnSuccessListener { println(it.value) }',
        'db.reference("/").order_by_key().equal_to("a").limit_to_first(1).get()']
    assert [line.count(word) for line, word in zip(page.run(LINES.format(keys='["u"]', query='{"orderBy": "$value", "equalTo": null}'))[3:], ["nil)", "null as String?", "None"])] == [1, 1, 1]


def test_a_draft_of_rules_outlives_a_reload(desk):
    page = desk.open(place="rules")
    page.wait(f"{EDITOR}.getValue().includes('rules')")
    published = page.run(f"{EDITOR}.getValue()")
    page.run(f"{EDITOR}.setValue('{{\"rules\": {{\"draft\": {{}}}}}}')")
    for _ in range(2):
        page.browser.reload()
        page.wait(f"{EDITOR}?.getValue().includes('draft')")
        page.wait("document.querySelector('.page .hint').textContent === 'not published: no errors'")
    page.run(f"{EDITOR}.setValue({json.dumps(published)})")
    page.browser.reload()
    page.wait("document.querySelector('.page .hint')?.textContent === 'as published'")
    assert page.run(f"{EDITOR}.getValue()") == published


def test_rules_are_checked_as_they_are_typed_and_published(desk):
    page = desk.open(place="rules")
    page.wait(f"{EDITOR}.getValue().includes('rules')")

    def write(text):
        page.run(f"{EDITOR}.setValue({json.dumps(text)})")

    bad = '{\n  "rules": {\n    ".read": "auth !== nul"\n  }\n}'
    write(bad)
    assert "Line 3" in page.wait("document.querySelector('.errors')?.textContent")
    assert page.wait("document.querySelector('.bad .CodeMirror-linenumber')?.textContent") == "3"
    page.run("document.querySelector('.errors button').click()")
    assert page.run("document.activeElement.tagName") == "TEXTAREA"
    good = bad.replace("nul", "null")
    write(good)
    page.wait("document.querySelector('.page .hint').textContent === 'not published: no errors'")
    page.run("document.querySelector('button.primary').click()")
    page.dialog("Publish the rules?")
    page.confirm()
    page.wait("document.querySelector('.page .hint').textContent === 'as published'")
    assert desk.rest.ask("GET", "/.settings/rules.json").body.decode() == good


def test_ctrl_s_in_the_rules_asks_once_to_publish_them(desk):
    page = desk.open(place="rules")
    page.wait(f"{EDITOR}.getValue().includes('rules')")
    # The browser would save the page.
    save = """(() => { const event = new KeyboardEvent('keydown', { key: 's', keyCode: 83, ctrlKey: true, bubbles: true, cancelable: true });
      document.activeElement.dispatchEvent(event); return event.defaultPrevented; })()"""
    page.run(f"{EDITOR}.focus()")
    assert page.run(save)
    page.run(f"{EDITOR}.setValue({json.dumps(DRAFT)})")
    # A key that is held down.
    page.run("""{ const { fetch } = window; window.ended = 0;
      window.fetch = (...given) => fetch(...given).finally(() => /rules.json/.test(given[0]) && setTimeout(() => (window.ended += 1))); }""")
    assert page.run(f"[{save}, {save}, {save}]") == [True, True, True]
    page.dialog("Publish the rules?")
    page.wait("window.ended >= 6", "each draft checked and compared")
    assert page.run("document.querySelectorAll('dialog').length") == 1
    page.confirm()
    page.wait("document.querySelector('.page .hint').textContent === 'as published'")
    assert desk.rest.ask("GET", "/.settings/rules.json").body.decode() == DRAFT


def press_button(page, label, scope="#main"):
    """Presses the first button that is shown with this label."""
    page.wait(f"""(() => {{ const found = [...document.querySelectorAll('{scope} button')].find((one) => one.offsetParent && !one.disabled &&
      (one.textContent === {json.dumps(label)} || one.getAttribute('aria-label') === {json.dumps(label)})); found?.click(); return !!found }})()""",
              f"a button {label}")


def press_write(page, place):
    """Chooses a write of the list, the newest being the first."""
    page.wait(f"document.querySelectorAll('ol.writes button').length > {place}")
    page.run(f"document.querySelectorAll('ol.writes button')[{place}].click()")


WRITERS = "[...document.querySelectorAll('ol.writes b')].map((one) => one.textContent).join()"


def test_the_past_of_a_path_is_shown_and_brought_back(desk):
    desk.rest.put("/doc", {"title": "first", "stars": 1})
    desk.next_moment()
    as_ann = Rest(desk.server.port, desk.ns, fields=[bearer(unsigned("ann"))])
    as_ann.put("/doc/title", "second")
    desk.next_moment()
    desk.rest.put("/elsewhere", 1)
    with Connection(desk.server.port, desk.ns) as other:
        other.must("m", {"p": "/", "d": {"doc/stars": 5, "doc/new": True}})
    then = desk.rest.get("/doc")
    page = desk.open(place="history", keys="/doc")
    assert page.wait(f"{WRITERS} === 'not signed in,uid ann,administrator'")
    assert page.run("document.querySelector('output').textContent") == "now"
    press_write(page, 1)
    page.wait("document.querySelector('pre.snippet').textContent.includes('second')")
    page.wait("document.querySelectorAll('.diff > div').length === 3")  # stars − and +, new +
    press_write(page, 2)
    page.wait("document.querySelector('pre.snippet').textContent.includes('first')")
    assert page.run("document.querySelector('.writes [aria-pressed=true] b').textContent") == "administrator"
    place = page.run("location.hash")
    # What is now changes while a moment of the past is shown.
    desk.rest.put("/doc/stars", 6)
    page.wait(f"{WRITERS}.startsWith('administrator,not signed in')")
    page.wait("[...document.querySelectorAll('.diff .added')].some((row) => row.textContent.endsWith('stars6'))")
    press_button(page, "Restore…")
    page.dialog("Restore /doc of ")
    page.wait("document.querySelectorAll('dialog .diff > div').length === 5")
    page.confirm()
    desk.wait_for("/doc", {"title": "first", "stars": 1})
    page.wait("document.querySelector('output').textContent === 'now'")
    # The address of a moment, and a conflict: what is shown as now is not there any more.
    page.run(f"location.hash = {json.dumps(place)}")
    page.wait("document.querySelector('output').textContent !== 'now'")
    desk.rest.put("/doc", then)
    page.wait("document.querySelectorAll('#main .diff > div').length === 5")
    press_button(page, "Restore…")
    page.dialog("Restore /doc of ")
    desk.rest.put("/doc", "another")
    page.run("document.querySelector('dialog button.primary').click()")
    page.dialog("There is another value")
    assert desk.rest.get("/doc") == "another"
    press_button(page, "Cancel", "dialog")
    page.wait("!document.querySelector('dialog')")
    # The slider, by its keys: to the earliest moment, and back.
    page.run("document.querySelector('input[type=range]').focus()")
    page.press("Home")
    page.wait("document.querySelector('output').textContent !== 'now'")
    page.press("End")
    page.wait("document.querySelector('output').textContent === 'now'")
    page.wait("document.querySelector('pre.snippet').textContent === '\"another\"'")


def test_the_history_is_read_again_seldom_where_that_takes_long(desk):
    """A reading may read the whole journal: with many writes it takes a tenth of the time at most."""
    desk.rest.put("/doc", 0)
    page = desk.open(place="history", keys="/doc")
    page.wait(f"{WRITERS} === 'administrator'")
    page.run("""{
        const original = window.fetch;
        window.reads = [];
        window.fetch = async (address, options) => {
            if (!String(address).includes("history.json")) return original(address, options);
            const began = performance.now();
            const response = await original(address, options);
            await new Promise((resolve) => setTimeout(resolve, 100));
            window.reads.push([began, performance.now()]);
            return response;
        };
    }""")
    number, deadline = 0, time.monotonic() + 120
    while page.run("window.reads.length") < 4:
        assert time.monotonic() < deadline
        number += 1
        desk.rest.put("/doc", number)
    reads = page.run("window.reads")
    for (began, ended), (following, _) in zip(reads, reads[1:]):
        assert following - ended > 9 * (ended - began)
    # What was written last is shown in the end.
    page.wait(f"document.querySelector('pre.snippet').textContent === '{number}'")


def test_the_latest_writes_name_who_wrote_them(desk):
    page = desk.open({"a": {"x": 1}, "b": 1})
    Rest(desk.server.port, desk.ns, fields=[bearer(unsigned("ann"))]).put("/a/x", 2)
    page.select("a")
    page.wait("document.querySelector('.details .writes')?.textContent.includes('uid ann/x')")
    page.select("b")
    page.wait("document.querySelector('.details .writes')?.textContent.includes('administrator')")
    assert "ann" not in page.run("document.querySelector('.details .writes').textContent")
    Rest(desk.server.port, desk.ns, fields=[bearer(unsigned("bob"))]).put("/b", 2)
    page.wait("document.querySelector('.details .writes')?.textContent.includes('uid bobthis node')")


def test_a_moment_names_its_writer_and_is_reached_by_steps(desk):
    desk.rest.put("/doc", 0)
    as_ann = Rest(desk.server.port, desk.ns, fields=[bearer(unsigned("ann"))])
    history = f"/.inspect/history.json?path=/doc&ns={desk.ns}"
    for number in range(1, 111):
        (as_ann if number == 5 else desk.rest).put("/doc", number)
        if number == 5:
            fifth = desk.rest.ask("GET", history).expect(200).json()["writes"][0]["time"]
            while time.time() * 1000 <= fifth + 1:
                pass  # the next write has another millisecond
    page = desk.open(place="history", keys="/doc")
    page.wait("document.querySelectorAll('ol.writes button').length === 100")
    titles = "[...document.querySelectorAll('#main h2')].map((one) => one.textContent).join()"
    assert page.run(titles).endswith("Writes,Now,Different now")
    assert page.run("document.querySelector('input[type=range]').value === document.querySelector('input[type=range]').max")
    # A moment before all writes that are listed: the list is of the writes up to it.
    page.open(desk.server.port, f"#/history/{desk.ns}/doc?at={fifth}")
    page.wait("document.querySelector('pre.snippet')?.textContent === '5'")
    assert page.run(titles).endswith("Writes,Then,Different now")
    assert "uid ann" in page.run("document.querySelector('p.writes').textContent")
    assert page.run("document.querySelector('ol.writes [aria-pressed=true] b').textContent") == "uid ann"
    # Before everything: as far as the journal reaches.
    press_button(page, "−1 d")
    page.wait(f"location.hash.includes('at=') && !location.hash.includes('at={fifth}')")
    page.wait("document.querySelector('input[type=range]').value === '0'")
    # A date and a time that are typed; in the future it is now.
    page.run("{ const field = document.querySelector('input[type=datetime-local]'); field.value = '2999-01-01T00:00:00'; field.dispatchEvent(new Event('change')); }")
    page.wait("document.querySelector('output').textContent === 'now' && document.querySelector('pre.snippet').textContent === '110'")
    # Restore and the differences are seen without scrolling.
    bottom = page.run("[...document.querySelectorAll('#main button')].find((one) => one.textContent === 'Restore…').getBoundingClientRect().bottom")
    assert bottom < 800


def test_a_step_back_before_the_history_was_read_does_nothing(desk):
    page = desk.open({"a": 1}, place="history", keys="/a")
    page.wait("document.querySelector('.snippet')?.textContent === '1'")
    # Another path: nothing is known of it at the moment when its title is shown.
    page.run("""new Promise((resolve) => {
      const title = document.querySelector('.page h2');
      new MutationObserver(() => {
        [...document.querySelectorAll('button')].find((one) => one.textContent === '−1 min').click();
        resolve();
      }).observe(title, { childList: true });
      location.hash = location.hash.replace('/a', '/b');
    })""")
    page.wait("document.querySelector('.snippet')?.textContent === 'Nothing was here.'")
    assert "NaN" not in page.run("location.hash")


@pytest.mark.parametrize("at", ["-1e999", "1e300", "-5", "x", "99999999999999"])
def test_an_address_with_no_moment_shows_what_is_now(desk, at):
    desk.rest.put("/a", 1)
    page = desk.open(place="history", keys=f"/a?at={at}")
    page.wait("document.querySelector('.snippet')?.textContent === '1'")


def test_a_value_that_is_cut_says_so(desk):
    desk.rest.put("/doc", {"text": "x" * 3000, **{f"k{number}": "y" * 100 for number in range(1000)}})
    page = desk.open(place="history", keys="/doc")
    page.wait("[...document.querySelectorAll('p.hint')].some((one) => one.textContent.startsWith('The first 100.0 kB of '))")
    desk.rest.put("/long", "z" * 5000)
    page.run(f"location.hash = '#/data/{desk.ns}'")
    value = [row["value"] for row in page.wait_row("long") if row["key"] == "long"][0]
    assert value.startswith('"zzz') and value.endswith("z…")


def test_a_server_without_a_log_says_so(scene, files):
    _, page = scene
    page.size(1280, 800)
    page.open(files.port, "#/history/default/a")
    page.wait("document.querySelector('.panel .problem').textContent.includes('keeps no journal')")
    assert page.complaints() == []


DRAFT = """{
  "rules": {
    "posts": {
      "$id": {
        ".read": true,
        ".write": "auth.uid === data.child('owner').val()",
        ".validate": "newData.hasChild('text')"
      }
    }
  }
}"""


def test_a_draft_of_rules_is_asked_and_its_cases_are_run(desk):
    desk.rest.put("/posts/p1", {"owner": "ann", "text": "hello"})
    page = desk.open(place="rules")
    page.wait(f"{EDITOR}.getValue().includes('rules')")
    page.run(f"{EDITOR}.setValue({json.dumps(DRAFT)})")

    def fill(**fields):
        for label, value in fields.items():
            page.run(f"""{{ const field = document.querySelector('[aria-label^="{label}"]'); field.value = {json.dumps(value)};
              field.dispatchEvent(new Event("change")); }}""")

    fill(User="user", Operation="write", Path="/posts/p1")
    page.run(f"document.querySelector('[aria-label=uid]').value = 'bob'; document.querySelector('textarea.code').value = '{{\"text\": \"x\"}}'")
    press_button(page, "Try")
    page.wait("document.querySelector('.panel [role=status]').textContent.startsWith('Denied: no rule on the way is true')")
    mark = page.wait("document.querySelector('.mark.decides')?.textContent")
    assert '.write at /posts/p1 is false and decides' in mark and 'auth.uid = "bob"' in mark
    page.size(390, 844, mobile=True)
    page.wait("document.querySelector('.mark.decides').getBoundingClientRect().right <= innerWidth", "no wider than a phone")
    page.size(1280, 800)
    press_button(page, "Keep as a case")
    page.wait("document.querySelectorAll('tbody tr').length === 1")
    fill(User="anonymous", Operation="read")
    page.run("document.querySelector('textarea.code').value = ''")
    press_button(page, "Keep as a case")
    page.wait("document.querySelectorAll('tbody tr').length === 2")
    rows = "[...document.querySelectorAll('tbody tr')].map((row) => [...row.children].slice(0, 4).map((cell) => cell.textContent).join(' '))"
    assert page.run(rows) == ["bob write /posts/p1 denied holds", "not signed in read /posts/p1 allowed holds"]
    # Another draft: a case does not hold, which the question before publishing says.
    page.run(f"{EDITOR}.setValue({json.dumps(DRAFT.replace('true', 'false'))})")
    page.wait(f"({rows})[0].trim() === 'bob write /posts/p1 denied'")
    page.wait("document.querySelector('.page .hint').textContent === 'not published: no errors'")
    press_button(page, "Publish")
    page.dialog("Publish the rules?")
    assert "1 of 2 cases do not hold" in page.run("document.querySelector('dialog').textContent")
    assert page.run(rows)[1] == "not signed in read /posts/p1 allowed is denied"
    page.press("Escape")
    page.wait("!document.querySelector('dialog')")
    # They are there after a reload of the page, and so is the draft.
    page.run("location.reload()")
    page.wait(f"document.querySelector('.CodeMirror') !== null && ({rows}).length === 2")
    press_button(page, "Run all")
    page.wait(f"({rows})[1].endsWith('allowed is denied')")
    assert desk.rest.ask("GET", "/.settings/rules.json").body.decode() == '{"rules":{".read":true,".write":true}}'


def test_at_most_500_cases_are_kept(desk):
    page = desk.open(place="rules")
    page.wait(f"{EDITOR}.getValue().includes('rules')")
    cases = [{"method": "read", "path": f"/{number}", "auth": None, "allowed": True} for number in range(499)]
    page.run(f"sessionStorage.setItem('pando-rule-cases {desk.ns}', {json.dumps(json.dumps(cases))}); location.reload()")
    page.wait("document.querySelectorAll('tbody tr').length === 499")
    page.wait(f"{EDITOR}.getValue().includes('rules')", "the rules that are asked")
    press_button(page, "Keep as a case")
    page.wait("document.querySelectorAll('tbody tr').length === 500")
    press_button(page, "Keep as a case")
    page.wait("document.querySelector('.toast.error')?.textContent === 'There are 500 cases already.'")
    assert page.run("document.querySelectorAll('tbody tr').length") == 500


def test_published_rules_are_compared_and_rolled_back(desk):
    for text in [DRAFT, DRAFT.replace("true", "false")]:
        desk.rest.ask("PUT", "/.settings/rules.json", text).expect(200)
    page = desk.open(place="rules")
    page.wait(f"{EDITOR}.getValue().includes('false')")
    press_button(page, "Versions")
    page.dialog("Published rules")
    assert page.run("[...document.querySelectorAll('dialog .diff .removed, dialog .diff .added')].map((row) => row.textContent)") == [
        '-        ".read": true,', '+        ".read": false,']
    assert page.run("[...document.querySelectorAll('dialog option')].map((one) => one.textContent.replace(/^.* by /, ''))") == ["administrator, the latest", "administrator"]
    page.confirm()
    page.wait("document.querySelector('.page .hint').textContent === 'not published: no errors'")
    press_button(page, "Publish")
    page.dialog("Publish the rules?")
    page.confirm()
    page.wait("document.querySelector('.page .hint').textContent === 'as published'")
    assert desk.rest.ask("GET", "/.settings/rules.json").body.decode() == DRAFT


def test_versions_beyond_the_first_are_loaded_when_asked_for(desk):
    """The server lists 20 versions at a time."""
    for number in range(45):
        desk.rest.ask("PUT", "/.settings/rules.json", json.dumps({"rules": {f"v{number}": {".read": True}}})).expect(200)
    page = desk.open(place="rules")
    page.wait(f"{EDITOR}.getValue().includes('v44')")
    press_button(page, "Versions")
    page.dialog("Published rules")
    counts = "[document.querySelectorAll('dialog option').length, document.querySelector('dialog select').value]"
    assert page.run(counts) == [20, "1"]
    for count in [40, 45]:
        press_button(page, "Earlier versions", "dialog")
        page.wait(f"document.querySelectorAll('dialog option').length === {count}")
        assert page.run(counts) == [count, "1"]  # what is compared stays
    page.wait("[...document.querySelectorAll('dialog button')].every((one) => one.textContent !== 'Earlier versions' || !one.offsetParent)", "no button at the end")
    page.run("{ const list = document.querySelector('dialog select'); list.value = 44; list.dispatchEvent(new Event('change')); }")
    assert '"v0"' in page.run("document.querySelector('dialog .diff .removed').textContent")
    page.confirm()
    page.wait(f"{EDITOR}.getValue().includes('\"v0\"')")


EXPRESSION = r"""auth != null && $id === 'it' && newData.child(\"a'b\").val().length < 1.5e2 && root.exists() || now > 0 && data.val().matches(/^a.b$/i)"""


def test_the_parts_of_a_rule_are_coloured_by_what_they_are(desk):
    page = desk.open(place="rules")
    page.wait(f"{EDITOR}.getValue().includes('rules')")
    text = '{"rules": {"a": {"$id": {".write": "' + EXPRESSION + '",\n".read":\n  "query.limitToFirst", ".indexOn": ["auth"]}}}}'
    page.run(f"{EDITOR}.setValue({json.dumps(text)})")
    tokens = page.run(f"""[0, 1, 2].flatMap((line) => {EDITOR}.getLineTokens(line)).filter((token) => token.type).map((token) => `${{token.type}} ${{token.string.trim()}}`)""")
    assert tokens == [
        "keyword \"rules\"", "string \"a\"", "variable-2 \"$id\"", "keyword \".write\"", "string \"",
        "builtin auth", "operator !=", "atom null", "operator &&", "variable-2 $id", "operator ===", "string 'it'", "operator &&",
        "builtin newData", "property .child", "string \\\"a'b\\\"", "property .val", "operator <", "number 1.5e2", "operator &&",
        "builtin root", "property .exists", "operator ||", "builtin now", "operator >", "number 0", "operator &&",
        "builtin data", "property .val", "property .matches", "string /^a.b$/i", "string \"", "keyword \".read\"",
        "string \"", "builtin query", "string \"", "keyword \".indexOn\"", "string \"auth\""]
    # Each kind has a colour of its own, which the editor's own style does not take away.
    colours = page.run("""Object.fromEntries(['string', 'number', 'atom', 'builtin', 'property', 'operator', 'variable-2'].map((name) =>
      [name, getComputedStyle(document.querySelector(`.CodeMirror .cm-${name}`)).color]))""")
    colours["text"] = page.run("getComputedStyle(document.querySelector('.CodeMirror')).color")
    assert len(set(colours.values())) == 8, colours


@pytest.mark.parametrize("text, path, order, expected", [
    ('{"rules":{".read":true}}', '["a"]', "x", '{"rules":{\n  "a": { ".indexOn": ["x"] },".read":true}}'),
    ('{"rules": {}}', "[]", "$value", '{"rules": {\n  ".indexOn": [".value"]\n}}'),
    ('{"rules": {\n  // "a": {}\n  "u": {"$k": {".indexOn": ["b",]}}}}', '["u", "1"]', "c/d", '{"rules": {\n  // "a": {}\n  "u": {"$k": {".indexOn": ["c/d", "b",]}}}}'),
    ('{"rules": {"u": {".indexOn": "b"}}}', '["u"]', "c", '{"rules": {"u": {".indexOn": ["b", "c"]}}}'),
    ('{"rules": {"u": {".indexOn": []}}}', '["u"]', "c", '{"rules": {"u": {".indexOn": ["c"]}}}'),
    ('{"rules": {"u": {".indexOn": ["c"]}}}', '["u"]', "c", '{"rules": {"u": {".indexOn": ["c"]}}}'),
])
def test_an_index_is_added_to_the_rules(scene, files, text, path, order, expected):
    server, page = scene
    page.open(server.port, path="/docs")
    found = page.run(f"import('/js/rules-index.js').then(({{ withIndex }}) => withIndex({json.dumps(text)}, {path}, {json.dumps(order)}))")
    assert found == expected
    Rest(files.port, "index", fields=[bearer("owner")]).ask("PUT", "/.settings/rules.json?dryRun=true", found).expect(200)


def test_a_slow_query_leads_to_its_index(desk):
    # The rules look at 4 MB: on any machine that takes more than a millisecond.
    desk.rest.put("/text", "x" * (4 << 20))
    desk.rest.put("/users", {"ann": {"age": 1}})
    desk.rest.put_rules({"rules": {".read": "root.child('text').val().matches(/^[^<>]*$/)", ".write": True}})
    with Connection(desk.server.port, desk.ns) as connection:
        connection.must("q", {"p": "/users", "q": {"i": "age", "l": 2, "vf": "l"}, "t": 1, "h": ""})
    operations = desk.rest.ask("GET", "/.inspect/operations.json").expect(200).json()["operations"]
    assert any((one["database"], one.get("order")) == (desk.ns, "age") for one in operations)
    page = desk.open(place="operations")
    page.wait("[...document.querySelectorAll('td')].some((cell) => cell.textContent.startsWith('no index: add \".indexOn\": [\"age\"]'))")
    page.run("navigator.clipboard.writeText = async (text) => { window.copied = text; };")
    press_button(page, "Copy the line")
    page.wait("[...document.querySelectorAll('.toast')].some((one) => one.textContent === 'Copied')")
    assert page.run("window.copied") == '".indexOn": ["age"]'
    press = "[...document.querySelectorAll('td a')].find((one) => one.textContent === 'Add to the draft').click()"
    page.run(press)
    page.wait(f"document.querySelector('.CodeMirror') && {EDITOR}.getValue().includes('\"users\": {{ \".indexOn\": [\"age\"] }}')")
    page.wait("document.querySelector('.page .hint').textContent === 'not published: no errors'")
    press_button(page, "Publish")
    page.dialog("Publish the rules?")
    assert page.run("document.querySelectorAll('dialog .diff .added').length") > 0
    page.confirm()
    page.wait("document.querySelector('.page .hint').textContent === 'as published'")
    assert ".indexOn" in desk.rest.ask("GET", "/.settings/rules.json").body.decode()


@pytest.mark.parametrize("line, words", [
    ('  ".', ["read", "write", "validate", "indexOn"]),
    ('  ".read": "au', ["auth"]),
    ('  ".read": "auth.', ["uid", "token", "provider"]),
    ('  ".write": "root.child(\'a\').ha', ["hasChild(", "hasChildren()"]),
    ('  ".write": "$i', ["$id"]),
    ('  ".write": "newData.val().to', ["toLowerCase()", "toUpperCase()"]),
    ('  ".write": "a" + ', []),
    ('  "child', []),
])
def test_rules_are_completed(scene, line, words):
    server, page = scene
    page.open(server.port, path="/docs")
    source = json.dumps('"$id": {' + line)
    assert page.run(f"import('/js/page-rules.js').then(({{ completions }}) => completions({json.dumps(line)}, {source}).words)") == words


def test_a_word_is_completed_by_its_key(desk):
    page = desk.open(place="rules")
    page.wait(f"{EDITOR}.getValue().includes('rules')")
    page.run(f"{{ const it = {EDITOR}; it.setValue('{{\"rules\": {{\\n\".read\": \"\"\\n}}}}'); it.focus(); it.setCursor(1, 10); }}")
    for key in "aut":
        page.press(key)
    page.wait("document.querySelector('.CodeMirror-hint')?.textContent === 'auth'")
    page.press("Enter")
    page.wait(f"{EDITOR}.getLine(1) === '\".read\": \"auth\"'")


def test_a_token_that_is_not_accepted_is_said_in_the_dialog(desk):
    page = desk.open({"a": 1})
    page.wait_row("a", "1")
    page.run("document.getElementById('actor').click()")
    page.dialog("Run as")
    page.run("{ const user = document.querySelector('dialog select'); user.value = 'token'; user.dispatchEvent(new Event('change')); }")
    page.run("document.querySelector('dialog input[type=password]').value = 'not.a.token'")
    page.run("document.querySelector('dialog button.primary').click()")
    page.wait("document.querySelector('dialog .problem').textContent")
    page.press("Escape")
    page.wait("!document.querySelector('dialog') && document.getElementById('state').className === 'state open'")
    assert page.run("document.getElementById('actor').textContent") == "administrator"


def test_the_tree_is_as_it_was_when_one_comes_back(desk):
    page = desk.open({"list": {f"k{number:03}": {"n": number} for number in range(200)}})
    page.select("list")
    page.press("ArrowRight")
    page.wait_row("k000")
    page.press("End")
    page.wait(f"({SELECTED}) === 'k199'")
    page.wait("document.querySelector('.details h2').textContent === 'k199'")
    before = page.rows()
    # The other pages are about what is selected.
    press_link = "[...document.querySelectorAll('.bar nav a')].find((one) => one.textContent === 'History')"
    assert page.run(f"{press_link}.hash") == f"#/history/{desk.ns}/list/k199"
    page.run(f"{press_link}.click()")
    page.wait("document.querySelector('pre.snippet')?.textContent.includes('199')")
    desk.rest.put("/list/k198/n", "while it was away")
    page.run("history.back()")
    page.wait(f"({SELECTED}) === 'k199'")
    page.wait_row("k198", 'n: "while it was away"')
    assert [row["key"] for row in page.rows()] == [row["key"] for row in before]


def test_a_query_is_run_when_it_is_asked_for(desk):
    """Not when the page is opened: its result may be the whole database."""
    page = desk.open({"users": {"a": {"age": 30}, "b": 7}}, place="query", keys="/users")
    page.wait("document.querySelector('form button.primary') !== null")
    assert "Run reads what the query selects." in page.text()
    press_button(page, "Run")
    page.wait("document.querySelectorAll('tbody tr td a').length === 2")
    assert page.run("[...document.querySelectorAll('#main th')].slice(0, 3).map((one) => one.textContent).join()") == "key,age,value"
    # The last query of a path is there again.
    page.run(f"location.hash = '#/data/{desk.ns}'")
    page.wait_row("users")
    page.run(f"location.hash = '#/query/{desk.ns}/users'")
    page.wait("document.querySelectorAll('tbody tr td a').length === 2")
    # A bound is a number where it looks like one.
    page.run("const order = document.querySelector('select[aria-label=\"Order by\"]'); order.value = 'child'; order.dispatchEvent(new Event('change', { bubbles: true }))")
    page.run("document.querySelector('input[aria-label=\"Child to order by\"]').value = 'age'")
    page.run("const bound = document.querySelector('select[aria-label=\"First bound\"]'); bound.value = 'startAt'; bound.dispatchEvent(new Event('change', { bubbles: true }))")
    page.run("{ document.querySelector('form .value-input').value = '30'; }")
    press_button(page, "Run")
    page.wait("[...document.querySelectorAll('tbody tr td a')].map((one) => one.textContent).join() === 'a'")
    page.open(desk.server.port, f"#/query/{desk.ns}/users?q=%7Bbad")
    page.wait("document.querySelector('form .problem')?.textContent === 'The address has no valid query.'")


def test_run_as_shows_what_the_rules_allow_and_why_not(desk):
    rules = {"rules": {"open": {".read": True}, "users": {"$uid": {".read": "auth.uid === $uid"}}, "staff": {".read": "auth.token.role === 'editor'"}}}
    desk.rest.put("/", {"open": {"a": 1, "b": {"c": 2}}, "users": {"ada": {"name": "Ada"}}, "staff": {"plan": "secret"}})
    desk.rest.ask("PUT", "/.settings/rules.json", json.dumps(rules)).expect(200)
    page = desk.open(keys="/open")
    page.wait_row("a", "1")

    def run_as(value, **fields):
        page.run("document.getElementById('actor').click()")
        page.dialog("Run as")
        page.run(f"{{ const user = document.querySelector('dialog select'); user.value = '{value}'; user.dispatchEvent(new Event('change')); }}")
        for label, text in fields.items():
            page.run(f"document.querySelector('dialog input[aria-label^={label}]').value = {json.dumps(text)}")
        page.confirm()

    run_as("anonymous")
    page.wait("document.getElementById('actor').textContent.includes('anonymous')")
    page.wait_row("a", "1")
    page.wait_rows(lambda rows: any(row["key"] == "b" and row["kind"] == "object" for row in rows), "b as an object")
    page.run(f"location.hash = '#/data/{desk.ns}/users/ada'")
    page.wait("document.querySelector('.notice .problem')?.textContent.includes('may not read /users/ada')")
    page.run("document.querySelector('.notice button').click()")
    page.dialog("was denied")
    denial = page.run("document.querySelector('.denial').textContent")
    assert "/users/$uid" in denial and "auth.uid" in denial and "null" in denial
    page.press("Escape")
    page.wait("!document.querySelector('dialog')")
    run_as("user", uid="ada")
    page.wait_row("name", '"Ada"')
    # Claims, as text or in a token.
    page.run(f"location.hash = '#/data/{desk.ns}/staff'")
    page.wait("document.querySelector('.notice .problem')?.textContent.includes('ada may not read /staff')")
    run_as("user", uid="ada", Claims='{"role": "editor"}')
    page.wait_row("plan", '"secret"')
    run_as("token", Token=unsigned("eve", role="reader"))
    page.wait("document.getElementById('actor').textContent === 'as a token' && document.querySelector('.notice .problem')?.textContent.includes('may not read /staff')")
    run_as("token", Token=unsigned("eve", role="editor"))
    page.wait_row("plan", '"secret"')


def act_as(page, uid):
    page.run(f"""import('/js/session.js').then(({{ session }}) => {{
        session.actor = {{ kind: "user", auth: {{ uid: {json.dumps(uid)} }} }};
        session.open();
    }})""")
    page.wait(f"document.getElementById('actor').textContent === 'as {uid}' && document.getElementById('state').className === 'state open'")


def test_why_explains_the_denial_of_its_own_path(desk):
    """Another denial of the same user came later; and one that the server has not kept is asked again."""
    rules = {"rules": {"users": {"$uid": {".read": "auth.uid === $uid"}}, "other": {".read": "auth.uid === 'bob'"}}}
    desk.rest.put("/", {"users": {"bob": 1}, "other": 2})
    desk.rest.ask("PUT", "/.settings/rules.json", json.dumps(rules)).expect(200)
    page = desk.open(keys="/users/bob")
    page.wait("document.querySelector('.value-box')?.textContent === '1'")
    act_as(page, "ada")
    page.wait("document.querySelector('.notice .problem')?.textContent.includes('ada may not read /users/bob')")
    Rest(desk.server.port, desk.ns, fields=[bearer(unsigned("ada"))]).ask("GET", "/other.json").expect(401)
    page.run("document.querySelector('.notice button').click()")
    page.dialog("Why read of /users/bob was denied")
    assert "no rule on the way is true" in page.text()
    assert [link.startswith(f"#/rules/{desk.ns}?line=1&column=") for link in page.run("[...document.querySelectorAll('dialog a')].map((one) => one.hash)")] == [True]
    assert page.run("[...document.querySelectorAll('dialog footer button')].map((one) => one.textContent).join()") == "Close"
    page.press("Escape")
    page.wait("!document.querySelector('dialog')")
    # A write that was denied, and that the server's list does not have.
    page.run(f"""import('/js/denials.js').then(({{ explain }}) => explain({{ code: "permission_denied", message: "Denied" }}, "Set",
      {{ method: "write", path: "/other", value: 1 }}))""")
    page.wait("document.querySelector('.toast button.link') !== null")
    page.run("document.querySelector('.toast button.link').click()")
    page.dialog("Why write of /other was denied")


def test_a_user_deletes_what_the_server_does_not_count(desk):
    """Only administrators get the number of nodes: for other users the console reads the value, up to a size."""
    desk.rest.ask("PUT", "/.settings/rules.json", '{"rules": {".read": true, ".write": true}}').expect(200)
    data = {"x": 1, "y": {"z": 2}}
    page = desk.open({"a": data, "large": "x" * (5 << 20)})
    page.run(f"""import('/js/session.js').then(({{ session }}) => {{
        session.actor = {{ kind: "token", token: {json.dumps(unsigned("ann"))} }};
        session.open();
    }})""")

    def remove(key, words):
        page.run(f"import('/js/edit.js').then((edit) => void edit.remove({{ path: '/{key}', key: '{key}', keys: ['{key}'] }}))")
        page.dialog(f"Delete /{key}?")
        assert words in page.text()

    remove("large", "many nodes will be removed")
    page.press("Escape")
    page.wait("!document.querySelector('dialog')")
    remove("a", "4 nodes will be removed")
    page.confirm()
    desk.wait_for("/a", None)
    page.undo("Delete /a")
    desk.wait_for("/a", data)


def test_a_query_is_live_and_names_the_missing_index(desk):
    desk.rest.ask("PUT", "/.settings/rules.json", '{"rules": {".read": true, ".write": true}}').expect(200)
    page = desk.open({"users": {"a": {"age": 30}, "b": {"age": 20}, "c": {"age": 40}}}, place="query", keys="/users")
    press_button(page, "Run")
    page.wait("document.querySelectorAll('tbody tr td a').length === 3")
    page.run("const order = document.querySelector('select[aria-label=\"Order by\"]'); order.value = 'child'; order.dispatchEvent(new Event('change'))")
    page.run("document.querySelector('input[aria-label=\"Child to order by\"]').value = 'age'; document.querySelector('input[aria-label=\"Limit\"]').value = 2")
    page.run("document.querySelector('form button.primary').click()")
    keys = "[...document.querySelectorAll('tbody tr td a')].map((link) => link.textContent).join()"
    page.wait(f"({keys}) === 'b,a'")
    assert '".indexOn": ["age"]' in page.wait("document.querySelector('.banner')?.textContent")
    desk.rest.put("/users/d", {"age": 1})
    page.wait(f"({keys}) === 'd,b'")
    assert 'orderByChild("age"), limitToFirst(2)' in page.text()


def test_operations_are_counted_and_denials_explained(desk):
    """The operations page."""
    desk.rest.ask("PUT", "/.settings/rules.json", '{"rules": {"a": {".read": "auth != null"}}}').expect(200)
    page = desk.open(place="operations")
    page.wait("document.querySelector('.page .hint')?.textContent === 'live'")
    desk.rest.put("/counted", 1)
    Rest(desk.server.port, desk.ns).ask("GET", "/a.json").expect(401)
    page.wait("[...document.querySelectorAll('td a')].some((link) => link.textContent === '/counted')")
    # Other tests' slow queries, of other namespaces, have buttons, too.
    whys = "[...document.querySelectorAll('td button')].filter((one) => one.textContent === 'Why?')"
    page.wait(f"{whys}.length")
    # A row that stays keeps the focus when another one comes.
    page.run(f"{whys}[0].focus()")
    Rest(desk.server.port, desk.ns).ask("GET", "/b.json").expect(401)
    page.wait(f"{whys}.length === 2")
    assert "/a" in page.run("document.activeElement.closest('tr').textContent")
    page.run("document.activeElement.click()")
    page.dialog("Why read of /a was denied")
    assert "auth" in page.run("document.querySelector('.denial').textContent")
    page.press("Escape")
    page.wait("!document.querySelector('dialog')")
    # Of the server: its connections, its log, and meters that move.
    page.wait("[...document.querySelectorAll('td')].some((cell) => cell.textContent === 'websocket')")
    page.wait("[...document.querySelectorAll('.log li')].some((line) => line.textContent.includes('--dev'))")
    meter = "[...document.querySelectorAll('.meter')].find((one) => one.textContent.startsWith('{}'))"
    page.wait(f"{meter.format('Memory')}.querySelector('b').textContent.endsWith(' MB')")
    page.wait(f"({meter.format('Requests/s')}.querySelector('path').getAttribute('d') ?? '').split('L').length >= 3", "two seconds of a plot")
    with Connection(desk.server.port, desk.ns) as listener:
        listener.must("auth", {"cred": "owner"})
        listener.must("q", {"p": "/counted"})
        number, deadline = 1, time.monotonic() + 30
        while page.run(f"{meter.format('Fan-out/s')}.querySelector('b').textContent") in ("0", ""):
            assert time.monotonic() < deadline
            desk.rest.put("/counted", number := number + 1)
            time.sleep(0.05)
    page.wait("document.querySelector('.page .hint').textContent === 'live'")
    # A listener that does not read what it gets.
    with Wire(desk.server.port) as slow:
        slow.send(slow.head("GET", f"/counted.json?ns={desk.ns}", [("Accept", "text/event-stream"), bearer("owner")]))
        for number in range(24):  # more than the kernel takes
            desk.rest.put("/counted", str(number) + "x" * (1 << 20))
        page.wait("[...document.querySelectorAll('tr')].some(({ cells }) => cells[3]?.textContent === '/counted' && / [kM]B$/.test(cells[4].textContent))", "a slow listener")


def test_without_dev_nothing_is_shown_before_signing_in(servers, scene, tmp_path):
    _, page = scene
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    server = servers(dev=False, arguments=["--auth-secret-file", secret, "--allow-secret-as-admin"])
    Rest(server.port, "default", fields=[bearer(SECRET)]).put("/private", "confidential")
    page.size(1280, 800)
    page.open(server.port)
    page.wait("document.querySelector('input[type=password]')?.type === 'password'")
    assert "confidential" not in page.text() and page.rows() == []
    page.type("wrong")
    page.press("Enter")
    assert "Not signed in" in page.wait("document.querySelector('.problem').textContent")
    assert page.rows() == []
    page.run("document.querySelector('input[type=password]').value = ''")
    page.type(SECRET)
    page.press("Enter")
    page.wait_row("private", '"confidential"')
    assert SECRET not in page.run("location.href + JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.cookie")
    assert SECRET not in page.text() + server.stderr()
    page.open(server.port)
    page.wait("document.querySelector('input[type=password]')?.type === 'password'")
    assert page.rows() == []


def test_a_user_sees_and_edits_what_the_rules_allow(servers, scene, tmp_path):
    """Without administrator's rights there is no stream of operations: the console looks again by itself."""
    _, page = scene
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    server = servers(dev=False, arguments=["--auth-secret-file", secret, "--allow-secret-as-admin"])
    owner = Rest(server.port, "default", fields=[bearer(SECRET)])
    owner.put("/", {"users": {"ann": {"name": "Ann", "posts": {f"p{number:03}": number for number in range(300)}}, "bob": {"name": "Bob"}}})
    owner.ask("PUT", "/.settings/rules.json", json.dumps({"rules": {"users": {"$uid": {
        ".read": "auth.uid === $uid", "name": {".write": "auth.uid === $uid && newData.isString()"}}}}})).expect(200)
    now = int(time.time())
    page.size(1280, 800)
    page.open(server.port, "#/data/default/users/ann")
    page.wait("document.querySelector('input[type=password]')?.type === 'password'")
    page.type(hs256(bytes.fromhex(SECRET), {"sub": "ann", "iat": now, "exp": now + 600}))
    page.press("Enter")
    page.wait_row("name", '"Ann"')
    assert page.run("[...document.querySelectorAll('.bar nav a')].map((link) => link.textContent)") == ["Data", "Query", "Docs"]
    assert "Only administrators" in page.run("document.querySelector('.details .writes').textContent")
    owner.put("/users/ann/name", "Anna")
    page.wait_row("name", '"Anna"')
    # A long level is paged, and its end is one key away.
    page.select("posts")
    page.press("ArrowRight")
    page.press("End")
    page.wait_row("p299", "299")
    page.press("Home")
    page.select("name")
    page.press("Enter")
    page.wait("document.activeElement.className === 'value-input'")
    page.run("document.activeElement.select()")
    page.type("Annie")
    page.press("Enter")
    page.wait_row("name", '"Annie"')
    assert owner.get("/users/ann/name") == "Annie"
    # What the rules refuse is not written, and not shown.
    page.select("p000")
    page.press("Enter")
    page.wait("document.activeElement.className === 'value-input'")
    page.type("7")
    page.press("Enter")
    page.wait("document.querySelector('.toast.error')?.textContent.includes('Set /users/ann/posts/p000')")
    assert owner.get("/users/ann/posts/p000") == 0
    page.run("location.hash = '#/data/default/users/bob'")
    page.wait("document.querySelector('.notice .problem')?.textContent.includes('ann may not read /users/bob')")
    assert "Bob" not in page.text()
    assert page.complaints() == []


def stored(page, token):
    """Each page that is opened meanwhile finds a token that was kept in the tab."""
    return before_each_page(page, f"if (location.protocol === 'http:') sessionStorage.setItem('pando-credential', {json.dumps(token)});")


def test_under_dev_a_user_gets_no_pages_for_administrators(scene, desk):
    """There the server tells everybody the names of the databases."""
    server, page = scene
    with stored(page, unsigned("ann")):
        desk.open({"n": 1})
        page.wait_row("n", "1")
    page.run("sessionStorage.clear()")
    assert page.run("document.getElementById('actor').textContent") == "ann"
    assert page.run("[...document.querySelectorAll('.bar nav a')].map((link) => link.textContent)") == ["Data", "Query", "Docs"]


def test_a_stored_token_that_is_refused_is_named(scene, desk):
    """Under --dev the console then opens as the owner, and a message says that the token was refused."""
    server, page = scene
    with stored(page, "garbage"):
        desk.open({"n": 1})
        page.wait_row("n", "1")
    words = page.wait("document.querySelector('.toast.error span')?.textContent", "a message")
    assert words.startswith("The token of this tab was refused (") and words.endswith("you are signed in as an administrator of --dev."), words
    assert page.run("sessionStorage.length") == 0
    desk.open({"n": 1})
    page.wait_row("n", "1")
    assert page.run("document.querySelector('.toast')") is None


def test_the_keyboard_reaches_everything_and_controls_have_names(desk):
    page = desk.open({"a": {"b": 1}, "c": 2})
    page.wait_row("c", "2")
    page.run("document.querySelector('.skip').focus()")
    seen = ["Skip to the content"]
    for _ in range(40):
        page.press("Tab")
        name = page.run("(() => { const it = document.activeElement; return it === document.body ? '' : it.getAttribute('aria-label') || it.textContent || it.id; })()")
        if not name or name in seen[:1]:
            break
        seen.append(name.strip())
    for part in ["Skip to the content", "Database", "Data", "Query", "Rules", "Operations", "Find a child by its key or value", "Add", "Data"]:
        assert any(part in name for name in seen), (part, seen)
    unnamed = """[...document.querySelectorAll('button, input, select, textarea, a, [role=tree], [role=treeitem]')].filter((it) => it.offsetParent &&
      !(it.getAttribute('aria-label') || it.textContent.trim() || it.title || it.labels?.length)).map((it) => it.outerHTML.slice(0, 120))"""
    assert page.run(unnamed) == []
    page.focus_tree()
    page.press("Home")
    active = "document.getElementById(document.querySelector('.tree').getAttribute('aria-activedescendant'))"
    page.press("ArrowDown")
    page.wait(f"{active}.getAttribute('aria-label') === 'a: 1 child'")
    assert page.run(f"[{active}.getAttribute('aria-level'), {active}.getAttribute('aria-expanded'), {active}.getAttribute('aria-setsize')]") == ["2", "false", "2"]
    page.press("Enter")
    page.wait(f"{active}.getAttribute('aria-expanded') === 'true'")


def test_a_page_that_was_not_opened_yet_is_shown_while_the_server_is_gone(servers, scene):
    _, page = scene
    server = servers()
    with through_proxy(server, page) as proxy:
        page.wait("performance.getEntriesByType('resource').some((one) => one.name.endsWith('/data/rules-mode.txt'))", "the other pages loaded")
        server.kill()
        proxy.cut_all()
        page.wait("!document.getElementById('state').className.includes('open')")
        page.wait("document.querySelector('.notice .problem')?.textContent.includes('does not answer')")
        page.run("location.hash = '#/history/default'")
        page.wait("document.querySelector('.panel .problem')?.textContent.includes('does not answer')")
        # What is made now has its icons: they are in the page.
        page.run("document.getElementById('actor').click()")
        page.dialog("Run as")
        page.wait("document.querySelector('dialog header use').getBBox().width > 0", "the icon that closes the dialog")
        page.press("Escape")
        # On a phone too the state is in words, in the line of the other things.
        page.size(390, 844, mobile=True)
        page.wait("parseFloat(getComputedStyle(document.getElementById('state')).fontSize) > 10")
        page.wait("document.querySelector('.bar').getBoundingClientRect().height < 100", "one line above the pages' names")
        page.size(1280, 800)
        start_again(server, proxy, page)
        page.run("location.hash = '#/data/default'")
        page.wait_row("n", "1")
        page.wait("!document.querySelector('.notice .problem')")
        assert page.complaints() == []


def test_a_page_that_could_not_be_loaded_is_shown_when_the_server_is_back(servers, scene):
    _, page = scene
    server = servers()
    # The other pages are not loaded ahead.
    with before_each_page(page, "const later = setTimeout; window.setTimeout = (run, time) => (time === 2000 ? 0 : later(run, time));"), through_proxy(server, page) as proxy:
        server.kill()
        proxy.cut_all()
        page.wait("!document.getElementById('state').className.includes('open')")
        page.run("location.hash = '#/query/default/n'")
        page.wait("[...document.querySelectorAll('.toast.error')].some((one) => one.textContent === 'The page is loaded when the server is back.')")
        start_again(server, proxy, page)
        page.wait("document.querySelector('.query-form') !== null && document.title.startsWith('Query')", "the page of queries")
        assert page.run("document.querySelector('[aria-label=Path]').value") == "/n"


# The first WebSocket of a page is closed at once.
CLOSE_FIRST_SOCKET = """const Own = WebSocket; let count = 0;
window.WebSocket = class extends Own { constructor(...parts) { super(...parts); if (count++ === 0) this.close(); } };"""


def test_a_user_becomes_no_administrator_by_a_lost_connection(servers, scene, tmp_path):
    """Under --dev a tab without a credential is the administrator's; one that keeps a user's token stays the user's."""
    _, page = scene
    server = servers()
    Rest(server.port, "default", fields=[bearer("owner")]).put("/private", "confidential")
    page.open(server.port, path="/favicon.svg")
    page.wait("location.pathname === '/favicon.svg'")
    page.run(f"sessionStorage.setItem('pando-credential', {json.dumps(unsigned('ann'))})")
    with before_each_page(page, CLOSE_FIRST_SOCKET):
        page.open(server.port)
        page.wait("document.querySelector('.problem, .actor') !== null")
        assert page.run("document.querySelector('.gate .problem')?.textContent") == "The server does not answer."
        assert "confidential" not in page.text()
    page.run("sessionStorage.clear()")


def test_the_phone_by_use(desk):
    """Rows are large enough for a finger; one is opened, selected and edited."""
    page = desk.open({"list": {"a": 1}})
    page.browser.call("Emulation.setTouchEmulationEnabled", enabled=True)
    try:
        page.size(390, 844, mobile=True)
        page.open(desk.server.port, f"#/data/{desk.ns}")
        page.wait_row("list")

        def tap(selector):
            x, y, height = page.run(f"(() => {{ const it = [...document.querySelectorAll({json.dumps(selector)})].at(-1).getBoundingClientRect(); return [it.x + it.width / 2, it.y + it.height / 2, it.height]; }})()")
            for kind, points in [("touchStart", [{"x": x, "y": y}]), ("touchEnd", [])]:
                page.browser.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)
            return height

        page.wait("document.querySelectorAll('.row.object:not([hidden]) .twisty').length === 2")
        assert tap(".row.object:not([hidden]) .twisty") >= 40
        page.wait_row("a", "1")
        page.wait("document.querySelectorAll('.row.number:not([hidden])').length === 1")
        assert tap(".row.number:not([hidden]) .key") > 0
        page.wait(f"({SELECTED}) === 'a'")
        tap(".row[aria-selected=true] [data-action=more]")
        page.wait("document.activeElement.getAttribute('role') === 'menuitem'")
        page.press("Enter")
        page.wait("document.activeElement.className === 'value-input'")
        page.run("document.activeElement.select()")
        page.type("2")
        page.press("Enter")
        desk.wait_for("/list/a", 2)
        # The details leave their place to the tree, but for the name and the actions, until they are asked for.
        height = "document.querySelector('.details').clientHeight"
        shown = page.run(height)
        tap(".fold")
        page.wait(f"{height} < 60 && {height} < {shown} / 2", "the details folded")
        assert page.run("document.querySelector('.fold').ariaExpanded") == "false"
        tap(".row.object:not([hidden]) .key")
        page.wait("document.querySelector('.details h2').textContent === 'list'")
        assert page.run(height) < 60
        tap(".fold")
        page.wait(f"{height} > 60 && document.querySelector('.fold').ariaExpanded === 'true'", "the details again")
    finally:
        page.browser.call("Emulation.setTouchEmulationEnabled", enabled=False)
        page.size(1280, 800)


@pytest.mark.parametrize("place", ["data", "query", "history", "rules", "operations"])
def test_no_page_is_wider_than_a_phone(desk, place):
    page = desk.open({"a" * 60: {"b": "c" * 300}, "long": "x y " * 200}, place=place)
    page.size(390, 844, mobile=True)
    page.wait("document.querySelector('#main > *')?.className")
    page.wait("document.documentElement.scrollWidth <= 390 && innerWidth <= 390", "as narrow as the phone")
    page.size(1280, 800)


def test_every_document_is_rendered_and_html_in_one_is_text(scene):
    server, page = scene
    page.size(1280, 800)
    page.open(server.port, path="/docs")
    for file in sorted((PUBLIC / "docs").rglob("*.md")):
        name = file.relative_to(PUBLIC / "docs")
        page.run(f"location.hash = '#/{name}'")
        title = re.search(r"^# (.+)$", file.read_text(), re.M).group(1).replace("`", "")
        page.wait(f"document.querySelector('article h1')?.textContent === {json.dumps(title)}", f"{name} as a page")
        dead = page.run("[...document.querySelectorAll('article a')].map((link) => link.getAttribute('href')).filter((link) => !/^(#\\/|https?:|\\/docs\\/)/.test(link))")
        assert dead == []
    shown = page.run("""(async () => { const { render } = await import('/js/markdown.js');
      const box = document.createElement('div');
      box.append(...render('<script>x</script> [a](javascript:x) ![i](data:x) `<b>`\\n\\n| a | b |\\n|---|---|\\n| 1 | `c\\\\|d` |', (to) => /^https?:/.test(to) ? to : null));
      return [box.textContent, box.querySelectorAll('script, img, b, a[href^=java]').length, box.querySelectorAll('td').length]; })()""")
    assert "<script>x</script>" in shown[0] and shown[1:] == [0, 2]
    assert page.complaints() == []


def test_two_files_are_a_client_of_their_own(servers, scene, tmp_path):
    """Others may copy realtime.js with json.js: no other file is there."""
    _, page = scene
    site = tmp_path / "site"
    site.mkdir()
    for name in ["realtime.js", "json.js"]:
        (site / name).write_bytes((PUBLIC / "js" / name).read_bytes())
    (site / "index.html").write_text("<!doctype html><title>A page of others</title>")
    server = servers(arguments=["--public", site], memory=True)
    page.open(server.port)
    found = page.run("""(async () => {
      const { Database, DatabaseError } = await import('/realtime.js');
      const database = await new Promise((resolve) => {
        const made = new Database({ url: location.origin.replace('http', 'ws'), namespace: 'default', credential: 'owner', onState: (state) => state === 'open' && resolve(made) });
      });
      const seen = [];
      const isSeen = new Promise((resolve) => database.listen('/a', null, (value) => { seen.push(JSON.stringify(value)); if (seen.length === 3) resolve(); }));
      await database.set('/a', { b: 1 });
      await database.update('/', { 'a/c': 2 });
      await isSeen;
      const refusal = await database.set('/a', 3, 'another hash').catch((error) => [error instanceof DatabaseError, error.code]);
      database.close();
      return [seen, refusal];
    })()""")
    assert found == [["null", '{"b":1}', '{"b":1,"c":2}'], [True, "datastale"]]
    assert Rest(server.port, "default", fields=[bearer("owner")]).get("/a") == {"b": 1, "c": 2}
    assert page.complaints() == []


def test_a_listen_first_gives_the_whole_also_while_another_gets_a_part(scene):
    """A write to what an inner listen follows, sent just before the outer listen, is pushed before the outer one's value."""
    server, page = scene
    ns = f"console-{next(numbers)}"
    Rest(server.port, ns, fields=[bearer("owner")]).put("/", {"a": {"b": 1, "c": 2}})
    page.open(server.port, path="/favicon.svg")
    found = page.run("""(async () => {
      const { Database } = await import('/js/realtime.js');
      const database = await new Promise((resolve) => {
        const made = new Database({ url: location.origin.replace('http', 'ws'), namespace: '%s', credential: 'owner', onState: (state) => state === 'open' && resolve(made) });
      });
      const seen = (path, count, whileWaiting) => new Promise((resolve) => {
        const values = [];
        database.listen(path, null, (value) => { values.push(JSON.stringify(value)); if (values.length === count) resolve(values); });
        whileWaiting?.();
      });
      const inner = seen('/a/b', 2);
      database.set('/a/b', 10);
      const outer = await seen('/a', 2, () => database.set('/a/b', 20));
      // The same after a connection that was lost: nothing is a mix of what was and what is.
      const again = new Promise((resolve) => {
        const values = [];
        for (const listen of database.listens.values()) if (listen.path === '/a') listen.onValue = (value) => { values.push(JSON.stringify(value)); if (value.c === 4) resolve(values); };
      });
      database.drop();
      clearTimeout(database.retry);
      await fetch('/.json?ns=%s', { method: 'PUT', body: '{"a": {"b": 3, "c": 4}}', headers: { Authorization: 'Bearer owner' } });
      database.connect();
      const values = [await inner, outer, await again];
      database.close();
      return values;
    })()""" % (ns, ns))
    inner, outer, again = found
    assert inner[:1] == ["1"] and outer == ['{"b":10,"c":2}', '{"b":20,"c":2}'] and again == ['{"b":3,"c":4}']


def test_the_client_module_hashes_and_orders_as_the_model_does(scene):
    server, page = scene
    page.open(server.port)
    page.wait("document.querySelector('.tree') !== null")
    seed = int(os.environ.get("PANDO_CONSOLE_SEED", "1"))
    dice = random.Random(seed)

    def value(depth):
        kind = dice.randrange(6 if depth else 5)
        leaf = dice.choice([dice.choice(STRINGS), dice.choice(NUMBERS), dice.random(), True, False])
        if kind == 4:
            return {".value": leaf, ".priority": dice.choice([1, 2.5, "a", "b", 10])}
        if kind < 5:
            return leaf
        return {dice.choice(KEYS): value(depth - 1) for _ in range(dice.randrange(1, 6))} | ({".priority": dice.choice([3, "p"])} if dice.random() < 0.2 else {})

    values = [value(4) for _ in range(300)]
    script = f"""(async () => {{ const {{ hash }} = await import('/js/keys.js'); const {{ parse }} = await import('/js/json.js');
      return parse({json.dumps(json.dumps(values))}).map(hash); }})()"""
    for given, found in zip(values, page.run(script)):
        assert found == tree.simple_hash(tree.parse(given)), f"seed {seed}: {given}"
    keys = [key for key in KEYS if key not in ("01", "001")]
    dice.shuffle(keys)
    found = page.run(f"(async () => {{ const {{ compareKeys }} = await import('/js/keys.js'); return {json.dumps(keys)}.sort(compareKeys); }})()")
    assert found == sorted(keys, key=tree.key_order)
    ids = page.run("(async () => { const { pushID } = await import('/js/keys.js'); return Array.from({ length: 500 }, (_, place) => pushID(1700000000000 + (place >> 3))); })()")
    assert len(set(ids)) == 500 and ids == sorted(ids) and {len(one) for one in ids} == {20}


def test_a_thousand_changes_a_second_are_written_once_in_a_frame(desk):
    page = desk.open({f"v{number:02}": 0 for number in range(40)})
    page.wait_row("v00", "0")
    page.run("""window.frames_ = []; window.writes_ = 0; let last = performance.now();
      new MutationObserver((list) => (writes_ += list.length)).observe(document.querySelector('.spacer'), { subtree: true, childList: true, characterData: true });
      const tick = (now) => { frames_.push(now - last); last = now; requestAnimationFrame(tick); }; requestAnimationFrame(tick);""")
    total, rate = 2000, 1000

    def write():
        with Connection(desk.server.port, desk.ns) as writer:
            began = time.monotonic()
            for number in range(total):
                writer.must("p", {"p": f"/v{number % 40:02}", "d": number})
                time.sleep(max(0, began + number / rate - time.monotonic()))

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    thread.join(60)
    page.wait_row("v20", str(total - 20))
    frames = page.run("frames_")
    writes = page.run("writes_")
    frames.sort()
    print(f"{len(frames)} frames, p50 {frames[len(frames) // 2]:.1f} ms, p95 {frames[int(len(frames) * 0.95)]:.1f} ms, {writes} changes of the page for {total} of the data")

"""Access to a --dev server: programs of this machine, its pages, and pages of --allow-origin."""

import json

import pytest

import server as server_module
from pando_client import Connection
from rest_client import OWNER, Rest, Wire
from test_cli import BAD_CONFIGURATION, fails_to_start

UPGRADE = [
    ("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
]
HERE = "127.0.0.1:9000"


def page(origin):
    return [("Origin", origin)]


def script(site, address=None):
    """What a browser sends for `<script src=…>`, which has no Origin."""
    return [("Sec-Fetch-Site", site)] + ([("Referer", address)] if address else [])


SERVED = [
    # host                     fields                                           because
    (HERE, [], "a program: SDKs in Node and on phones send no Origin"),
    ("localhost", [], "without a port"),
    ("LocalHost:9000", [], "names have no case"),
    ("localhost.:9000", [], "the root's dot"),
    ("[::1]:9000", [], "IPv6"),
    ("127.8.9.1", [], "all of 127/8"),
    ("demo.localhost:9000", [], "names below localhost are loopback (RFC 6761)"),
    ("10.0.2.2:9000", [], "what Android's emulator calls the machine it runs on"),
    ("10.0.2.2:9000", page("http://10.0.2.2:9000"), "React Native makes an origin of what it connects to"),
    (HERE, page("http://localhost:3000"), "another port"),
    (HERE, page("https://127.0.0.1"), "another scheme"),
    (HERE, page("http://[::1]:3000"), "IPv6"),
    (HERE, page("http://app.localhost"), "a name below localhost"),
    (HERE, page("capacitor://localhost"), "an app's web view"),
    (HERE, script("same-origin"), "a page of the server's own"),
    (HERE, script("none"), "typed into the address bar"),
    (HERE, script("cross-site", "http://localhost:3000/x?y"), "localhost and 127.0.0.1 are two sites"),
    (HERE, [("Referer", "http://localhost:3000/")], "an old browser"),
]
REFUSED = [
    ("rebound.example.org", [], "DNS rebinding"),
    ("rebound.example.org:9000", page("http://rebound.example.org:9000"), "which looks same-origin"),
    ("127.0.0.1.example.org", [], "begins like an address"),
    ("localhost.example.org", [], "begins like a name"),
    ("notlocalhost", [], "ends like a name"),
    ("128.0.0.1", [], "not 127/8"),
    ("0.0.0.0:9000", [], "leads here on many systems, and pages can use it"),
    ("10.0.2.20", [], "begins like the emulator's"),
    (HERE, page("http://evil.example"), "another page"),
    (HERE, page("https://localhost.evil.example"), "begins like a name"),
    (HERE, page("http://127.0.0.1.evil.example"), "begins like an address"),
    (HERE, page("http://127.0.0.1:80@evil.example"), "user information"),
    (HERE, page("http://evil.example/localhost"), "a path"),
    (HERE, page("http://localhost:3000 http://evil.example"), "a list"),
    (HERE, page("null"), "any page: a sandboxed frame, a file"),
    (HERE, page("localhost"), "no scheme"),
    (HERE, page("http://"), "no host"),
    (HERE, page("http://10.0.2.2:9000"), "a page from there is another machine's"),
    ("10.0.2.2:9000", page("http://10.0.2.2:9001"), "of another port"),
    ("10.0.2.2:9000", page("http://evil.example:9000"), "another page in the emulator's browser"),
    (HERE, page("http://localhost:99999"), "no port"),
    (HERE, script("cross-site"), "a page that hides its address"),
    (HERE, script("cross-site", "http://evil.example/"), "JSONP"),
    (HERE, script("same-site", "http://evil.example/"), "the same with a port"),
    (HERE, script("cross-site", "http://localhost@evil.example/"), "user information"),
    (HERE, [("Referer", "http://evil.example/")], "JSONP in an old browser"),
]


def ask(server, method, target, host, fields, body=None):
    with Wire(server.port) as wire:
        return wire.ask(method, target, body, fields, host=host)


@pytest.fixture(scope="module")
def dev(tmp_path_factory):
    server = server_module.Server(tmp_path_factory.mktemp("origins"), memory=True)
    yield server.start()
    server.kill()


@pytest.mark.parametrize("host, fields, because", SERVED)
def test_this_machine_is_served(dev, host, fields, because):
    for credential in ([], [OWNER]):
        ask(dev, "PUT", "/a.json?ns=default", host, [*fields, *credential], "1").expect(200, "1")
        ask(dev, "GET", "/a.json?ns=default", host, [*fields, *credential]).expect(200, "1")
    assert ask(dev, "GET", "/.ws?v=5&ns=default", host, [*UPGRADE, *fields]).status == 101
    assert ask(dev, "OPTIONS", "/a.json", host, fields).status == 200


@pytest.mark.parametrize("host, fields, because", REFUSED)
def test_other_hosts_and_origins_are_refused_with_the_reason(dev, host, fields, because):
    Rest(dev.port, "default").put("/kept", 1)
    requests = [
        ("GET", "/kept.json?ns=default", None), ("PUT", "/kept.json?ns=default", "2"),
        ("DELETE", "/kept.json?ns=default", None), ("GET", "/.json?ns=made-by-others", None),
        ("OPTIONS", "/kept.json", None), ("PUT", "/.settings/rules.json?ns=default", "{}"),
        ("GET", "/.inspect/databases.json", None), ("GET", "/kept.json?ns=default&callback=f", None),
    ]
    for method, target, body in requests:
        for credential in ([], [OWNER]):
            answer = ask(dev, method, target, host, [*fields, *credential], body)
            assert answer.status == 403, (method, target, answer)
            said = answer.json()["error"]
            assert "--dev" in said and "--allow-origin" in said, said
    stream = ask(dev, "GET", "/kept.json?ns=default", host, [*fields, ("Accept", "text/event-stream")])
    assert stream.status == 403 and "--allow-origin" in stream.json()["error"]
    upgrade = ask(dev, "GET", "/.ws?v=5&ns=default", host, [*UPGRADE, *fields])
    assert upgrade.status == 403 and "--allow-origin" in upgrade.json()["error"]
    assert Rest(dev.port, "default").get("/kept") == 1
    names = [one["name"] for one in Rest(dev.port, "default", fields=[OWNER]).get("/.inspect/databases")]
    assert "made-by-others" not in names, "a refused request makes no namespace"


def test_the_response_names_the_refused_host_or_origin(servers):
    server = servers(dev=True, memory=True)
    said = ask(server, "GET", "/a.json", HERE, page("http://evil.example")).json()["error"]
    assert '"http://evil.example"' in said, said
    said = ask(server, "GET", "/a.json", "rebound.example:1", []).json()["error"]
    assert '"rebound.example:1"' in said, said


def test_the_log_has_each_name_once_and_not_too_many(servers):
    server = servers(dev=True, memory=True)
    for _ in range(3):
        ask(server, "GET", "/a.json", HERE, page("http://evil.example"))
        ask(server, "GET", "/a.json", "rebound.example", [])
    for number in range(300):
        ask(server, "GET", "/a.json", HERE, page(f"http://evil-{number}.example"))
    ask(server, "GET", "/a.json", HERE, page("http://" + "x" * 5000))
    assert server.terminate() == 0
    log = server.stderr(limit=1 << 30)
    assert log.count('"http://evil.example"') == 1 and log.count('"rebound.example"') == 1
    assert "--allow-origin" in log
    assert log.count("evil-") < 150 and "x" * 1000 not in log


@pytest.mark.parametrize("how", ["flag", "environment", "file", "list"])
def test_an_allowed_origin_is_served(servers, tmp_path, how):
    allowed = ["https://app.example.org", "http://pando.test:8080"]
    arguments, environment = [], {}
    if how == "flag":
        arguments = [part for one in allowed for part in ("--allow-origin", one)]
    elif how == "environment":
        environment = {"PANDO_ALLOW_ORIGIN": ",".join(allowed)}
    else:
        path = tmp_path / "pando.json"
        path.write_text(json.dumps({"allow-origin": allowed if how == "list" else " ".join(allowed)}))
        arguments = ["--config", path]
    server = servers(start=False, dev=True, memory=True, arguments=arguments)
    server.environment = environment
    server.start()
    for host, origin, status in [
        (HERE, "https://app.example.org", 200),
        (HERE, "http://pando.test:8080", 200),
        ("pando.test:8080", None, 200),
        ("pando.test:8080", "https://app.example.org", 200),
        ("app.example.org", None, 200),
        ("app.example.org:443", None, 200),
        (HERE, "http://app.example.org", 403),
        (HERE, "https://app.example.org:444", 403),
        (HERE, "https://app.example.org.evil.example", 403),
        (HERE, "http://pando.test", 403),
        ("pando.test", None, 403),
        ("app.example.org:80", None, 403),
        ("rebound.example", "https://app.example.org", 403),
    ]:
        fields = page(origin) if origin else []
        assert ask(server, "GET", "/a.json?ns=default", host, [*fields, OWNER]).status == status, (host, origin)
        upgraded = ask(server, "GET", "/.ws?v=5&ns=default", host, [*UPGRADE, *fields])
        assert upgraded.status == (101 if status == 200 else 403), (host, origin)


@pytest.mark.parametrize("value", [
    "*", "null", "app.example.org", "https://app.example.org/", "https://app.example.org/x", "https://u@app.example.org",
    "https://", "https://app.example.org:", "https://*.example.org", " ",
])
def test_a_value_that_is_no_origin_is_refused(servers, value):
    said = fails_to_start(
        servers, BAD_CONFIGURATION, dev=True, memory=True, arguments=[f"--allow-origin={value}"])
    assert "--allow-origin" in said


def test_without_dev_the_option_would_promise_too_much(servers):
    said = fails_to_start(
        servers, BAD_CONFIGURATION, dev=False, memory=True, arguments=["--allow-origin", "https://app.example.org"])
    assert "--allow-origin" in said and "--dev" in said


def test_without_dev_hosts_and_origins_are_not_checked(servers):
    server = servers(dev=False, memory=True)
    for host, fields, _ in REFUSED:
        ask(server, "GET", "/a.json?ns=default", host, fields).expect_error(401, "Permission denied")
        assert ask(server, "OPTIONS", "/a.json", host, fields).status == 200
        assert ask(server, "GET", "/.ws?v=5&ns=default", host, [*UPGRADE, *fields]).status == 101


def test_loaded_rules_do_not_open_a_dev_server_to_pages(servers, tmp_path):
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"rules": {".read": True}}))
    server = servers(dev=True, memory=True, arguments=["--rules", path])
    assert ask(server, "GET", "/a.json", HERE, page("http://evil.example")).status == 403
    with Connection(server.port, "default") as connection:
        assert connection.get("/a") is None

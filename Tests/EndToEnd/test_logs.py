"""What the server says on standard error, request ids, and what it says of its options."""

import fcntl
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from admin import Admin
from rest_client import Wire
from server import BINARY, StartFailure, clean_environment, run
from test_metrics import values
from waiting import wait_for

TIME = re.compile(r"^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z$")


def lines(server):
    return [json.loads(line) for line in server.stderr(limit=1 << 30).splitlines()]


class UnreadLog:
    """Standard error of a server as a pipe that is read only when the server ends."""

    def __init__(self, server, byte_count=64 << 10):
        self.server, self.byte_count = server, byte_count

    def __enter__(self):
        os.mkfifo(self.server.stderr_path)
        self.reader = os.open(self.server.stderr_path, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(self.reader, fcntl.F_SETPIPE_SZ, self.byte_count)
        return self

    def lines_of_all(self):
        """Ends the server, and reads everything that it has logged."""
        os.set_blocking(self.reader, True)
        parts = []
        drain = threading.Thread(target=lambda: parts.extend(iter(lambda: os.read(self.reader, 1 << 16), b"")))
        drain.start()
        assert self.server.terminate() == 0
        drain.join()
        return b"".join(parts).decode().splitlines()

    def __exit__(self, *_):
        self.server.kill()
        os.close(self.reader)
        os.unlink(self.server.stderr_path)


def test_json_from_the_first_line_to_the_last(servers):
    server = servers(memory=True, arguments=["--log-format", "json"])
    assert server.terminate() == 0
    found = lines(server)
    assert len(found) >= 3
    for line in found:
        assert TIME.match(line["time"]) and line["level"] in ("info", "notice", "warning", "error")
        assert isinstance(line["message"], str) and line["message"]
    assert any("stopping" in line["message"] for line in found)


def test_a_start_that_fails_says_why_as_json(servers, tmp_path):
    file = tmp_path / "rules.json"
    file.write_text("{")
    server = servers(start=False, memory=True, arguments=["--log-format", "json", "--rules", file])
    with pytest.raises(StartFailure) as failure:
        server.start()
    assert failure.value.code == 78
    assert lines(server)[-1]["level"] == "critical" and "rules.json" in lines(server)[-1]["message"]


def test_the_access_log_has_each_request_without_its_query(servers):
    server = servers(memory=True, arguments=["--log-format", "json", "--access-log"])
    with Wire(server.port) as rest:
        assert rest.ask("PUT", "/a%0Ab.json?auth=SECRET", b"1", fields=[("X-Request-ID", "id-7")]).status == 400
    with Wire(server.port) as rest:
        assert rest.ask("GET", "/missing.json?print=pretty").status == 200
        assert rest.ask("GET", "/digits.json", fields=[("X-Request-ID", "17")]).status == 200
        assert rest.ask("GET", "/nothing").status in (200, 404)
    server.terminate()
    requests = [line for line in lines(server) if line["message"] == "request"]
    assert [(one["method"], one["path"]) for one in requests] == [
        ("PUT", "/a%0Ab.json"), ("GET", "/missing.json"), ("GET", "/digits.json"), ("GET", "/nothing")]
    assert requests[0]["request_id"] == "id-7" and "request_id" not in requests[1]
    assert requests[2]["request_id"] == "17"
    assert requests[1]["status"] == 200 and requests[1]["peer"].startswith("127.0.0.1:")
    assert all(0 <= one["microseconds"] < 60_000_000 for one in requests)
    assert "SECRET" not in server.stderr(limit=1 << 30)


def test_the_access_log_as_text(servers):
    server = servers(memory=True, arguments=["--access-log"])
    with Wire(server.port) as rest:
        assert rest.ask("GET", "/missing.json", fields=[("X-Request-ID", "id-7")]).status == 200
    assert server.terminate() == 0
    found = server.stderr(limit=1 << 30).splitlines()
    requests = [line for line in found if line.endswith(" [PandoServer] request")]
    assert len(requests) == 1 and re.search(
        r" info pando: method=GET microseconds=\d+ path=/missing.json peer=127.0.0.1:\d+ request_id=id-7 scheme=http status=200 \[", requests[0])
    assert any("stopping" in line for line in found)


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_log_that_is_not_read_delays_no_request(servers, form):
    """Standard error is a pipe that takes 64 KiB; 5000 requests log 5 MB."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = servers(
        start=False, memory=True,
        arguments=["--log-format", form, "--access-log", "--admin-listen", port])
    with UnreadLog(server) as log:
        server.start()
        count, path = 5000, "/" + "k" * 700
        request = f"GET {path}.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            sender = threading.Thread(target=client.sendall, args=(request * count,))
            sender.start()
            # A response may be cut by the end of what one `recv` gives.
            answered, rest = 0, b""
            while answered < count:
                data = rest + client.recv(1 << 16)
                answered += data.count(b"HTTP/1.1 200 ")
                rest = data[-12:]
            sender.join()
        admin = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        admin.request("GET", "/metrics")
        dropped = int(re.search(r"^pando_log_lines_dropped_total (\d+)$", admin.getresponse().read().decode(), re.MULTILINE)[1])
        assert dropped > 0
        found = log.lines_of_all()
    if form == "json":
        found = [json.loads(line)["message"] for line in found]
    requests = [line for line in found if line.endswith("request")]
    reports = [int(number) for line in found for number in re.findall(r"dropped (\d+) lines of the log", line)]
    assert sum(reports) == dropped == count - len(requests)
    assert any("stopping" in line for line in found)


def test_a_log_that_is_not_read_delays_no_client(servers, tmp_path):
    """Standard error is a pipe that takes 4 KiB; ten denials log some 10 KiB. Requests are not logged."""
    node = {}
    for level in reversed(range(8)):
        node = {f"$k{level}": {".read": f"root.child('somewhere').val() === $k{level}"} | node}
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"rules": node}))
    server = servers(start=False, memory=True, arguments=["--rules", rules, "--log-level", "debug"])
    with UnreadLog(server, byte_count=4096) as log:
        server.start()
        with Wire(server.port) as rest:
            began = time.monotonic()
            for _ in range(10):
                assert rest.ask("GET", "/a/b/c/d/e/f/g/h.json?ns=default").status == 401
            assert time.monotonic() - began < 2, "a line that waits for standard error takes 3 s"
        found = log.lines_of_all()
    assert len([line for line in found if "read of /a/b/c/d/e/f/g/h is refused" in line]) > 2
    assert any("stopping" in line for line in found)


def test_without_the_option_no_request_is_logged(servers):
    server = servers(memory=True, arguments=["--log-format", "json"])
    with Wire(server.port) as rest:
        rest.ask("GET", "/a.json")
    server.terminate()
    assert not [line for line in lines(server) if line["message"] == "request"]


@pytest.mark.parametrize("sent, returned", [
    ("abc-123", "abc-123"), ("x" * 128, "x" * 128), ("x" * 129, None), ("a b", None), ("", None),
    ("{\"json\":1}", "{\"json\":1}"), ("h\xe9", None),
])
def test_a_request_id_comes_back(shared_servers, sent, returned):
    server = shared_servers["dev"].server
    if not server.alive:
        server.start()
    with Wire(server.port) as rest:
        answer = rest.ask("GET", "/a.json?ns=ids", fields=[("X-Request-ID", sent)])
        assert answer.header("x-request-id") == returned
        # Not that of the request before.
        assert rest.ask("GET", "/a.json?ns=ids").header("x-request-id") is None
        refused = rest.ask("PUT", "/a.json?ns=ids", b"{", fields=[("X-Request-ID", sent)])
        assert refused.status == 400 and refused.header("x-request-id") == returned


def test_print_config_is_a_file_that_check_config_takes_and_starts_nothing(tmp_path):
    file = tmp_path / "pando.json"
    file.write_text(json.dumps(
        {"port": 1, "data": "elsewhere", "allow-origin": ["http://a.example", "http://b.example"], "dev": True,
         "auth": {"secrets": []}}))
    data = tmp_path / "data"
    arguments = ["serve", "--config", file, "--data", data, "--loops", "2", "--print-config"]
    result = run(*arguments, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    printed = json.loads(result.stdout)
    assert printed == {
        "port": 1, "data": str(data), "allow-origin": ["http://a.example", "http://b.example"], "dev": True,
        "loops": 2, "auth": {"secrets": []}}
    assert not data.exists()
    copy = tmp_path / "copy.json"
    copy.write_text(result.stdout)
    checked = run("check", "config", copy)
    assert checked.returncode == 0, checked.stdout
    assert json.loads(run("serve", "--config", copy, "--print-config").stdout) == printed


def test_print_config_reports_problems(tmp_path):
    result = run("serve", "--print-config", "--data", tmp_path, "--dev", "--host", "0.0.0.0")
    assert result.returncode == 78 and "--dev" in result.stderr and result.stdout == ""


def test_check_config_takes_whatever_print_config_prints(tmp_path):
    """Every form of an option, and each source: what is printed is the same configuration again."""
    secret = tmp_path / "secret"
    secret.write_text("ab" * 32)
    flags = [
        "--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--listen", "[::1]:0", "--backup-every", "30m",
        "--backup-to", tmp_path / "b", "--backup-keep", "1,2,3", "--backup-verify", "5", "--archive-to", tmp_path / "a",
        "--archive-keep", "all", "--auth-secret-file", secret, "--admin-listen", "127.0.0.1:0", "--log-format", "json",
        "--durability", "interval", "--no-deflate", "--idle-timeout", "60", "--trusted-proxy", "10.0.0.0/8"]
    environment = clean_environment() | {
        "PANDO_MAX_LISTENS": "7", "PANDO_ACCESS_LOG": "true", "PANDO_TRUSTED_PROXY": "127.0.0.1,unix"}
    done = subprocess.run(
        [BINARY, "serve", *map(str, flags), "--print-config"], capture_output=True, text=True, timeout=30, env=environment)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["backup-every"] == "30m" and printed["backup-keep"] == "1,2,3" and printed["backup-verify"] == 5
    assert printed["max-listens"] == 7 and printed["access-log"] is True and printed["listen"] == ["127.0.0.1:0", "[::1]:0"]
    file = tmp_path / "pando.json"
    file.write_text(done.stdout)
    checked = run("check", "config", file)
    assert checked.returncode == 0, checked.stdout
    assert json.loads(run("serve", "--config", file, "--print-config").stdout) == printed


def test_warnings_that_come_again_and_again_are_counted(servers, tmp_path):
    """A disk that is gone fails a backup each second; the log says so a few times."""
    folder = tmp_path / "backups"
    server = servers(arguments=["--admin-listen", "0", "--backup-every", "1s", "--backup-to", folder])
    server.wait_for_log("backup pando-")
    folder.rename(tmp_path / "aside")
    wait_for(lambda: values(Admin(server).text())[("pando_scheduled_backups_total", (("result", "failed"),))] >= 7)
    assert server.stderr(limit=1 << 30).count("the backup failed") == 5


def test_options_that_are_wrong_are_reported_as_json(tmp_path):
    done = run("serve", "--log-format", "json", "--port", "0", "--backup-to", tmp_path / "b")
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == 78 and len(found) == 2 and {line["level"] for line in found} == {"critical"}
    assert any("--data: missing" in line["message"] for line in found)
    done = run("serve", "--log-format", "json", "--memory", "--config", tmp_path / "none.json")
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert len(found) == 1 and "none.json" in found[0]["message"]


def test_the_log_has_the_addresses(servers):
    server = servers(memory=True, arguments=["--log-format", "json"])
    server.wait_for_log(f"listening on http://127.0.0.1:{server.port}")


def test_a_denial_is_one_line(servers, tmp_path):
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"rules": {"a": {".write": "auth.uid === 'u1' && data.exists()"}}}))
    server = servers(memory=True, arguments=["--rules", rules, "--log-level", "debug"])
    with Wire(server.port) as rest:
        assert rest.ask("PUT", "/a.json?ns=default", b"1").status == 401
    server.wait_for_log("is refused")
    line = next(line for line in server.stderr().splitlines() if "is refused" in line)
    assert "write to /a" in line and "; 1:" in line and "auth" in line.partition("is refused")[2], line
    assert all(re.match("20[0-9]{2}-", line) for line in server.stderr().splitlines())


def test_a_request_id_comes_back_from_everything_that_reads_requests(servers):
    server = servers(memory=True, arguments=["--admin-listen", "0"])
    upgrade = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "X-Request-ID": "id-7"}
    for version, status in [("13", 101), ("8", 426)]:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.request("GET", "/.ws?v=5&ns=default", headers=upgrade | {"Sec-WebSocket-Version": version})
        response = connection.getresponse()
        assert (response.status, response.getheader("X-Request-ID")) == (status, "id-7")
        connection.close()
    admin = Admin(server)
    for path, status in [("/metrics", 200), ("/livez", 200), ("/nothing", 404)]:
        answer = admin.ask(path, X_Request_ID="id-8")
        assert (answer[0], answer[1].get("X-Request-ID")) == (status, "id-8")
    assert "X-Request-ID" not in admin.ask("/livez")[1]
    with Wire(server.port) as rest:
        exposed = rest.ask("GET", "/a.json?ns=default").header("Access-Control-Expose-Headers")
    assert "X-Request-ID" in exposed and "ETag" in exposed


class TestOptionsAgain:
    """What SIGHUP reads of the configuration file."""

    @pytest.fixture
    def file(self, tmp_path):
        return tmp_path / "pando.json"

    @staticmethod
    def hang_up(server, file, options, *expected):
        file.write_text(options if isinstance(options, str) else json.dumps(options))
        before = len(server.stderr(limit=1 << 30))
        server.signal(signal.SIGHUP)
        for text in expected:
            wait_for(lambda: text in server.stderr(limit=1 << 30)[before:])
        return server.stderr(limit=1 << 30)[before:]

    def test_options_that_can_change_take_effect_at_once(self, servers, file):
        file.write_text("{}")
        server = servers(memory=True, arguments=["--config", file])

        def requests():
            return server.stderr(limit=1 << 30).count("request_id=")

        def ask(identifier, size=1):
            with Wire(server.port) as rest:
                return rest.ask("GET", "/a.json?ns=default", fields=[("X-Request-ID", identifier), ("X-Long", "x" * size)]).status

        assert ask("one", 20_000) == 200 and requests() == 0
        self.hang_up(
            server, file, {"access-log": True, "max-head-bytes": 4096, "max-read-bytes": 8},
            "SIGHUP: options read again; max-head-bytes, max-read-bytes, access-log changed")
        # The loops hear of it a moment later.
        wait_for(lambda: ask("two") == 200 and requests() > 0)
        assert ask("three", 20_000) == 431
        with Wire(server.port) as rest:
            assert rest.ask("PUT", "/a.json?ns=default", b'"longer than 8"').status == 200
            assert rest.ask("GET", "/a.json?ns=default").status == 400
        self.hang_up(server, file, {"access-log": True, "log-level": "error"}, "SIGHUP: options read again")
        # No message of a lower level any more; then the end says nothing, either.
        wait_for(lambda: ask("four", 20_000) == 200)
        said = server.stderr(limit=1 << 30)
        assert server.terminate() == 0
        assert "stopping" not in server.stderr(limit=1 << 30)[len(said):]

    def test_other_options_need_a_restart_and_are_named(self, servers, file):
        file.write_text("{}")
        server = servers(memory=True, arguments=["--config", file])
        for _ in range(2):
            said = self.hang_up(
                server, file, {"max-listens": 7, "loops": 1}, "take effect at the next start: ", "SIGHUP: without --rules")
            assert "loops, max-listens" in said and "options read again" not in said

    @pytest.mark.parametrize("text, problem", [
        ('{"log-level": "loud"}', '"log-level" in the configuration file'), ("{", "configuration file: "),
        ('{"nonsense": 1}', '"nonsense" is not an option'),
    ])
    def test_a_file_with_problems_changes_nothing(self, servers, file, text, problem):
        file.write_text('{"log-level": "info"}')
        server = servers(memory=True, arguments=["--config", file])
        said = self.hang_up(server, file, text, problem, "the options stay as they were")
        assert "options read again" not in said
        assert server.terminate() == 0 and "stopping" in server.stderr()

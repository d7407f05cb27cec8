"""`pando top` and `/topz`: which paths cost most."""

import subprocess
import time

import pytest

import server as server_module
from admin import DEADLINE, Admin
from pando_client import Connection
from rest_client import Wire
from server import run

BAD_CONFIGURATION, WRONG_USAGE = 78, 64


@pytest.fixture
def server(servers):
    return servers(memory=True, arguments=["--admin-listen", "0"])


def rows(server):
    return {(row["database"], row["path"]): row for row in Admin(server).json("/topz")["paths"]}


def paced(request):
    time.sleep(0.003)
    return request()


def until_measured(server, path, rate, request):
    """Repeats a request until one of them was measured."""
    for _ in range(1000):
        paced(request)
        if rows(server).get(("default", path), {rate: 0})[rate] > 0:
            return
    raise AssertionError(f"no request to {path} was measured: {rows(server)}")


class TestUsage:
    def test_paths_are_counted_by_pattern(self, server):
        with Connection(server.port, "default") as reader, Connection(server.port, "default") as writer, \
                Wire(server.port) as rest:
            # Requests with some time between them are all measured, on a machine that is not busy. Where it is, each of them
            # stands for a few: the rates are estimates then.
            for number in range(8):
                paced(lambda: reader.must("q", {"p": f"/rooms/{number}/messages", "h": ""}))
            for number in range(60):
                value = str(number).rjust(1000, "x")
                paced(lambda: writer.must("p", {"p": f"/rooms/{number % 8}/messages/m", "d": value}))
                paced(lambda: rest.ask("GET", "/users/12345.json").expect(200))
            found = rows(server)
            messages, users = found["default", "/rooms/*/messages/m"], found["default", "/users/*"]
            # So few that most were measured; over a window of some seconds.
            assert messages["writes_per_second"] > 1 and messages["reads_per_second"] == 0
            assert 0.5 < users["reads_per_second"] / messages["writes_per_second"] < 2
            assert messages["received_bytes_per_second"] > 900 * messages["writes_per_second"]
            assert messages["sent_bytes_per_second"] > 900 * messages["writes_per_second"]
            assert found["default", "/rooms/*/messages"]["listeners"] == 8
            until_measured(server, "/rooms/*/messages", "listens_per_second",
                           lambda: reader.must("q", {"p": "/rooms/0/messages", "h": ""}))
            query = {"p": "/people", "q": {"i": "age", "l": 1, "vf": "l"}, "t": 1, "h": ""}
            until_measured(server, "/people", "unindexed_queries_per_second", lambda: reader.must("q", query))
            found = rows(server)
            assert all(0 <= row["busy_share"] and row["busy_share_error"] == 0 for row in found.values())
        ordered = [row["busy_share"] for row in Admin(server).json("/topz")["paths"]]
        assert ordered == sorted(ordered, reverse=True)

    def test_any_number_of_patterns_takes_bounded_memory(self, server):
        with Connection(server.port, "default") as writer:
            for number in range(3):
                writer.must("m", {"p": "/", "d": {"seed": number}})
            for number in range(600):
                name = "".join(chr(97 + int(digit)) for digit in str(number))
                writer.must("p", {"p": f"/{name}", "d": 1})
        assert 1 < len(rows(server)) <= 256

    def test_only_administrators_see_it(self, servers, tmp_path):
        secret = tmp_path / "secret"
        secret.write_text("ab" * 32)
        server = servers(dev=False, memory=True, arguments=["--admin-listen", "0", "--auth-secret-file", secret])
        admin = Admin(server)
        assert admin.ask("/topz")[0] == 401
        token = run("token", "--admin", "--secret-file", secret).stdout.strip()
        assert admin.ask("/topz", token=token)[0] == 200
        url = f"http://127.0.0.1:{admin.port}"
        refused = run("top", url, "--once")
        assert refused.returncode == BAD_CONFIGURATION and "401" in refused.stderr
        file = tmp_path / "token"
        file.write_text(token + "\n")
        assert run("top", url, "--once", "--token-file", file).returncode == 0
        for variable, value in (("PANDO_TOKEN", token), ("PANDO_TOKEN_FILE", str(file))):
            done = subprocess.run(
                [server_module.BINARY, "top", url, "--once"], capture_output=True, text=True, timeout=DEADLINE,
                env=server_module.clean_environment() | {variable: value})
            assert done.returncode == 0, done.stderr


class TestTop:
    def test_once_prints_one_screen(self, server):
        with Connection(server.port, "default") as connection:
            connection.must("p", {"p": "/rooms/1/name", "d": "x"})
            done = run("top", f"http://127.0.0.1:{Admin(server).port}", "--once")
        assert done.returncode == 0 and done.stderr == ""
        lines = done.stdout.splitlines()
        assert lines[0].startswith("pando ") and "  ready  " in lines[0]
        assert [line.split("  ")[0].strip() for line in lines[1:8]] == [
            "connections", "requests", "traffic", "99 % within", "journal", "memory", "backups"]
        assert "websocket 1" in lines[1]
        assert lines[9].split()[-1] == "PATH"
        assert any(line.endswith(" default:/rooms/*/name") for line in lines[10:])
        assert "\x1b" not in done.stdout
        assert len(run("top", f"http://127.0.0.1:{Admin(server).port}", "--once", "--paths", "0").stdout.splitlines()) == 10

    def test_it_goes_on_until_it_is_ended(self, server):
        process = subprocess.Popen(
            [server_module.BINARY, "top", f"http://127.0.0.1:{Admin(server).port}", "--interval", "1"],
            stdout=subprocess.PIPE, text=True, env=server_module.clean_environment())
        try:
            screens = 0
            while screens < 2:
                screens += process.stdout.readline().startswith("pando ")
            server.kill()
            for line in process.stdout:
                if "127.0.0.1" in line and not line.startswith("pando "):
                    break
            assert process.poll() is None
        finally:
            process.terminate()
            process.wait(DEADLINE)

    @pytest.mark.parametrize("arguments, code", [
        (["nonsense"], WRONG_USAGE), (["http://127.0.0.1:1", "--once"], BAD_CONFIGURATION), ([], WRONG_USAGE),
        (["http://127.0.0.1:1", "--interval", "0"], WRONG_USAGE),
    ])
    def test_what_is_no_server(self, arguments, code):
        assert run("top", *arguments).returncode == code

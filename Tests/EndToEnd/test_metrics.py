"""The admin port: metrics as Prometheus reads them, health, who is connected, what is slow; and the alert rules."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

from admin import DEADLINE, Admin
from pando_client import Connection
from programs import needs
from rest_client import OWNER, Rest, Wire
from server import REPOSITORY, StartFailure, run
from waiting import wait_for

OPERATING = REPOSITORY / "public/docs/operating.md"
RULES = REPOSITORY / "deploy/prometheus/rules.yml"
DASHBOARD = REPOSITORY / "deploy/grafana/pando.json"
ROW = re.compile(r"^\| `(pando_\w+)` \| (\w+) \| ([^|]*) \|", re.MULTILINE)
# Metrics that are not 0 before anything happens: sizes, limits and times of the machine and of the start.
NOT_ZERO = re.compile(
    r"_limit|^pando_(build_info|start_time|ready|cpu|resident|heap|open_desc|disk_|checkpoint_due|database|journal_|loop_tick)")


@pytest.fixture
def server(servers):
    return servers(memory=True, arguments=["--admin-listen", "0"])


def values(text):
    """Every sample by its name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parse_prometheus(text) for sample in family.samples
    }


def documented():
    """Name, type and labels of each row of the table."""
    return {
        name: (kind, tuple(sorted(re.findall(r"`(\w+)`", labels))))
        for name, kind, labels in ROW.findall(OPERATING.read_text())
    }


def exposed(text):
    found = {}
    for family in parse_prometheus(text):
        name = family.name + "_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels if label != "le"}
        found[name] = (family.type, tuple(sorted(labels)))
    return found


class TestMetrics:
    def test_the_table_and_the_exposition_agree(self, server):
        assert documented() == exposed(Admin(server).text())

    @needs("promtool")
    def test_promtool_finds_no_fault(self, server):
        result = subprocess.run(
            ["promtool", "check", "metrics"], input=Admin(server).text(), capture_output=True, text=True, timeout=DEADLINE)
        assert (result.returncode, result.stdout + result.stderr) == (0, "")

    def test_openmetrics_has_the_same_values_with_units_and_an_end(self, server):
        admin = Admin(server)
        status, fields, body = admin.ask(
            "/metrics", Accept="application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
        assert status == 200 and body.endswith(b"\n# EOF\n")
        assert fields["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        families = list(parse_openmetrics(body.decode()))
        for family in families:
            assert family.unit == next((u for u in ("seconds", "bytes") if family.name.endswith("_" + u)), "")
        names = {sample.name for family in families for sample in family.samples}
        plain = admin.ask("/metrics")
        assert plain[1]["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert names == {name for name, _ in values(plain[2].decode())}

    def test_everything_exists_and_is_zero_from_the_start(self, server):
        for (name, labels), value in values(Admin(server).text()).items():
            assert value == 0 or NOT_ZERO.match(name) or NOT_ZERO.search(name), (name, labels, value)

    def test_sizes_of_trees_and_indexes(self, servers, tmp_path):
        rules = tmp_path / "rules.json"
        rules.write_text(json.dumps({"rules": {".read": True, ".write": True, "rows": {".indexOn": ["age"]}}}))
        server = servers(arguments=["--admin-listen", "0", "--rules", rules])
        rows = {f"row{number:04d}": {"age": number, "name": "x" * 20} for number in range(1000)}
        with Connection(server.port, "default") as connection:
            connection.must("p", {"p": "/rows", "d": rows})
        admin = Admin(server)
        wait_for(lambda: values(admin.text())[("pando_index_entries", ())] == 1000)
        self.has_size_of_rows(admin)
        server.restart()
        found = values(Admin(server).text())
        assert found[("pando_tree_nodes", ())] == 2 + 3 * 1000, "from the first moment"

    def has_size_of_rows(self, admin):
        wait_for(lambda: values(admin.text())[("pando_tree_nodes", ())] == 2 + 3 * 1000, "count of the tree")
        # 7 characters of the key, 3 and 4 of the names, a number and 20 characters, with quotes and separators.
        assert values(admin.text())[("pando_tree_bytes", ())] == 8 + 1000 * (11 + 7 + 8 + 8 + 22)

    def test_the_size_of_trees_without_a_disk_grows_and_shrinks(self, server):
        """No checkpoint counts them with --memory."""
        rows = {f"row{number:04d}": {"age": number, "name": "x" * 20} for number in range(1000)}
        admin = Admin(server)
        with Connection(server.port, "default") as connection:
            connection.must("p", {"p": "/rows", "d": rows})
            self.has_size_of_rows(admin)
            connection.must("p", {"p": "/rows", "d": None})
        wait_for(lambda: values(admin.text())[("pando_tree_nodes", ())] == 0, "count of an empty tree")
        assert values(admin.text())[("pando_tree_bytes", ())] == 0

    def test_values_move_when_things_happen(self, servers, tmp_path):
        rules = tmp_path / "rules.json"
        rules.write_text(json.dumps(
            {"rules": {"open": {".read": True, ".write": True, ".indexOn": ["age"]}, "closed": {".read": False}}}))
        server = servers(arguments=["--admin-listen", "0", "--rules", rules, "--durability", "always"])
        admin = Admin(server)
        before = values(admin.text())
        with Connection(server.port, "default") as reader, Connection(server.port, "default") as writer, Wire(server.port) as rest:
            assert reader.ask("q", {"p": "/open/a", "h": ""})["s"] == "ok"
            assert reader.ask("q", {"p": "/open/people", "q": {"i": "age", "l": 1, "vf": "l"}, "t": 1, "h": ""})["s"] == "ok"
            assert writer.ask("p", {"p": "/open/a", "d": 1})["s"] == "ok"
            assert writer.ask("p", {"p": "/closed", "d": 1})["s"] == "permission_denied"
            assert writer.ask("m", {"p": "/open/b", "d": {"x": 1}})["s"] == "ok"
            assert rest.ask("GET", "/open/a.json").status == 200
            assert rest.ask("PUT", "/closed.json", b"1").status == 401
            assert rest.ask("GET", "/open/a.json?auth=nonsense").status in (400, 401)
            assert rest.ask("GET", "/.inspect/backup", fields=[("Authorization", "Bearer owner")]).status == 200
            wait_for(lambda: values(admin.text())[("pando_deliveries_total", ())] >= 1)
            after = values(admin.text())

        def change(name, **labels):
            key = (name, tuple(sorted(labels.items())))
            return after[key] - before[key]

        assert change("pando_requests_total", protocol="realtime", kind="listen") == 2
        assert change("pando_requests_total", protocol="realtime", kind="put") == 2
        assert change("pando_requests_total", protocol="realtime", kind="merge") == 1
        assert change("pando_requests_total", protocol="rest", kind="read") == 1
        assert change("pando_requests_total", protocol="rest", kind="write") == 1
        assert change("pando_request_errors_total", error="permission_denied") == 2
        assert change("pando_rule_denials_total") == 2
        assert change("pando_rule_evaluations_total") >= 6
        assert change("pando_commits_total") == 2
        assert change("pando_database_sessions") == 2
        assert change("pando_client_sessions", transport="websocket") == 2
        assert change("pando_connections") == 3
        assert change("pando_connections_opened_total") == 3
        assert change("pando_listens", kind="default") == 1
        assert change("pando_listens", kind="query") == 1
        assert change("pando_windows") == 1
        assert change("pando_pushes_total") >= 1
        assert change("pando_replies_total") >= 6
        assert change("pando_acknowledgement_seconds_count") >= 6
        assert change("pando_event_delivery_seconds_count") >= 1
        assert change("pando_fsync_seconds_count") >= 1
        assert change("pando_journal_written_bytes_total") > 0
        assert change("pando_journal_write_bytes_count") >= 1
        assert change("pando_received_bytes_total") > 100
        assert change("pando_sent_bytes_total") > 100
        assert change("pando_token_verifications_total", result="refused") >= 1
        assert change("pando_backup_downloads_started_total") == 1
        assert change("pando_backup_downloads_finished_total") == 1
        assert after[("pando_backup_download_timestamp_seconds", ())] > time.time() - 60
        assert after[("pando_outbound_queue_bytes", ())] == 0
        assert after[("pando_open_descriptors", ())] > 5

    def test_without_a_log_writes_that_change_data_count_too(self, server):
        admin = Admin(server)
        with Connection(server.port, "default") as writer:
            assert writer.ask("p", {"p": "/open/a", "d": 1})["s"] == "ok"
            assert writer.ask("p", {"p": "/open/a", "d": 1})["s"] == "ok"
            assert writer.ask("m", {"p": "/open", "d": {"b": 2, "c": 3}})["s"] == "ok"
            assert writer.ask("o", {"p": "/open/d", "d": 4})["s"] == "ok"
            assert values(admin.text())[("pando_commits_total", ())] == 2
        wait_for(lambda: values(admin.text())[("pando_commits_total", ())] == 3)

    def test_a_start_counts_what_it_recovers(self, servers):
        server = servers(arguments=["--admin-listen", "0"])
        with Wire(server.port) as rest:
            for number in range(20):
                assert rest.ask("PUT", f"/a/{number}.json", b'"some text"').status == 200
        server.restart()
        after = values(Admin(server).text())
        assert after[("pando_recovered_records_total", ())] >= 20
        assert 0 < after[("pando_recovered_bytes_total", ())] <= after[("pando_recoverable_bytes", ())]

    def test_a_scraper_that_reads_nothing_delays_nobody(self, server):
        port = Admin(server).port
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
        # The oldest were closed for others.
        for one in silent[-30:]:
            one.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        with Wire(server.port) as rest:
            assert rest.ask("PUT", "/a.json", b"1").status == 200
        for one in silent:
            one.close()

        def answers():
            # Until it has seen that the others are gone, one more is closed at once.
            try:
                return Admin(server).ask("/livez")[0] == 200
            except OSError:
                return False

        wait_for(answers)


    def test_silent_clients_do_not_take_the_listener_away(self, server):
        """Twice as many as there may be: bare connections, and half a head."""
        admin = Admin(server)
        silent = [socket.create_connection(("127.0.0.1", admin.port)) for _ in range(128)]
        for one in silent[::2]:
            # The oldest were closed for others.
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                one.sendall(b"GET /livez HTTP/1.1\r\nHost: ")
        for path in ("/livez", "/metrics", "/connz"):
            assert admin.ask(path)[0] == 200
        for one in silent:
            one.close()

    def test_a_request_must_come_soon(self, server):
        with socket.create_connection(("127.0.0.1", Admin(server).port), timeout=25) as silent:
            silent.sendall(b"GET /livez HTTP/1.1\r\n")
            # The time of 30 s is for the response. It ends without a word, or by a reset.
            try:
                assert silent.recv(100) == b""
            except ConnectionResetError:
                pass


class TestHealth:
    @needs("strace")
    def test_it_says_that_it_recovers_while_it_does(self, servers):
        """The lock of the data directory is taken behind the start of the admin port; strace delays it."""
        server = servers(start=False, arguments=["--admin-listen", "0"])
        server.command = [
            "strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=flock", "-e",
            "inject=flock:delay_enter=4000000", *server.command]
        starting = threading.Thread(target=server.start)
        starting.start()
        try:
            admin = Admin(server)
            wait_for(lambda: server.process is not None and server.stderr_path.exists())
            status, _, body = admin.ask("/readyz")
            assert (status, body[:11]) == (503, b"recovering:")
            assert admin.ask("/livez")[0] == 200
            during = values(admin.text())
            assert during[("pando_ready", ())] == 0
            assert json.loads(admin.ask("/varz")[2])["phase"] == "recovering"
            assert json.loads(admin.ask("/connz")[2]) == {"count": 0, "sort": "age", "connections": [], "left_out": 0}
        finally:
            starting.join()
        try:
            assert admin.ask("/readyz")[::2] == (200, b"ready\n")
            assert during.keys() == values(admin.text()).keys()
        finally:
            # strace leaves the server behind when it is killed.
            strace = server.process.pid
            for child in pathlib.Path(f"/proc/{strace}/task/{strace}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)

    def test_it_says_that_it_stops_while_it_does(self, server):
        admin = Admin(server)
        port = admin.port
        with socket.create_connection(("127.0.0.1", server.port)) as lazy:
            # A client that does not answer the close frame keeps the server for some seconds.
            lazy.sendall(
                b"GET /.ws?v=5&ns=x HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
            assert lazy.recv(4096).startswith(b"HTTP/1.1 101")
            server.signal(signal.SIGTERM)
            wait_for(lambda: admin.ask("/readyz")[0] == 503)
            assert admin.ask("/readyz")[2].startswith(b"draining")
            assert admin.ask("/livez")[0] == 200
        assert server.process.wait(DEADLINE) == 0
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=5).close()


class TestAdministrators:
    def test_metrics_and_health_are_open_and_the_rest_needs_a_token(self, servers, tmp_path):
        secret = tmp_path / "secret"
        secret.write_text("ab" * 32)
        server = servers(
            dev=False, memory=True,
            arguments=["--admin-listen", "127.0.0.1:0", "--auth-secret-file", secret, "--allow-secret-as-admin"])
        admin = Admin(server)
        user = run("token", "--uid", "u", "--secret-file", secret).stdout.strip()
        administrator = run("token", "--admin", "--secret-file", secret).stdout.strip()
        for path in ("/metrics", "/livez", "/readyz"):
            assert admin.ask(path)[0] == 200
        for path in ("/varz", "/connz", "/slowz", "/topz"):
            assert admin.ask(path)[0] == 401
            assert admin.ask(path, token="nonsense")[0] == 401
            assert admin.ask(path, token=user)[0] == 403
            assert admin.ask(path, token=administrator)[0] == 200
        assert admin.ask("/connz?id=1", method="DELETE")[0] == 401
        for path, method, status in [
            ("/", "GET", 404), ("/metrics/", "GET", 404), ("/metrics", "POST", 405), ("/varz", "DELETE", 405),
            ("/metrics", "HEAD", 200),
        ]:
            assert admin.ask(path, method=method)[0] == status, (path, method)

    @pytest.mark.parametrize("target", ["/metrics", "/none", "/a b"])
    def test_the_response_to_head_has_no_body(self, server, target):
        """Also where the rest of its head is malformed."""
        with socket.create_connection(("127.0.0.1", Admin(server).port), timeout=DEADLINE) as connection:
            connection.sendall(f"HEAD {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        assert answer.startswith(b"HTTP/1.1 ") and answer.endswith(b"\r\n\r\n") and answer.count(b"\r\n\r\n") == 1

    def test_under_dev_only_programs_and_pages_of_this_machine_are_answered(self, server):
        admin = Admin(server)
        assert admin.ask("/varz")[0] == 200
        assert admin.ask("/varz", Host="rebound.example")[0] == 403
        assert admin.ask("/connz", Origin="https://evil.example")[0] == 403

    def test_connz_lists_who_is_connected_and_closes_one(self, server):
        admin = Admin(server)
        with Connection(server.port, "default") as first, Connection(server.port, "default") as second:
            assert first.ask("q", {"p": "/rooms/one", "h": ""})["s"] == "ok"
            assert second.ask("p", {"p": "/rooms/two", "d": "x" * 1000})["s"] == "ok"
            listing = admin.json("/connz?sort=received")
            assert listing["count"] == 2 and len(listing["connections"]) == 2
            large, small = listing["connections"]
            assert large["received_bytes"] > small["received_bytes"] > 0
            assert small["listens"] == ["/rooms/one"] and small["listen_count"] == 1 and large["listens"] == []
            assert small["transport"] == "websocket" and small["peer"].startswith("127.0.0.1:")
            assert small["queue_bytes"] == 0 and 0 <= small["idle_seconds"] <= small["age_seconds"]
            assert admin.json("/connz?limit=1")["count"] == 2
            assert len(admin.json("/connz?limit=1")["connections"]) == 1
            for order in ("age", "idle", "queue", "memory", "received", "sent"):
                assert len(admin.json(f"/connz?sort={order}")["connections"]) == 2
            for bad in ("sort=x", "limit=0", "limit=1001", "limit=x"):
                assert admin.ask(f"/connz?{bad}")[0] == 400
            assert admin.ask("/connz?id=zz", method="DELETE")[0] == 400
            assert admin.ask(f"/connz?id={small['id']}", method="DELETE")[0] == 200
            assert admin.ask(f"/connz?id={small['id']}", method="DELETE")[0] == 404
            wait_for(lambda: admin.json("/connz")["count"] == 1)
            assert admin.json("/connz")["connections"][0]["id"] == large["id"]

    def test_slowz_names_what_took_long_by_its_pattern(self, server):
        admin = Admin(server)
        with Wire(server.port) as rest:
            count, operations = 20_000, []
            while not operations:
                # However fast the machine is, one of these takes a millisecond.
                assert count <= 640_000
                children = ",".join(f'"k{number}":{{"a":{count + number}}}' for number in range(count))
                assert rest.ask("PATCH", "/rooms/12345/all.json", b"{" + children.encode() + b"}").status == 200
                operations = admin.json("/slowz")["operations"]
                count *= 2
        assert operations and all(one["seconds"] >= 0.001 for one in operations)
        assert operations == sorted(operations, key=lambda one: -one["seconds"])
        assert ("write", "/rooms/*/all", "/rooms/12345/all") in {(one["kind"], one["path"], one.get("location")) for one in operations}
        assert all("order" not in one and "indexed" not in one for one in operations)

    def test_slowz_names_the_order_of_a_query_and_whether_it_has_an_index(self, server):
        admin = Admin(server)
        rest = Rest(server.port, "default", fields=[OWNER])
        rest.put("/rooms/12345/users", {"ann": {"age": 1}})
        # The rules look at 4 MB: on any machine that takes more than a millisecond.
        rest.put("/text", "x" * (4 << 20))
        rest.put_rules({"rules": {".read": "root.child('text').val().matches(/^[^<>]*$/)", ".write": True}})
        with Connection(server.port, "default") as connection:
            connection.must("q", {"p": "/rooms/12345/users", "q": {"i": "age", "l": 2, "vf": "l"}, "t": 1, "h": ""})
        found = {one["order"]: one for one in admin.json("/slowz")["operations"] if "order" in one}
        rest.close()
        assert (found["age"]["location"], found["age"]["path"]) == ("/rooms/12345/users", "/rooms/*/users")
        assert found["age"]["indexed"] is False

    @pytest.mark.parametrize("arguments, reason", [
        (["--admin-listen", "0.0.0.0:0"], "needs TLS"),
        (["--admin-listen", "192.0.2.7:1"], "needs TLS"),
        (["--admin-listen", "0.0.0.0:0", "--dev"], "--dev"),
    ])
    def test_another_address_than_loopback_needs_tls(self, servers, arguments, reason):
        server = servers(start=False, dev=False, memory=True, arguments=arguments)
        with pytest.raises(StartFailure) as failure:
            server.start()
        assert failure.value.code == 78 and reason in str(failure.value)

    def test_a_port_that_is_taken_is_reported_before_anything_is_touched(self, servers):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            server = servers(start=False, arguments=["--admin-listen", taken.getsockname()[1]])
            with pytest.raises(StartFailure) as failure:
                server.start()
        assert failure.value.code == 78 and not server.data.exists()


class TestMonitoring:
    @needs("promtool")
    def test_promtool_accepts_the_alert_rules(self):
        result = subprocess.run(
            ["promtool", "check", "rules", RULES], capture_output=True, text=True, timeout=DEADLINE)
        assert result.returncode == 0, result.stdout + result.stderr

    def test_rules_and_dashboard_ask_for_metrics_that_exist(self):
        known = set(documented())
        known |= {name + suffix for name, (kind, _) in documented().items() if kind == "histogram"
                  for suffix in ("_bucket", "_sum", "_count")}
        dashboard = json.loads(DASHBOARD.read_text())
        texts = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
        texts += re.findall(r"expr:(.*?)\n +(?:for|labels):", RULES.read_text(), re.DOTALL)
        assert len(texts) > 40
        used = {name for text in texts for name in re.findall(r"pando_\w+", text)}
        assert used and not used - known
        alerts = re.findall(r"alert: (\w+)", RULES.read_text())
        assert alerts and all(f"| {alert} |" in OPERATING.read_text() for alert in alerts)

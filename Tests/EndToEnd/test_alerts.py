"""Every alert of deploy/prometheus/rules.yml that has a cause which can be made: a real Prometheus scrapes real servers, each
of which has one trouble, and the alert for it fires, and no other. The others are fed to promtool as series."""

import http.client
import json
import pathlib
import re
import socket
import subprocess
import threading
import time
from urllib.parse import quote

import pytest

from admin import DEADLINE, Admin
from pando_client import Connection
from preload import build_library
from programs import needs
from rest_client import Wire
from server import REPOSITORY
from test_metrics import values
from test_scheduled_backups import backups
from waiting import wait_for

RULES = REPOSITORY / "deploy/prometheus/rules.yml"
FAULTS = pathlib.Path(__file__).parent / "faults.c"
SHORT = "10s"  # in place of minutes
# Alerts about time that a thread or the disk takes. A busy machine makes a thread wait, too: what these alerts count.
LATE = {
    "PandoLoopLag": "pando_loop_tick_seconds", "PandoDatabaseLag": "pando_database_turn_seconds",
    "PandoFsyncSlow": "pando_fsync_seconds",
}


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    return build_library(tmp_path_factory.mktemp("faults"), FAULTS)


@pytest.fixture
def troubled(servers, faults, tmp_path):
    """A factory of servers with the faults that variables name."""

    def make(*names, arguments=(), limit=None, **options):
        server = servers(start=False, arguments=["--admin-listen", "0", *arguments], **options)
        for name in names:
            switch = tmp_path / name
            switch.touch()
            server.environment |= {"LD_PRELOAD": str(faults), name: str(switch)}
        server.descriptor_limit = limit
        return server.start()

    return make


def shortened(text):
    """The rules with seconds in place of minutes and hours: the same expressions."""
    text = re.sub(r"\[(\d+)([mhd])\]", f"[{SHORT}]", text)
    return re.sub(r"for: \d+[mhd]", "for: 0s", text)


def ask_prometheus(port, path):
    """What the API of a Prometheus answers; nothing while it does not."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE)
    try:
        connection.request("GET", f"/api/v1/{path}")
        return json.loads(connection.getresponse().read())["data"]
    except (OSError, ValueError, KeyError, http.client.HTTPException):
        return {}
    finally:
        connection.close()


class Prometheus:
    def __init__(self, folder, servers):
        self.folder = folder
        (folder / "rules.yml").write_text(shortened(RULES.read_text()))
        targets = "".join(
            f"      - targets: ['127.0.0.1:{Admin(server).port}']\n        labels: {{name: '{name}'}}\n"
            for name, server in servers.items())
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 500ms}\nrule_files: [rules.yml]\n"
            f"scrape_configs:\n  - job_name: pando\n    static_configs:\n{targets}")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        with open(folder / "prometheus.log", "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
                 f"--web.listen-address=127.0.0.1:{self.port}"], stdout=log, stderr=log)

    def ask(self, path):
        return ask_prometheus(self.port, path)

    def scraped(self):
        """How many servers it has scraped twice: from then on it sees counters grow."""
        return len(self.ask("query?query=" + quote("count_over_time(up[1m]) >= 2")).get("result", ()))

    def firing(self):
        """Names of servers, and the alerts that fire for each."""
        alerts = self.ask("alerts").get("alerts", ())
        return {(one["labels"].get("name"), one["labels"]["alertname"]) for one in alerts if one["state"] == "firing"}

    def end(self):
        self.process.terminate()
        self.process.wait(DEADLINE)


def has_been_late(server, alert):
    """Whether the server has counted what an alert is about: more than 100 ms at once."""
    if alert not in LATE:
        return False
    samples = values(Admin(server).text())

    def count(suffix, bound=None):
        return sum(
            value for (name, labels), value in samples.items()
            if name == LATE[alert] + suffix and dict(labels).get("le") == bound and dict(labels).get("thread") != "pando-admin")

    return count("_count") > count("_bucket", "0.1")


@needs("prometheus")
def test_a_real_prometheus_fires_the_alert_for_each_trouble(servers, troubled, tmp_path):
    closed = tmp_path / "closed.json"
    closed.write_text('{"rules":{".read":false,".write":false}}')
    folder, aside = tmp_path / "backups", tmp_path / "aside"
    # Only "fsync slow" has a slow disk, made by a fault; the others do not sync, so this machine's disk does not matter.
    troubles = {
        "healthy": troubled("FAULT_NO_SYNC"),
        "denial storm": servers(memory=True, arguments=["--admin-listen", "0", "--rules", closed]),
        "descriptor limit": troubled(memory=True, limit=300),
        "backups failing": troubled("FAULT_NO_SYNC", arguments=["--backup-every", "1s", "--backup-to", folder]),
        "disk nearly full": troubled("FAULT_NO_SYNC", "FAULT_SMALL_DISK"),
        "backup disk nearly full": troubled("FAULT_NO_SYNC", "FAULT_SMALL_BACKUP_DISK", arguments=[
            "--backup-every", "1s", "--backup-to", tmp_path / "small", "--archive-to", tmp_path / "small-journal"]),
        "fsync slow": troubled("FAULT_SLOW_SYNC"),
        "loop lag": troubled("FAULT_SLOW_SEND", memory=True),
        "database lag": troubled("FAULT_SLOW_DATABASE", memory=True),
        "checkpoint overdue": troubled(
            "FAULT_NO_SYNC", "FAULT_NO_CHECKPOINT", arguments=["--checkpoint-bytes", 65536, "--segment-bytes", 65536]),
    }
    expected = {
        ("denial storm", "PandoDenialStorm"), ("descriptor limit", "PandoDescriptorLimit"),
        ("backups failing", "PandoBackupsFail"), ("disk nearly full", "PandoDiskNearlyFull"),
        ("backup disk nearly full", "PandoBackupDiskNearlyFull"), ("fsync slow", "PandoFsyncSlow"), ("loop lag", "PandoLoopLag"),
        ("database lag", "PandoDatabaseLag"),
        ("checkpoint overdue", "PandoCheckpointOverdue"), ("checkpoint overdue", "PandoCheckpointsFail"),
    }
    wait_for(lambda: backups(folder), "backup")
    done = threading.Event()
    limited = [socket.create_connection(("127.0.0.1", troubles["descriptor limit"].port)) for _ in range(280)]

    def work(server, value):
        with Connection(server.port, "default") as connection:
            number = 0
            while not done.wait(0.05):
                number += 1
                connection.ask("p", {"p": f"/rows/{number}", "d": value})

    def replace(server):
        """Large writes: I/O threads process light requests themselves, and only the database thread is slow here."""
        with Wire(server.port) as rest:
            while not done.wait(0.05):
                assert rest.ask("PUT", "/large.json?print=silent", b'"' + b"x" * 200_000 + b'"').status == 204

    def storm(server):
        with Wire(server.port) as rest:
            while not done.wait(0.01):
                assert rest.ask("GET", "/a.json").status == 401

    threads = [threading.Thread(target=storm, args=(troubles["denial storm"],))]
    threads += [
        threading.Thread(target=work, args=(troubles[name], value)) for name, value in [
            ("healthy", "x"), ("fsync slow", "x"), ("loop lag", "x"), ("checkpoint overdue", "x" * 20_000),
            ("backups failing", "x"), ("disk nearly full", "x")]]
    threads += [threading.Thread(target=replace, args=(troubles["database lag"],))]
    prometheus = Prometheus(tmp_path, troubles)
    try:
        deadline = time.monotonic() + DEADLINE
        while prometheus.scraped() < len(troubles):
            assert time.monotonic() < deadline, (tmp_path / "prometheus.log").read_text()[-2000:]
            time.sleep(0.2)
        for thread in threads:
            thread.start()
        # As a disk that is gone.
        folder.rename(aside)
        folder.mkdir()
        firing, seen = set(), set()
        deadline = time.monotonic() + 2 * DEADLINE
        while not expected <= seen:
            assert time.monotonic() < deadline, (
                expected - seen, firing, (tmp_path / "prometheus.log").read_text()[-2000:])
            firing = prometheus.firing()
            seen |= firing
            time.sleep(0.2)
        # Each server has its own trouble and no other. Two kinds of alerts are accepted beside: PandoDown, which a single late scrape
        # fires (promtool tests it below), and those for a late thread, where the server's own metric has counted a delay.
        others = {one for one in seen - expected if one[1] != "PandoDown"}
        assert {(name, alert) for name, alert in others if not has_been_late(troubles[name], alert)} == set()
        assert all(has_been_late(troubles[name], alert) for name, alert in expected if alert in LATE)
    finally:
        done.set()
        for thread in threads:
            if thread.is_alive():
                thread.join()
        prometheus.end()
        for one in limited:
            one.close()


def lags(name, count, long, labels="", seconds=0.5):
    """A histogram that grows by so many a minute, of which so many take so long, and the others less than 100 ms."""
    return {
        f'{name}_count{{instance="a"{labels}}}': f"0+{count}x20",
        f'{name}_bucket{{instance="a"{labels},le="0.1"}}': f"0+{count - long}x20",
        f'{name}_bucket{{instance="a"{labels},le="1.0"}}': f"0+{count - (long if seconds > 1 else 0)}x20",
    }


# Causes that take longer than a test, or another machine: what the server would print, and when the alert fires.
SERIES = [
    ("PandoDown", {'up{job="pando",instance="a"}': "1 0x10"}, "3m", {'job="pando"'}),
    ("PandoRestarts", {'pando_start_time_seconds{instance="a"}': "0+60x20"}, "15m", set()),
    ("PandoNotReady", {'pando_ready{instance="a"}': "1 0x10"}, "7m", set()),
    ("PandoBackupsFail", {
        'pando_scheduled_backup_interval_seconds{instance="a"}': "60x20",
        'pando_scheduled_backup_timestamp_seconds{instance="a"}': "1x20"}, "15m", set()),
    ("PandoBackupsFail", {
        'pando_backup_downloads_started_total{instance="a"}': "0 1x90", 'pando_backup_downloads_finished_total{instance="a"}': "0x90"},
     "30m", set()),
    ("PandoRestoreTestFails", {
        'pando_restore_tests_total{instance="a",source="archive",result="failed"}': "0 1x10"}, "5m",
     {'result="failed"', 'source="archive"'}),
    ("PandoArchiveBehind", {
        'pando_archive_enabled{instance="a"}': "1x10", 'pando_archive_timestamp_seconds{instance="a"}': "1x10"}, "5m", set()),
    ("PandoArchiveBehind", {
        'pando_archive_enabled{instance="a"}': "1x10", 'pando_archive_timestamp_seconds{instance="a"}': "0x10"}, "5m", set()),
    ("PandoArchiveConflict", {'pando_archive_failures_total{instance="a",reason="conflict"}': "0 1x10"}, "5m",
     {'reason="conflict"'}),
    # Counted before the first scrape.
    ("PandoArchiveDamaged", {'pando_archive_failures_total{instance="a",reason="damaged"}': "1x10"}, "5m",
     {'reason="damaged"'}),
    ("PandoArchiveBehind", {'pando_archive_gaps_total{instance="a"}': "0 1x10"}, "5m", set()),
    ("PandoSlowClients", {'pando_slow_client_disconnects_total{instance="a",cause="stalled"}': "0+120x20"}, "15m", set()),
    ("PandoCertificateEnds", {
        'pando_tls_certificate_expiry_timestamp_seconds{instance="a"}': "600000x20"}, "10m", set()),
    ("PandoBackupDiskNearlyFull", {
        'pando_backup_disk_free_bytes{instance="a",use="archive"}': "50x20",
        'pando_backup_disk_size_bytes{instance="a",use="archive"}': "1000x20"}, "10m", {'use="archive"'}),
    ("PandoBackupDiskHangs", {
        'pando_backup_operation_seconds{instance="a",use="archive"}': "0+60x20",
        'pando_backup_operation_seconds{instance="a",use="backup"}': "0x20"}, "5m", {'use="archive"'}),
    # Half of the disk is free, and that is no room for two backups.
    ("PandoBackupDiskNearlyFull", {
        'pando_backup_disk_free_bytes{instance="a",use="backup"}': "500x20",
        'pando_backup_disk_size_bytes{instance="a",use="backup"}': "1000x20",
        'pando_backup_disk_free_bytes{instance="a",use="archive"}': "500x20",
        'pando_backup_disk_size_bytes{instance="a",use="archive"}': "1000x20",
        'pando_scheduled_backup_size_bytes{instance="a"}': "300x20"}, "10m", {'use="backup"'}),
    # Of a thousand ticks a second, one in two seconds is long: half of the time may be lost.
    ("PandoLoopLag", lags("pando_loop_tick_seconds", 60_000, 30, ',thread="pando-io-0"'), "15m", {'thread="pando-io-0"'}),
    ("PandoDatabaseLag", lags("pando_database_turn_seconds", 60_000, 30), "15m", set()),
    ("PandoDatabaseLag", lags("pando_database_turn_seconds", 30, 30), "15m", set()),
    # Busy all the time, with seven turns of eight seconds in a minute.
    ("PandoLoopLag", lags("pando_loop_tick_seconds", 7, 7, ',thread="main"', seconds=8), "15m", {'thread="main"'}),
    ("PandoDatabaseLag", lags("pando_database_turn_seconds", 7, 7, seconds=8), "15m", set()),
    ("PandoDiskNearlyFull", {
        'pando_disk_full{instance="a"}': "1x10", 'pando_disk_free_bytes{instance="a"}': "50x10",
        'pando_disk_size_bytes{instance="a"}': "100x10"}, "5m", set()),
]
# What is no cause: a server that does little, and one turn of it in ten that is long.
SILENT = [
    ("PandoLoopLag", lags("pando_loop_tick_seconds", 60, 6, ',thread="main"')),
    ("PandoDatabaseLag", lags("pando_database_turn_seconds", 60, 6)),
    ("PandoLoopLag", lags("pando_loop_tick_seconds", 60, 60, ',thread="pando-admin"')),
    ("PandoRestarts", {'pando_start_time_seconds{instance="a"}': "0x3 60x4 120x4 180x9"}),
    ("PandoArchiveDamaged", {'pando_archive_failures_total{instance="a",reason="disk"}': "1x20"}),
]
QUIET = {
    'up{job="pando",instance="a"}': "1x40", 'pando_ready{instance="a"}': "1x40",
    'pando_start_time_seconds{instance="a"}': "60x40",
    'pando_archive_failures_total{instance="a",reason="damaged"}': "0x40",
    'pando_scheduled_backup_interval_seconds{instance="a"}': "0x40",
    'pando_scheduled_backup_timestamp_seconds{instance="a"}': "0x40",
    'pando_backup_download_timestamp_seconds{instance="a"}': "0x40", 'pando_archive_timestamp_seconds{instance="a"}': "0x40",
    'pando_archive_enabled{instance="a"}': "0x40",
    'pando_backup_disk_free_bytes{instance="a",use="backup"}': "0x40",
    'pando_backup_disk_size_bytes{instance="a",use="backup"}': "0x40",
    'pando_scheduled_backup_size_bytes{instance="a"}': "0x40",
    'pando_backup_operation_seconds{instance="a",use="backup"}': "0x40",
    'pando_disk_free_bytes{instance="a"}': "0x40", 'pando_disk_size_bytes{instance="a"}': "0x40",
    'pando_disk_full{instance="a"}': "0x40", 'pando_journal_uncovered_bytes{instance="a"}': "0x40",
    'pando_checkpoint_due_bytes{instance="a"}': "0x40", 'pando_rule_denials_total{instance="a"}': "0x40",
    'pando_rule_evaluations_total{instance="a"}': "0x40",
    'pando_tls_certificate_expiry_timestamp_seconds{instance="a"}': "0x40",
}
ALERT = re.compile(r"- alert: (\w+)\n(?:.*\n)*?        labels: \{severity: (\w+)\}\n(?:.*\n)*?          summary: \"(.*)\"")


def promtool_test(folder, series, moment, name, labels):
    """Runs one unit test of the rules: the alert fires at the moment, or with labels None it does not."""
    severity, summary = {one[0]: one[1:] for one in ALERT.findall(RULES.read_text())}[name]
    for label, value in [("instance", "a"), *(text.replace('"', "").split("=") for text in labels or ())]:
        summary = summary.replace(f"{{{{ $labels.{label} }}}}", value)
    input_series = "".join(f"      - series: '{text}'\n        values: '{values}'\n" for text, values in series.items())
    extra = "".join(f", {label.replace('=', ': ')}" for label in sorted(labels or ()))
    expected = "[]" if labels is None else (
        f"[{{exp_labels: {{severity: {severity}, instance: a{extra}}}, exp_annotations: {{summary: {json.dumps(summary)}}}}}]")
    (folder / "test.yml").write_text(
        f"rule_files: [{RULES}]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n{input_series}"
        f"    alert_rule_test:\n      - {{eval_time: {moment}, alertname: {name}, exp_alerts: {expected}}}\n")
    return subprocess.run(
        ["promtool", "test", "rules", folder / "test.yml"], capture_output=True, text=True, timeout=DEADLINE)


@needs("promtool")
@pytest.mark.parametrize("name, series, moment, labels", SERIES)
def test_promtool_fires_the_others(tmp_path, name, series, moment, labels):
    result = promtool_test(tmp_path, series, moment, name, labels)
    assert result.returncode == 0, result.stdout + result.stderr


@needs("promtool")
@pytest.mark.parametrize("name, series", SILENT)
def test_promtool_does_not_fire_without_a_cause(tmp_path, name, series):
    result = promtool_test(tmp_path, series, "15m", name, None)
    assert result.returncode == 0, result.stdout + result.stderr


@needs("promtool")
def test_a_server_that_has_just_started_fires_nothing(tmp_path):
    for name in re.findall(r"- alert: (\w+)", RULES.read_text()):
        result = promtool_test(tmp_path, QUIET, "30m", name, None)
        assert result.returncode == 0, (name, result.stdout + result.stderr)

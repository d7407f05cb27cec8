"""The dashboard deploy/grafana/pando.json: its form, and its queries, asked of a real Prometheus that scrapes a real server on which
everything has happened that a panel shows."""

import json
import math
import re
import threading
import time
from urllib.parse import quote

from admin import DEADLINE
from pando_client import Connection
from programs import needs
from rest_client import OWNER, Wire
from server import REPOSITORY
from test_alerts import Prometheus
from test_metrics import documented

DASHBOARD = json.loads((REPOSITORY / "deploy/grafana/pando.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
CERTIFICATES = REPOSITORY / "Tests/TLS/Fixtures"
# Metrics without a panel, and why.
NOT_SHOWN = {"pando_recovered_records_total": "pando_recovered_bytes_total shows the progress of a start"}
# Units of Grafana that the panels use.
UNITS = {"none", "s", "bytes", "Bps", "ops", "reqps", "percentunit"}
COLUMNS = 24


def test_every_panel_has_a_title_a_unit_and_a_place_of_its_own():
    titles = [panel["title"] for panel in DASHBOARD["panels"]]
    assert all(titles) and len(set(titles)) == len(titles) > 50
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(titles)
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert cells and not cells & taken and max(x for x, _ in cells) < COLUMNS, panel["title"]
        taken |= cells
    for panel in PANELS:
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert panel["targets"] and panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)
        for target in panel["targets"]:
            assert target["legendFormat"] and 'instance=~"$instance"' in target["expr"], (panel["title"], target)


def test_every_metric_has_a_panel():
    shown = {name for _, expression in QUERIES for name in re.findall(r"pando_\w+", expression)}
    shown |= {re.sub("_(bucket|sum|count)$", "", name) for name in shown}
    assert documented().keys() - shown == NOT_SHOWN.keys()


def finite(result):
    """Whether a query found a number; a quantile of nothing is not one."""
    return any(math.isfinite(float(one["value"][1])) for one in result)


@needs("prometheus")
def test_a_real_prometheus_has_an_answer_for_every_panel(servers, tmp_path):
    server = servers(arguments=[
        "--admin-listen", "0", "--checkpoint-interval", 1, "--backup-every", "1s", "--backup-to", tmp_path / "backups",
        "--backup-verify", 1, "--archive-to", tmp_path / "archive"])
    with Wire(server.port) as rest:
        assert rest.ask("PUT", "/a.json", b'"what the next start recovers"').status == 200
    server.restart()
    with_tls = servers(memory=True, arguments=[
        "--admin-listen", "0", "--tls-cert", CERTIFICATES / "localhost.pem", "--tls-key", CERTIFICATES / "localhost.key"])
    done = threading.Event()

    def work():
        with Connection(server.port, "default") as writer, Connection(server.port, "default") as reader, Wire(server.port) as rest:
            reader.must("q", {"p": "/rows", "h": ""})
            number = 0
            while not done.wait(0.05):
                number += 1
                writer.must("p", {"p": f"/rows/{number % 100}", "d": number})
                assert rest.ask("GET", "/.inspect/backup", fields=[OWNER]).status == 200

    prometheus = Prometheus(tmp_path, {"plain": server, "with TLS": with_tls})
    thread = threading.Thread(target=work)
    thread.start()
    try:
        missing, answer = QUERIES, {}
        deadline = time.monotonic() + DEADLINE
        while missing:
            assert time.monotonic() < deadline and thread.is_alive(), (missing, answer)
            time.sleep(0.2)
            left = []
            for title, expression in missing:
                # As Grafana fills them in for "All" and a short range.
                query = expression.replace("$instance", ".*").replace("$__rate_interval", "10s")
                answer = prometheus.ask("query?query=" + quote(query))
                if not finite(answer.get("result", ())):
                    left.append((title, expression))
            missing = left
    finally:
        done.set()
        thread.join()
        prometheus.end()

"""Rules from files: `--rules`, SIGHUP and `pando check rules`."""

import json
import os
import signal

import pytest

import server as server_module
from pando_client import Connection
from rest_client import Rest
from test_cli import BAD_CONFIGURATION, fails_to_start

OWNER = ("Authorization", "Bearer owner")
OPEN = '{"rules":{".read":true,".write":true}}'
READ_ONLY = '{"rules":{".read":true}} // no writes'
CLOSED = '{"rules":{}}'
BAD = '{"rules":{\n".read":17,\n"a":{".write":[]}}}'
BAD_PROBLEMS = ["2:9: Invalid rule expression", "3:15: Invalid rule expression"]


def may(server, ns="default"):
    """What a client without a sign-in may do: "rw", "r", "w" or ""."""
    with_rest = Rest(server.port, ns)
    try:
        reads = with_rest.ask("GET", "/probe.json").status
        writes = with_rest.ask("PUT", "/probe.json", "1").status
    finally:
        with_rest.close()
    assert {reads, writes} <= {200, 401}
    return ("r" if reads == 200 else "") + ("w" if writes == 200 else "")


def hang_up(server, line):
    server.signal(signal.SIGHUP)
    server.wait_for_log(line)


@pytest.fixture
def rules(tmp_path):
    return tmp_path / "rules.json"


def test_a_rules_file_is_for_the_default_database_and_can_not_be_replaced(servers, rules):
    rules.write_text(READ_ONLY)
    server = servers(arguments=["--rules", rules])
    assert may(server) == "r"
    assert may(server, "other") == "rw", "--dev: what no rules restrict is open"
    rest = Rest(server.port, "default")
    refused = rest.ask("PUT", "/.settings/rules.json", OPEN, [OWNER])
    assert refused.status == 400 and "--rules" in refused.json()["error"]
    assert rest.ask("PUT", "/.settings/rules.json?dryRun=true", OPEN, [OWNER]).status == 200
    assert rest.ask("GET", "/.settings/rules.json", fields=[OWNER]).text == READ_ONLY
    assert may(server) == "r"
    rest.close()
    Rest(server.port, "other").put_rules(CLOSED)
    assert may(server, "other") == "", "another database's rules are stored ones"


def test_rules_of_a_file_replace_stored_ones_until_the_file_is_gone(servers, rules):
    server = servers()
    Rest(server.port, "default").put_rules(READ_ONLY)
    server.kill()
    rules.write_text(OPEN)
    server = servers(data=server.data, arguments=["--rules", rules])
    assert may(server) == "rw"
    server.kill()
    server = servers(data=server.data)
    assert may(server) == "r"


def test_a_directory_has_a_file_for_each_database(servers, tmp_path):
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "default.json").write_text(READ_ONLY)
    (folder / "open-one.json").write_text(OPEN)
    (folder / "notes.txt").write_text("no rules at all")
    server = servers(arguments=["--rules", folder])
    assert [may(server, ns) for ns in ("default", "open-one", "third")] == ["r", "rw", "rw"]
    (folder / "open-one.json").write_text(CLOSED)
    (folder / "third.json").write_text(READ_ONLY)
    hang_up(server, "rules read again; open-one, third changed")
    assert [may(server, ns) for ns in ("default", "open-one", "third")] == ["r", "", "r"]
    (folder / "third.json").unlink()
    hang_up(server, "third.json was removed: its rules stay until the next start")
    assert may(server, "third") == "r", "a removed file does not open the database"


def test_sighup_revokes_what_the_new_rules_do_not_allow(servers, rules):
    rules.write_text(OPEN)
    server = servers(arguments=["--rules", rules])
    query = {"i": ".key", "l": 2, "vf": "l"}
    with Connection(server.port, "default") as connection, Connection(server.port, "default") as writer:
        connection.must("q", {"p": "/kept/a", "h": ""})
        connection.must("q", {"p": "/a", "h": ""})
        connection.must("q", {"p": "/a", "q": query, "t": 7, "h": ""})
        connection.taken_pushes()
        rules.write_text('{"rules":{".write":true,"kept":{".read":true}}}')
        server.signal(signal.SIGHUP)
        assert connection.next_data() == ("push", "c", {"p": "a"})
        assert connection.next_data() == ("push", "c", {"p": "a", "q": [query]})
        writer.must("p", {"p": "/a/b", "d": 1})
        writer.must("p", {"p": "/kept/a", "d": 2})
        assert connection.next_data() == ("push", "d", {"p": "kept/a", "d": 2}), "and nothing of /a"


def test_a_bad_file_never_replaces_a_good_one(servers, rules):
    rules.write_text(READ_ONLY)
    server = servers(arguments=["--rules", rules])
    rules.write_text(BAD)
    hang_up(server, "the previous rules stay in force")
    assert all(f"{rules}:{problem}" in server.stderr() for problem in BAD_PROBLEMS)
    assert may(server) == "r"
    rules.unlink()
    hang_up(server, f"{rules}: can't be read: No such file or directory")
    assert may(server) == "r"
    rules.write_text(OPEN)
    hang_up(server, "rules read again; default changed")
    assert may(server) == "rw"


def test_a_pipe_is_no_rules_file(servers, tmp_path):
    """No process writes into the pipe: a server that waited for its end would handle no signal any more."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    said = fails_to_start(servers, BAD_CONFIGURATION, arguments=["--rules", pipe])
    assert f"pando: {pipe}: can't be read: it is not a file\n" in said


@pytest.mark.parametrize("path, reason", [
    ("file/rules.json", "Not a directory"), ("missing.json", "No such file or directory"),
    ("missing/rules.json", "No such file or directory")])
def test_a_file_that_can_not_be_read_is_named_with_the_reason(servers, tmp_path, path, reason):
    """The system's reason, without a line and column: no text was read."""
    (tmp_path / "file").write_text(OPEN)
    said = f"{tmp_path / path}: can't be read: {reason}\n"
    assert server_module.run("check", "rules", tmp_path / path).stdout == said
    assert fails_to_start(servers, BAD_CONFIGURATION, arguments=["--rules", tmp_path / path]) == f"pando: {said}"


def test_a_bad_file_refuses_to_start_with_all_problems(servers, rules):
    rules.write_text(BAD)
    said = fails_to_start(servers, BAD_CONFIGURATION, arguments=["--rules", rules])
    assert all(f"{rules}:{problem}" in said for problem in BAD_PROBLEMS)


def test_queued_writes_of_a_crash_run_under_the_rules_of_the_file(servers, rules):
    """Recovery ends sessions that died with the process: what the file forbids now is dropped."""
    server = servers()
    connection = Connection(server.port, "default")
    connection.must("o", {"p": "/allowed", "d": 1})
    connection.must("o", {"p": "/forbidden", "d": 1})
    server.kill()
    rules.write_text('{"rules":{".read":true,"allowed":{".write":true}}}')
    server = servers(data=server.data, arguments=["--rules", rules])
    assert Rest(server.port, "default").get("/") == {"allowed": 1}


def test_locked_by_default_in_one_clear_line(servers):
    server = servers(dev=False)
    assert may(server) == ""
    assert "no rules are loaded for default: only administrators may use these databases" in server.stderr()


@pytest.mark.parametrize("text, said", [(OPEN, []), (READ_ONLY, []), (BAD, BAD_PROBLEMS), ("{", ["1:2: Parse error."])])
def test_check_rules_reports_every_problem(rules, text, said):
    rules.write_text(text)
    result = server_module.run("check", "rules", rules)
    assert result.returncode == (1 if said else 0)
    lines = result.stdout.splitlines()
    assert len(lines) == max(1, len(said))
    for line, start in zip(lines, said):
        assert line.startswith(f"{rules}:{start}")


def test_a_setting_of_the_configuration_file(servers, rules, tmp_path):
    rules.write_text(READ_ONLY)
    config = tmp_path / "pando.json"
    config.write_text(json.dumps({"rules": str(rules)}))
    assert may(servers(arguments=["--config", config])) == "r"

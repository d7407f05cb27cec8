"""A system call may write less than it was asked for: nothing may be missing from the journal or a checkpoint then."""

import pathlib

import pytest

from pando_client import Connection
from preload import build_library
from server import run

SMALL = ("--segment-bytes", 65536, "--checkpoint-bytes", 262144)
SOURCE = pathlib.Path(__file__).with_name("short_writes.c")


@pytest.fixture(scope="module")
def short_writes(tmp_path_factory):
    return build_library(tmp_path_factory.mktemp("short"), SOURCE)


def expected(count):
    return {f"r{number:04d}": f"{number} " + "x" * 5000 for number in range(count)}


def test_log_and_checkpoints_are_whole_after_short_writes(servers, short_writes):
    server = servers(arguments=SMALL, start=False)
    counter = server.folder / "short-writes"
    server.environment = {"LD_PRELOAD": str(short_writes), "SHORT_WRITES_COUNT": str(counter)}
    server.start()
    with Connection(server.port, "default") as connection:
        for key, value in expected(200).items():
            connection.must("p", {"p": f"/rows/{key}", "d": value})
    server.terminate()
    assert int(counter.read_text()) > 200, "the journal and the checkpoints were written in parts"
    check = run("check", "data", server.data)
    assert check.returncode == 0, check.stdout + check.stderr
    assert list(server.data.glob("checkpoint-*.chk")), check.stdout
    server.environment = {}
    server.start()
    with Connection(server.port, "default") as connection:
        assert connection.get("/rows") == expected(200)

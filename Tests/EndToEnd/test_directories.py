"""A data directory belongs to one server."""

import pytest

from pando_client import Connection
from server import StartFailure

BAD_CONFIGURATION = 78


def test_a_removed_lock_file_lets_no_second_server_in(servers):
    first = servers()
    (first.data / "LOCK").unlink()
    second = servers(start=False, data=first.data)
    with pytest.raises(StartFailure) as failure:
        second.start()
    assert failure.value.code == BAD_CONFIGURATION and "in use by another process" in str(failure.value)
    with Connection(first.port, "default") as connection:
        connection.must("p", {"p": "/a", "d": 1})
    first.kill()
    second.start()
    with Connection(second.port, "default") as connection:
        assert connection.get("/a") == 1

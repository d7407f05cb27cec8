"""The admin port (`--admin-listen`) of a server under test, asked over a socket of its own each time."""

import http.client
import json
import re
import time

ADDRESS = re.compile(r"admin listening on (https?)://(\S+):([0-9]+)")
DEADLINE = 30


class Admin:
    def __init__(self, server):
        self.server = server

    @property
    def port(self):
        """Of the newest start; waits until the server has said it."""
        deadline = time.monotonic() + DEADLINE
        while True:
            found = ADDRESS.findall(self.server.stderr(limit=1 << 30))
            if found:
                return int(found[-1][2])
            assert time.monotonic() < deadline, f"no admin port\n{self.server.stderr()}"
            time.sleep(0.02)

    def ask(self, path, method="GET", token=None, **fields):
        """Status, fields and body of a response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        if token:
            fields["Authorization"] = f"Bearer {token}"
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in fields.items()})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, dict(response.getheaders()), body

    def text(self, path="/metrics", **options):
        status, _, body = self.ask(path, **options)
        assert status == 200, (status, body)
        return body.decode()

    def json(self, path, **options):
        return json.loads(self.text(path, **options))

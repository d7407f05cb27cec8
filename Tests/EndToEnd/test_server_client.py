"""The commands that talk to a running server (`--url`): HTTP and HTTPS, any size in bounded memory, errors that say what to do."""

import contextlib
import http.server
import json
import os
import pathlib
import socket
import ssl
import subprocess
import threading
import time

import pytest

import server as server_module
from issuer import self_signed
from pando_client import Connection
from preload import build_library

BAD_DATA, OUR_FAULT, BAD_CONFIGURATION = 65, 70, 78
MEGABYTE = 1 << 20


def environment(**variables):
    return {**server_module.clean_environment(), "PANDO_TOKEN": "owner", **variables}


def run(*arguments, **variables):
    return subprocess.run([str(server_module.BINARY), *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          env=environment(**variables))


class TLSTerminator:
    """Accepts TLS connections and forwards their bytes to a port of this machine."""

    def __init__(self, port, certificate, private):
        self.upstream = port
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, private)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        with contextlib.suppress(OSError), client, socket.create_connection(("127.0.0.1", self.upstream)) as upstream:
            with self.context.wrap_socket(client, server_side=True) as secure:
                back = threading.Thread(target=self.copy, args=(upstream, secure), daemon=True)
                back.start()
                self.copy(secure, upstream)
                back.join()

    @staticmethod
    def copy(source, target):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def stop(self):
        self.listener.close()


class Recorder:
    """An HTTP server whose handler is the given function; `requests` has the paths and headers."""

    def __init__(self, answer):
        self.requests = []
        recorder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                recorder.requests.append((self.path, dict(self.headers)))
                with contextlib.suppress(OSError):
                    answer(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def recorder():
    made = []

    def make(answer):
        made.append(Recorder(answer))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def terminator(servers, tmp_path):
    certificate, private = self_signed(tmp_path)
    made = TLSTerminator(servers().port, certificate, private)
    made.certificate = certificate
    yield made
    made.stop()


@pytest.mark.parametrize("piece, pause", [(b" ", 0.2), (b" " * 65536, 0)], ids=["slow", "endless"])
def test_a_health_check_ends_whatever_answers(recorder, piece, pause):
    def answer(handler):
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(piece)
            handler.wfile.flush()
            time.sleep(pause)

    began = time.monotonic()
    done = run("check", "health", recorder(answer).url, "--timeout", 2)
    assert done.returncode == 1 and done.stdout, done.stderr
    assert time.monotonic() - began < 20
    assert ("within 2 s" in done.stdout) == (pause > 0), done.stdout


@pytest.mark.parametrize("body", [b'{"a":[1,2', b'{"a":"b', b"<html>Bad Gateway</html>", b"", b"{} {}"], ids=repr)
def test_an_export_of_a_response_that_is_no_whole_value_fails(recorder, tmp_path, body):
    """The response ends with its connection, so only its content says whether it is whole."""

    def answer(handler):
        handler.close_connection = True
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(body)

    out = tmp_path / "out.json"
    out.write_text("kept")
    done = run("export", "--url", recorder(answer).url, "--output", out)
    assert done.returncode == BAD_DATA and "whole JSON value" in done.stderr, done.stderr
    assert out.read_text() == "kept" and [path.name for path in tmp_path.iterdir()] == ["out.json"]


@pytest.mark.skipif(
    not pathlib.Path("/etc/ssl/certs/ca-certificates.crt").exists(), reason="ca-certificates is not installed")
def test_import_export_and_backup_over_https(terminator, tmp_path):
    library = build_library(tmp_path, pathlib.Path(__file__).parent / "trust.c")
    trusting = {"LD_PRELOAD": str(library), "TEST_TRUSTED_CERTIFICATES": str(terminator.certificate)}
    value = {"rows": {f"r{number:06d}": {"text": "ä" * 40, "n": number} for number in range(60_000)}}
    file, out = tmp_path / "in.json", tmp_path / "out.json"
    file.write_text(json.dumps(value))
    done = run("import", "--url", terminator.url, file, **trusting)
    assert done.returncode == 0 and "writes" in done.stderr, done.stderr
    done = run("export", "--url", terminator.url, "--output", out, **trusting)
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text()) == value
    done = run("backup", "--url", terminator.url, "--output", tmp_path / "a.backup", **trusting)
    assert done.returncode == 0, done.stderr
    assert run("check", "backup", tmp_path / "a.backup").returncode == 0


@pytest.mark.parametrize("scheme", ["https", "wss"])
def test_a_certificate_of_an_unknown_authority_is_refused(terminator, scheme):
    url = terminator.url.replace("https:", scheme + ":")
    done = run("export", "--url", url)
    assert done.returncode == BAD_CONFIGURATION and not done.stdout, (done.returncode, done.stdout)
    assert "certificate" in done.stderr and url in done.stderr, done.stderr
    assert "update-ca-certificates" in done.stderr, "the remedy"


def test_https_to_a_port_without_tls_is_an_error(servers):
    server = servers()
    done = run("export", "--url", f"https://127.0.0.1:{server.port}")
    assert done.returncode == BAD_CONFIGURATION and "127.0.0.1" in done.stderr, (done.returncode, done.stderr)


@pytest.mark.parametrize("url, word", [("http://127.0.0.1:1", "connect to"), ("http://no-such-host.invalid", "resolve")])
def test_a_server_that_cannot_be_reached(url, word):
    done = run("export", "--url", url)
    assert done.returncode == BAD_CONFIGURATION and word in done.stderr, (done.returncode, done.stderr)


def test_the_token_is_sent_and_not_sent_on_by_a_redirect(recorder):
    def refuse(handler):
        handler.send_response(302)
        handler.send_header("Location", other.url + "/elsewhere")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    other = recorder(refuse)
    first = recorder(refuse)
    done = run("export", "--url", first.url)
    assert done.returncode == BAD_DATA and "302" in done.stderr, (done.returncode, done.stderr)
    assert first.requests[0][1]["Authorization"] == "Bearer owner"
    assert first.requests[0][1].get("Accept-Encoding", "identity") == "identity"
    assert other.requests == []


@pytest.mark.parametrize("status, code", [(400, BAD_DATA), (401, BAD_CONFIGURATION), (404, BAD_CONFIGURATION), (503, OUR_FAULT)])
def test_an_error_of_the_server_is_shown(recorder, status, code):
    def refuse(handler):
        handler.send_response(status)
        handler.send_header("Content-Length", "14")
        handler.end_headers()
        handler.wfile.write(b'{"error":"xy"}')

    done = run("export", "--url", recorder(refuse).url)
    assert done.returncode == code, (done.returncode, done.stderr)
    assert str(status) in done.stderr and '{"error":"xy"}' in done.stderr
    assert ("--token-file" in done.stderr) == (status == 401)


def resident_bytes(process):
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def test_a_download_of_any_size_needs_bounded_memory_also_when_it_is_not_read(recorder):
    size = 400 * MEGABYTE

    def answer(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(size))
        handler.end_headers()
        # One string.
        handler.wfile.write(b'"' + b"x" * (MEGABYTE - 1))
        for _ in range(size // MEGABYTE - 2):
            handler.wfile.write(b"x" * MEGABYTE)
        handler.wfile.write(b"x" * (MEGABYTE - 1) + b'"')

    process = subprocess.Popen([str(server_module.BINARY), "export", "--url", recorder(answer).url, "--pretty"],
                               stdout=subprocess.PIPE, env=environment())
    most, count = 0, len(os.read(process.stdout.fileno(), 65536))
    deadline = time.monotonic() + 2  # the command's output is not read
    while time.monotonic() < deadline:
        most = max(most, resident_bytes(process))
        time.sleep(0.05)
    while piece := os.read(process.stdout.fileno(), MEGABYTE):
        count += len(piece)
        if count % (16 * MEGABYTE) < MEGABYTE:
            most = max(most, resident_bytes(process))
    assert process.wait(30) == 0 and count == size
    assert most < 100 * MEGABYTE, f"{most >> 20} MiB"


def test_a_chunked_response_and_an_empty_one(recorder):
    def chunked(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for piece in (b'{"a"', b":1}", b""):
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))

    def empty(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    assert run("export", "--url", recorder(chunked).url).stdout == '{"a":1}\n'
    done = run("export", "--url", recorder(empty).url)
    assert done.returncode == BAD_DATA and "not one whole JSON value" in done.stderr


def test_a_response_that_is_cut_off_is_bad_data(recorder, tmp_path):
    def cut(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"x" * 999)
        handler.close_connection = True

    done = run("export", "--url", recorder(cut).url, "--output", tmp_path / "out")
    assert done.returncode == BAD_DATA and "cut off" in done.stderr, (done.returncode, done.stderr)
    assert not list(tmp_path.glob("out*"))


def test_no_request_goes_through_a_proxy(servers, recorder):
    def answer(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "4")
        handler.end_headers()
        handler.wfile.write(b'"no"')

    proxy = recorder(answer).url
    variables = {name: proxy for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")}
    server = servers()
    assert run("export", "--url", f"http://127.0.0.1:{server.port}", **variables).stdout == "null\n"


def test_an_unknown_variable_is_a_warning_of_serve_only(servers):
    server = servers(start=False)
    server.environment = {"PANDO_NONSENSE": "1"}
    server.start()
    assert "warning" in server.stderr() and "PANDO_NONSENSE: not an option of pando serve; ignored" in server.stderr()
    assert run("export", "--url", f"http://127.0.0.1:{server.port}", PANDO_NONSENSE="1").returncode == 0


def test_variables_are_options(servers):
    server = servers(memory=True)
    with Connection(server.port, "default") as connection:
        connection.must("p", {"p": "/a", "d": 1})
    server.environment = {"PANDO_LOG_LEVEL": "nonsense"}
    server.terminate()
    with pytest.raises(server_module.StartFailure) as failure:
        server.start()
    assert failure.value.code == BAD_CONFIGURATION and "PANDO_LOG_LEVEL" in server.stderr()

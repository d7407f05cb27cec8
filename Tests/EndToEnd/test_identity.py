"""Identity: every kind of credential, in every place of a request, against the real binary (the authentication document)."""

import contextlib
import json
import pathlib
import secrets
import signal
import subprocess
import time

import pytest

import server as server_module
from issuer import AUDIENCE, Issuer, Key, hs256, self_signed, unsigned
from pando_client import DEADLINE, Closed, Connection
from preload import build_library
from rest_client import Refused, Rest, Wire
from test_cli import BAD_CONFIGURATION, USAGE, fails_to_start

OPEN = {"rules": {".read": True, ".write": True}}


@pytest.fixture
def issuer():
    one = Issuer()
    yield one
    one.stop()


class Secret:
    def __init__(self, folder):
        self.path = folder / "secret"
        self.change()

    def change(self):
        self.key = secrets.token_bytes(32)
        self.text = self.key.hex()
        self.path.write_text(self.text + "\n")

    def token(self, **claims):
        now = int(time.time())
        return hs256(self.key, {"sub": "alice", "iat": now, "exp": now + 600, **claims})

    def admin(self, **claims):
        return self.token(admin=True, **claims)


@pytest.fixture
def secret(tmp_path):
    return Secret(tmp_path)


@pytest.fixture
def serve(servers, tmp_path):
    """A server without --dev. `auth` is the object of the configuration file; `rules` those of `default`."""

    def make(*arguments, auth=None, rules=None, **options):
        if auth is not None:
            path = tmp_path / "pando.json"
            path.write_text(json.dumps({"auth": auth}))
            arguments += ("--config", path)
        if rules is not None:
            path = tmp_path / "rules.json"
            path.write_text(json.dumps(rules))
            arguments += ("--rules", path)
        return servers(dev=False, memory=True, arguments=arguments, **options)

    return make


def bearer(token):
    return ("Authorization", f"Bearer {token}")


def sign_in(server, token, action="auth", **options):
    """What a fresh connection is answered to a token: the status, and what stands beside it."""
    with Connection(server.port, "default") as connection:
        answer = connection.ask(action, {"cred": token, **options})
        return answer["s"], answer["d"]


def get(server, path="/x.json", **options):
    rest = Rest(server.port, "default")
    try:
        return rest.ask("GET", path, **options)
    finally:
        rest.close()


def oidc(issuer):
    return ("--oidc-issuer", issuer.url, "--oidc-audience", AUDIENCE)


# Accepted credentials


@pytest.mark.parametrize("action", ["auth", "gauth"])
def test_an_issuers_token_is_accepted_in_every_place(serve, issuer, action):
    server = serve(*oidc(issuer), rules=OPEN)
    token = issuer.token(role="editor", level=3)
    status, body = sign_in(server, token, action)
    assert status == "ok" and body["auth"]["uid"] == "alice"
    assert body["auth"]["provider"] == issuer.url.removeprefix("http://")
    assert body["auth"]["token"]["role"] == "editor" and body["auth"]["token"]["level"] == 3
    assert body["expires"] == body["auth"]["token"]["exp"]
    for path, fields in [
        (f"/x.json?auth={token}", []), (f"/x.json?access_token={token}", []), ("/x.json", [bearer(token)]),
    ]:
        get(server, path, fields=fields).expect(200, "null")


def test_rules_see_the_claims_of_the_client(serve, issuer, secret):
    own = {"$uid": {".read": "auth.uid == $uid", ".write": "auth.uid == $uid && auth.token.role == 'editor'"}}
    server = serve(*oidc(issuer), "--auth-secret-file", secret.path, rules={"rules": own})
    for token in (issuer.token(role="editor"), secret.token(role="editor")):
        rest = Rest(server.port, "default", fields=[bearer(token)])
        rest.ask("PUT", "/alice.json", "1").expect(200, "1")
        rest.ask("GET", "/bob.json").expect_error(401, "Permission denied")
        rest.close()
        with Connection(server.port, "default") as connection:
            listen = {"p": "/alice", "h": ""}
            assert connection.ask("q", listen)["s"] == "permission_denied"
            connection.must("auth", {"cred": token})
            connection.must("q", listen)
            assert connection.taken_pushes() == [("d", {"p": "alice", "d": 1})]
            connection.must("unauth", {})
            assert ("c", {"p": "alice"}) in connection.taken_pushes()
    reader = Rest(server.port, "default", fields=[bearer(secret.token(role="reader"))])
    reader.ask("PUT", "/alice.json", "2").expect_error(401, "Permission denied")
    as_alice = '/alice.json?auth_variable_override={"uid":"alice"}'
    admin = Rest(server.port, "default", fields=[bearer(secret.admin())])
    admin.ask("GET", as_alice).expect(200, "1")
    admin.ask("PUT", as_alice, "2").expect_error(401, "Permission denied")


def test_keys_are_fetched_once_for_many(serve, issuer):
    server = serve(*oidc(issuer))
    for _ in range(5):
        assert sign_in(server, issuer.token())[0] == "ok"
    assert issuer.key_requests == 1


def test_firebase_shaped_rules_work_with_any_issuer(serve, issuer):
    auth = {"issuers": [{"issuer": issuer.url, "audience": AUDIENCE, "sign_in_provider": "google.com"}]}
    status, body = sign_in(serve(auth=auth), issuer.token())
    assert status == "ok" and body["auth"]["provider"] == "google.com"
    assert body["auth"]["token"]["firebase"] == {"sign_in_provider": "google.com"}


def test_key_files(serve, tmp_path):
    key = Key("k1")
    pem, jwks = tmp_path / "key.pem", tmp_path / "keys.json"
    pem.write_bytes(key.public_pem)
    jwks.write_text(json.dumps({"keys": [key.jwk]}))
    now = int(time.time())
    token = key.sign({"iss": "me", "aud": "us", "sub": "bob", "iat": now, "exp": now + 60})
    for path in (pem, jwks):
        server = serve("--jwks-file", path, "--jwks-issuer", "me", "--jwks-audience", "us")
        status, body = sign_in(server, token)
        assert status == "ok" and body["auth"]["uid"] == "bob" and body["auth"]["provider"] == "me"


def test_legacy_tokens(serve, secret):
    server = serve("--auth-secret-file", secret.path)
    now = int(time.time())
    payload = {"uid": "u1", "x": {"y": 1}}
    status, body = sign_in(server, hs256(secret.key, {"v": 0, "iat": now, "d": payload}))
    assert status == "ok" and body == {"auth": payload, "expires": now + 86400}
    status, body = sign_in(server, hs256(secret.key, {"v": 0, "iat": now, "d": payload, "admin": True}))
    assert status == "ok" and body["auth"] is None
    assert sign_in(server, hs256(secret.key, {"v": 0, "iat": now - 25 * 3600, "d": payload}))[0] == "expired_token"


def test_several_secrets_at_once(serve, secret, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    other = Secret(other)
    server = serve("--auth-secret-file", secret.path, "--auth-secret-file", other.path)
    for one in (secret, other):
        assert sign_in(server, one.token())[0] == "ok"


@pytest.mark.parametrize("is_allowed", [True, False])
def test_a_secret_as_a_credential(serve, secret, is_allowed):
    flags = ["--allow-secret-as-admin"] if is_allowed else []
    server = serve("--auth-secret-file", secret.path, *flags)
    for path, fields, text in [
        (f"/x.json?auth={secret.text}", [], "Could not parse auth token."),
        (f"/x.json?access_token={secret.text}", [], "Unauthorized request."),
        ("/x.json", [bearer(secret.text)], "Unauthorized request."),
    ]:
        answer = get(server, path, fields=fields)
        answer.expect(200, "null") if is_allowed else answer.expect_error(401, text)
    for action in ("auth", "gauth"):
        status, body = sign_in(server, secret.text, action)
        assert (status, body) == (
            ("ok", {"auth": None, "expires": None}) if is_allowed
            else ("invalid_token", "Could not parse auth token."))
    changed = secret.text[:-1] + ("0" if secret.text[-1] != "0" else "1")
    get(server, "/x.json", fields=[bearer(changed)]).expect_error(401, "Unauthorized request.")


def test_a_token_of_pando_token_is_accepted(serve, secret):
    server = serve("--auth-secret-file", secret.path)
    made = server_module.run(
        "token", "--uid", "alice", "--ttl", "1h", "--claim", "role=admin", "--claim", "level=3",
        "--secret-file", secret.path)
    assert made.returncode == 0 and made.stdout.endswith("\n") and made.stdout.count("\n") == 1
    status, body = sign_in(server, made.stdout.strip())
    assert status == "ok" and body["auth"]["uid"] == "alice" and body["auth"]["provider"] == "custom"
    claims = body["auth"]["token"]
    assert claims["role"] == "admin" and claims["level"] == 3 and claims["exp"] == claims["iat"] + 3600
    for name, value in [("PANDO_AUTH_SECRET", secret.text), ("PANDO_AUTH_SECRET_FILE", str(secret.path))]:
        made = subprocess.run(
            [str(server_module.BINARY), "token", "--admin"], capture_output=True, text=True, timeout=60,
            stdin=subprocess.DEVNULL, env={**server_module.clean_environment(), name: value})
        get(server, fields=[bearer(made.stdout.strip())]).expect(200, "null")


def test_pando_token_reports_every_problem(secret):
    bad = server_module.run("token", "--ttl", "1 year", "--claim", "iss=x", "--claim", "x", "--secret-file", "/none")
    assert bad.returncode == USAGE and bad.stdout == ""
    for word in ("--uid", "--ttl", "--claim iss", '"x"', "/none"):
        assert word in bad.stderr, word


# Refused credentials


def forgeries(issuer, secret):
    """(what is wrong, token, whether its time is over)"""
    now = int(time.time())
    stranger = Key("k1")
    header = {"alg": "HS256", "kid": "k1", "typ": "JWT"}
    return [
        ("nonsense", "nonsense", False),
        ("empty parts", "..", False),
        ("owner", "owner", False),
        ("unsigned", unsigned(issuer.claims()), False),
        ("a public key as a secret", hs256(issuer.keys[0].public_pem, issuer.claims(), header), False),
        ("a stranger's key", stranger.sign(issuer.claims()), False),
        ("another secret", hs256(bytes(32), {"sub": "alice", "iat": now, "exp": now + 60}), False),
        ("another audience", issuer.token(aud="another"), False),
        ("another issuer", issuer.token(iss="https://example.org"), False),
        ("no subject", issuer.token(sub=None), False),
        ("no end", issuer.token(exp=None), False),
        ("expired", issuer.token(exp=now - 300), True),
        ("expired, of our own", secret.token(exp=now - 300), True),
        ("issued in the future", issuer.token(iat=now + 300), False),
        ("a path for a key id", issuer.token(header={"kid": "../../etc/passwd"}), False),
        ("an address for a key", issuer.token(key=stranger, header={"jku": issuer.url + "/evil"}), False),
        ("crit", issuer.token(header={"crit": ["exp"]}), False),
        ("a time in quotes", issuer.token(nbf=str(now)), False),
    ]


def test_forged_tokens(serve, issuer, secret):
    """A bad credential is an error even where rules allow all clients."""
    server = serve(*oidc(issuer), "--auth-secret-file", secret.path, rules=OPEN)
    get(server).expect(200, "null")
    for what, token, is_over in forgeries(issuer, secret):
        print(what)
        assert sign_in(server, token) == (
            ("expired_token", "Auth token is expired.") if is_over
            else ("invalid_token", "Could not parse auth token."))
        late = "Auth token is expired" if is_over else None
        get(server, f"/x.json?auth={token}").expect_error(401, late or "Could not parse auth token.")
        get(server, f"/x.json?access_token={token}").expect_error(401, late or "Unauthorized request.")
        get(server, fields=[bearer(token)]).expect_error(401, late or "Unauthorized request.")
    assert "/evil" not in issuer.requests
    assert sign_in(server, issuer.token())[0] == "ok"


def test_a_token_within_the_clock_skew_is_accepted(serve, secret):
    late = secret.token(exp=int(time.time()) - 5)
    assert sign_in(serve("--auth-secret-file", secret.path), late)[0] == "ok"
    strict = serve("--auth-secret-file", secret.path, "--auth-clock-skew", "0")
    assert sign_in(strict, late)[0] == "expired_token"


def test_admin_is_a_claim_that_the_operator_names(serve, issuer):
    auth = {"issuers": [{"issuer": issuer.url, "audience": AUDIENCE, "admin_claim": "db_admin"}]}
    server = serve(auth=auth)
    get(server, fields=[bearer(issuer.token(admin=True))]).expect_error(401, "Permission denied")
    get(server, fields=[bearer(issuer.token(db_admin="true"))]).expect_error(401, "Permission denied")
    get(server, fields=[bearer(issuer.token(db_admin=True))]).expect(200, "null")


# Several credentials, overrides, and what is looked at first


def test_of_two_credentials_the_header_counts(serve, secret):
    server = serve("--auth-secret-file", secret.path)
    get(server, "/x.json?auth=garbage", fields=[bearer(secret.admin())]).expect(200, "null")
    get(server, f"/x.json?auth={secret.admin()}", fields=[bearer("garbage")]).expect_error(401, "Unauthorized request.")


def test_only_an_administrator_may_act_as_another_user(serve, secret):
    server = serve("--auth-secret-file", secret.path)
    override = "/x.json?auth_variable_override="
    get(server, override + '{"uid":"u1"}', fields=[bearer(secret.admin())]).expect_error(401, "Permission denied")
    get(server, override + "null", fields=[bearer(secret.admin())]).expect_error(401, "Permission denied")
    get(server, override + "null", fields=[bearer(secret.token())]).expect_error(401, "Unauthorized request.")
    get(server, override + "null").expect_error(401, "Unauthorized request.")
    variable = {"uid": "u1", "token": {"http://x.y/z": True}}
    assert sign_in(server, secret.admin(), "gauth", authvar=variable)[1]["auth"] == variable
    status, body = sign_in(server, secret.admin(), "gauth", noauth=True)
    assert status == "ok" and body["auth"] is None
    for asked in ({"authvar": variable}, {"noauth": True}):
        assert sign_in(server, secret.token(), **asked) == ("invalid_token", "Access denied.")
    with Connection(server.port, "default") as connection:
        connection.must("gauth", {"cred": secret.admin(), "noauth": True})
        assert connection.ask("p", {"p": "/x", "d": 1})["s"] == "permission_denied"
        connection.must("gauth", {"cred": secret.admin()})
        connection.must("p", {"p": "/x", "d": 1})


def test_the_order_of_checks(serve, secret):
    """rest §9."""
    server = serve("--auth-secret-file", secret.path)
    rest = Rest(server.port, "default")
    bad = "auth=garbage"
    rest.ask("PUT", f"/x.json?ns=nowhere&{bad}", "{").expect_error(404)
    rest.ask("PUT", f"/a%23b.json?{bad}", "{").expect_error(400, "Invalid path: Invalid token in path")
    rest.ask("GET", f"/x.json?limitToFirst=1&{bad}").expect_error(400)
    rest.ask("PUT", f"/x.json?{bad}", "{").expect_error(401, "Could not parse auth token.")
    rest.ask("PUT", f"/x.json?auth={secret.token()}", "{").expect_error(
        400, "Invalid data; couldn't parse JSON object, array, or value.")
    rest.ask("PUT", f"/x.json?auth={secret.token()}", "1").expect_error(401, "Permission denied")
    rest.ask("PUT", f"/x.json?auth={secret.admin()}", "1").expect(200, "1")
    rest.close()


# Issuers that change, fail, and take their time


def test_an_unknown_key_is_fetched_once(serve, issuer):
    server = serve(*oidc(issuer))
    assert sign_in(server, issuer.token())[0] == "ok"
    fresh = Key("k2")
    issuer.keys.append(fresh)
    assert sign_in(server, issuer.token(fresh))[0] == "ok"
    assert issuer.key_requests == 2
    for _ in range(5):
        assert sign_in(server, issuer.token(Key("k3")))[0] == "invalid_token"
    assert issuer.key_requests == 2, "at most once a minute"


def test_an_issuer_that_is_down(serve, issuer):
    server = serve(*oidc(issuer))
    token = issuer.token()
    assert sign_in(server, token)[0] == "ok"
    issuer.stop()
    assert sign_in(server, token)[0] == "ok", "its keys are kept"
    assert sign_in(server, issuer.token(Key("k2")))[0] == "invalid_token"
    server.wait_for_log(f"keys of {issuer.url}")
    assert sign_in(server, token)[0] == "ok"


def test_an_issuer_that_is_never_reachable(serve, issuer):
    issuer.stop()
    server = serve(*oidc(issuer), rules=OPEN)
    # The token cannot be checked now, so it is not refused as bad.
    get(server, fields=[bearer(issuer.token())]).expect_error(503, "Service unavailable")
    assert sign_in(server, issuer.token())[0] == "unavailable"
    get(server).expect(200, "null")


@pytest.fixture
def secure_issuer(tmp_path):
    """Over HTTPS, with a certificate that vouches for itself: `one.certificate`."""
    certificate, private = self_signed(tmp_path)
    one = Issuer(certificate, private)
    one.certificate = certificate
    yield one
    one.stop()


@pytest.mark.skipif(
    not pathlib.Path("/etc/ssl/certs/ca-certificates.crt").exists(), reason="ca-certificates is not installed")
def test_keys_are_fetched_over_tls(serve, secure_issuer, tmp_path):
    server = serve(*oidc(secure_issuer), rules=OPEN, start=False)
    library = build_library(tmp_path, pathlib.Path(__file__).parent / "trust.c")
    server.environment = {"LD_PRELOAD": str(library), "TEST_TRUSTED_CERTIFICATES": str(secure_issuer.certificate)}
    server.start()
    status, body = sign_in(server, secure_issuer.token())
    assert status == "ok" and body["auth"]["uid"] == "alice"
    assert secure_issuer.key_requests == 1
    assert sign_in(server, secure_issuer.token(Key("k2")))[0] == "invalid_token"


def test_keys_over_tls_of_an_unknown_authority_are_not_used(serve, secure_issuer):
    server = serve(*oidc(secure_issuer), rules=OPEN)
    assert sign_in(server, secure_issuer.token())[0] == "unavailable"
    server.wait_for_log("certificate")
    assert secure_issuer.requests == [], "nothing was asked of it"


def slow_server(serve, issuer, *arguments):
    """One loop, an issuer that does not answer yet, and rules that admit only administrators."""
    issuer.gate.clear()
    auth = {"issuers": [{"issuer": issuer.url, "audience": AUDIENCE, "admin_claim": "boss"}]}
    return serve("--loops", "1", *arguments, auth=auth)


def test_requests_wait_for_a_verification_and_others_do_not(serve, issuer, secret):
    server = slow_server(serve, issuer, "--auth-secret-file", secret.path)
    with Connection(server.port, "default") as slow, Connection(server.port, "default") as other:
        asked = [
            slow.request("auth", {"cred": issuer.token(boss=True)}),
            slow.request("p", {"p": "/a", "d": 1}),
            slow.request("g", {"p": "/a", "q": {}}),
            slow.request("unauth", {}),
            slow.request("p", {"p": "/a", "d": 2}),
            slow.request("auth", {"cred": "nonsense"}),
            slow.request("auth", {"cred": secret.admin()}),
            slow.request("p", {"p": "/a", "d": 3}),
        ]
        issuer.wait_for_request("/.well-known/openid-configuration")
        # The same loop goes on: a whole conversation of another client, over both protocols.
        other.must("auth", {"cred": secret.admin()})
        for number in range(20):
            other.must("p", {"p": "/b", "d": number})
        get(server, "/b.json", fields=[bearer(secret.admin())]).expect(200, "19")
        assert other.get("/a") is None, "nothing behind the token has happened"
        issuer.gate.set()
        answers = [slow.response(number) for number in asked]
    assert [answer["s"] for answer in answers] == [
        "ok", "ok", "ok", "ok", "permission_denied", "invalid_token", "ok", "ok"]
    assert answers[2]["d"] == 1


def test_pipelined_rest_requests_wait_in_order(serve, issuer, secret):
    server = slow_server(serve, issuer, "--auth-secret-file", secret.path)
    slow = Wire(server.port)
    target = "/a.json?ns=default"
    slow.send(
        Wire.request_bytes("PUT", target, "1", [bearer(issuer.token(boss=True))])
        + Wire.request_bytes("GET", target, None, [bearer(secret.admin())])
        + Wire.request_bytes("GET", target, None, [bearer("nonsense")])
        + Wire.request_bytes("GET", target))
    issuer.wait_for_request("/.well-known/openid-configuration")
    get(server, "/a.json", fields=[bearer(secret.admin())]).expect(200, "null")
    issuer.gate.set()
    slow.receive("PUT").expect(200, "1")
    slow.receive().expect(200, "1")
    slow.receive().expect_error(401, "Unauthorized request.")
    slow.receive().expect_error(401, "Permission denied")
    slow.close()


def test_a_client_that_disconnects_during_a_verification_leaves_no_state(serve, issuer):
    server = slow_server(serve, issuer)
    for _ in range(20):
        connection = Connection(server.port, "default")
        connection.request("auth", {"cred": issuer.token()})
        connection.request("p", {"p": "/a", "d": 1})
        connection.cut()
        wire = Wire(server.port)
        wire.send(Wire.request_bytes("GET", "/a.json?ns=default", None, [bearer(issuer.token())]))
        wire.close()
    issuer.wait_for_request("/.well-known/openid-configuration")
    issuer.gate.set()
    assert sign_in(server, issuer.token())[0] == "ok"
    assert server.terminate() == 0


# When time is over


def test_a_live_connection_is_notified_that_its_token_has_expired(serve, secret):
    server = serve("--auth-secret-file", secret.path)
    end = int(time.time()) + 3
    with Connection(server.port, "default") as connection:
        assert connection.must("auth", {"cred": secret.admin(exp=end)})["expires"] == end
        connection.must("p", {"p": "/x", "d": 1})
        connection.must("q", {"p": "/x", "h": ""})
        pushes = []
        while not any(name == "ac" for name, _ in pushes):
            kind, name, body = connection.next_data()
            assert kind == "push"
            pushes.append((name, body))
        assert time.time() >= end, "not before"
        assert ("ac", {"s": "expired_token", "d": "Auth token is expired."}) in pushes
        assert connection.ask("p", {"p": "/x", "d": 2})["s"] == "permission_denied"
        pushes += connection.taken_pushes()
        assert ("c", {"p": "x"}) in pushes, "the denied listen gets no pushes any more"
        # The client refreshes; what it does then counts again.
        connection.must("auth", {"cred": secret.admin()})
        connection.must("p", {"p": "/x", "d": 3})


def test_a_refreshed_token_counts_from_then_on(serve, secret):
    server = serve("--auth-secret-file", secret.path)
    end = int(time.time()) + 3
    with Connection(server.port, "default") as connection, Connection(server.port, "default") as old:
        for one in (connection, old):
            one.must("auth", {"cred": secret.admin(exp=end)})
        connection.must("auth", {"cred": secret.admin()})
        # The other connection's news is how we know that the time is over.
        assert old.next_data()[1] == "ac"
        connection.must("p", {"p": "/x", "d": 1})
        assert connection.taken_pushes() == []


def test_an_event_stream_ends_with_its_token(serve, secret):
    server = serve("--auth-secret-file", secret.path)
    admin = Rest(server.port, "default", fields=[bearer(secret.admin())])
    for carrier in ("auth", "bearer"):
        end = int(time.time()) + 3
        token = secret.admin(exp=end)
        query, fields = ("", [bearer(token)]) if carrier == "bearer" else (f"auth={token}", [])
        stream = Rest(server.port, "default").stream("/x", query, fields)
        stream.put("/", None)
        while (event := stream.next_raw())[0] == "put":
            pass
        assert event == ("auth_revoked", "credential is no longer valid")
        assert time.time() >= end, "not before"
        stream.expect_closed()
        stream.close()
        admin.put("/x/a", 1)
        admin.put("/x", None)
    with pytest.raises(Refused) as refused:
        Rest(server.port, "default").stream("/x", f"auth={secret.admin(exp=int(time.time()) - 300)}")
    refused.value.response.expect_error(401, "Auth token is expired")


# The operator


def test_secrets_are_read_again(serve, secret):
    server = serve("--auth-secret-file", secret.path)
    old = secret.token()
    assert sign_in(server, old)[0] == "ok"
    secret.change()
    server.signal(signal.SIGHUP)
    deadline = time.monotonic() + DEADLINE
    while sign_in(server, secret.token())[0] != "ok":
        assert time.monotonic() < deadline, "the new secret does not count"
    assert sign_in(server, old)[0] == "invalid_token"
    secret.path.write_text("short")
    server.signal(signal.SIGHUP)
    server.wait_for_log("the earlier keys stay in use")
    assert sign_in(server, secret.token())[0] == "ok"


def hears_that_it_is_over(connection):
    """Waits for the push that the credential no longer counts; what comes before it is passed over."""
    while True:
        kind, name, body = connection.next_data()
        if kind == "push" and name == "ac":
            assert body == {"s": "expired_token", "d": "Auth token is no longer accepted."}
            return


@pytest.mark.parametrize("how", ["signal", "file"])
def test_sessions_of_a_removed_secret_are_signed_out(serve, secret, tmp_path, how):
    (tmp_path / "kept").mkdir()
    kept = Secret(tmp_path / "kept")
    server = serve(
        "--auth-secret-file", secret.path, "--auth-secret-file", kept.path, "--allow-secret-as-admin")
    with Connection(server.port, "default") as token, Connection(server.port, "default") as other, Connection(
            server.port, "default") as shown:
        token.must("auth", {"cred": secret.admin()})
        shown.must("gauth", {"cred": secret.text})
        other.must("auth", {"cred": kept.admin()})
        token.must("q", {"p": "/x", "h": ""})
        streams = [
            Rest(server.port, "default").stream("/x", "", [bearer(one.admin())]) for one in (secret, kept)]
        for stream in streams:
            stream.put("/", None)
        secret.change()
        if how == "signal":
            server.signal(signal.SIGHUP)
        hears_that_it_is_over(token)
        hears_that_it_is_over(shown)
        assert token.ask("p", {"p": "/x", "d": 1})["s"] == "permission_denied"
        assert streams[0].next_raw() == ("auth_revoked", "credential is no longer valid")
        streams[0].expect_closed()
        # Sessions of the other secret stay signed in.
        other.must("p", {"p": "/x", "d": 2})
        streams[1].put("/", 2)
        assert other.taken_pushes() == []
        for stream in streams:
            stream.close()
        token.must("auth", {"cred": secret.admin()})
        token.must("p", {"p": "/x", "d": 3})


def test_revocations_are_read_again(serve, secret, tmp_path):
    auth = {"secrets": [{"file": str(secret.path)}]}
    server = serve(auth=auth)
    now = int(time.time())
    old, fresh = secret.admin(auth_time=now - 60), secret.admin(auth_time=now)
    with Connection(server.port, "default") as early, Connection(server.port, "default") as late:
        early.must("auth", {"cred": old})
        late.must("auth", {"cred": fresh})
        (tmp_path / "pando.json").write_text(json.dumps({"auth": {**auth, "revoked_before": {"alice": now - 30}}}))
        server.signal(signal.SIGHUP)
        hears_that_it_is_over(early)
        late.must("p", {"p": "/x", "d": 1})
        assert late.taken_pushes() == []
    assert sign_in(server, old)[0] == "invalid_token"
    assert sign_in(server, fresh)[0] == "ok"


@pytest.mark.parametrize("count", [1, 64, 200])
def test_bad_tokens_are_answered_in_order_up_to_a_number(serve, secret, count):
    server = serve("--auth-secret-file", secret.path)
    with Connection(server.port, "default") as connection:
        asked = []
        with contextlib.suppress(Closed):  # the server may stop before it has read them all
            for number in range(count):
                asked.append(connection.request("auth", {"cred": secret.token(exp=1, n=number)}))
        for number in asked[:64]:
            assert connection.response(number)["s"] == "expired_token"
        if count < 64:
            connection.must("auth", {"cred": secret.admin()})
        else:
            assert connection.expect_closed() == []


def test_many_good_tokens_at_once(serve, secret):
    """Thousands of them in one piece, each behind the one before it, and each with its answer."""
    server = serve("--auth-secret-file", secret.path)
    tokens = [secret.admin(n=number) for number in range(20)]
    with Connection(server.port, "default") as connection:
        asked = []
        for number in range(3000):
            asked.append(connection.request("auth", {"cred": tokens[number % len(tokens)]}))
            asked.append(connection.request("p", {"p": "/n", "d": number}))
        for number in asked:
            assert connection.response(number)["s"] == "ok"
        assert connection.get("/n") == 2999


def test_requests_behind_a_verification_are_not_read(serve, issuer, secret):
    """The server keeps what one read has brought, and leaves the rest to the sockets; then all of it is answered."""
    server = slow_server(serve, issuer, "--auth-secret-file", secret.path)
    with Connection(server.port, "default") as connection:
        asked = [connection.request("auth", {"cred": issuer.token(boss=True)})]
        issuer.wait_for_request("/.well-known/openid-configuration")
        asked += [connection.request("p", {"p": f"/{number % 10}", "d": "x" * 90}) for number in range(2000)]
        issuer.gate.set()
        for number in asked:
            assert connection.response(number)["s"] == "ok"


# What a revoked credential has left to be done


def eventually(look, wanted):
    """Looks again until it sees this: no event announces the end of another session."""
    deadline = time.monotonic() + DEADLINE
    while (seen := look()) != wanted:
        assert time.monotonic() < deadline, f"{seen!r}, expected {wanted!r}"
        time.sleep(0.01)


def queue(connection, name, value="ran"):
    connection.must("o", {"p": f"/left/{name}", "d": value})


@pytest.mark.parametrize("kind", ["secret", "admin token", "user token"])
def test_on_disconnect_writes_of_a_revoked_credential_are_dropped(serve, secret, tmp_path, kind):
    (tmp_path / "kept").mkdir()
    kept = Secret(tmp_path / "kept")
    server = serve(
        "--auth-secret-file", secret.path, "--auth-secret-file", kept.path, "--allow-secret-as-admin",
        rules={"rules": {"left": {".write": "auth != null"}}})
    credential = {"secret": secret.text, "admin token": secret.admin(), "user token": secret.token()}[kind]
    watcher = Rest(server.port, "default", fields=[bearer(kept.admin())])
    with Connection(server.port, "default") as revoked, Connection(server.port, "default") as other:
        revoked.must("auth", {"cred": credential})
        queue(revoked, "revoked")
        revoked.must("om", {"p": "/left", "d": {"also": 1, "deep/er": 2}})
        other.must("auth", {"cred": kept.admin()})
        queue(other, "other")
        secret.change()
        server.signal(signal.SIGHUP)
        hears_that_it_is_over(revoked)
        # What it queues from now on belongs to another sign-in.
        revoked.must("auth", {"cred": kept.token()})
        queue(revoked, "after")
        revoked.cut()
        other.cut()
        eventually(lambda: watcher.get("/left"), {"other": "ran", "after": "ran"})


@pytest.mark.parametrize("identity", ["admin", "user"])
def test_a_session_loses_only_the_writes_that_the_revoked_sign_in_queued(serve, secret, tmp_path, identity):
    """Signed in by one secret, then by another, and even as the same: the first is taken away."""
    (tmp_path / "kept").mkdir()
    kept = Secret(tmp_path / "kept")
    server = serve(
        "--auth-secret-file", secret.path, "--auth-secret-file", kept.path,
        rules={"rules": {"left": {".write": "auth != null"}}})
    watcher = Rest(server.port, "default", fields=[bearer(kept.admin())])

    def token(by):
        # A legacy token: what rules see of it is the same, whichever secret signs it.
        return hs256(by.key, {"v": 0, "iat": int(time.time()), "d": {"uid": "alice"}, "admin": identity == "admin"})

    with Connection(server.port, "default") as connection:
        for name, by in [("revoked", secret), ("kept", kept), ("again", secret)]:
            connection.must("auth", {"cred": token(by)})
            queue(connection, name, {"x": 1, "y": 2})
        # One that both have put something into goes with either.
        queue(connection, "kept/by-revoked")
        connection.must("auth", {"cred": token(kept)})
        queue(connection, "mine", {"a": 1})
        queue(connection, "again/by-kept")
        secret.change()
        server.signal(signal.SIGHUP)
        server.wait_for_log("keys, secrets or revocations have changed")
        connection.must("s", {"c": {}})
        connection.must("p", {"p": "/left/alive", "d": 1})  # it is signed in by the other secret
        connection.cut()
        eventually(lambda: watcher.get("/left"), {"alive": 1, "mine": {"a": 1}})


def test_expiry_signing_out_and_changing_leave_the_queue(serve, secret):
    server = serve("--auth-secret-file", secret.path, rules={"rules": {"left": {".write": "auth != null"}}})
    watcher = Rest(server.port, "default", fields=[bearer(secret.admin())])
    with Connection(server.port, "default") as expiring, Connection(server.port, "default") as leaving, Connection(
            server.port, "default") as changing:
        expiring.must("auth", {"cred": secret.token(exp=int(time.time()) - 57)})  # within the skew, for three seconds
        leaving.must("auth", {"cred": secret.token()})
        changing.must("auth", {"cred": secret.token()})
        queue(expiring, "expiring")
        queue(leaving, "leaving")
        queue(changing, "changing")
        leaving.must("unauth", {})
        changing.must("auth", {"cred": secret.token(sub="bob")})
        while (event := expiring.next_data())[1] != "ac":
            pass
        assert event[2] == {"s": "expired_token", "d": "Auth token is expired."}
        for one in (expiring, leaving, changing):
            one.cut()
        eventually(lambda: watcher.get("/left"), {name: "ran" for name in ("expiring", "leaving", "changing")})


def test_writes_queued_before_signing_out_are_revoked_too(serve, secret, tmp_path):
    auth = {"secrets": [{"file": str(secret.path)}]}
    server = serve(auth=auth, rules={"rules": {"left": {".write": "auth != null"}}})
    now = int(time.time())
    watcher = Rest(server.port, "default", fields=[bearer(secret.admin(sub="root"))])
    with Connection(server.port, "default") as gone, Connection(server.port, "default") as bob:
        gone.must("auth", {"cred": secret.token(auth_time=now - 60)})
        queue(gone, "gone")
        gone.must("auth", {"cred": secret.token(auth_time=now)})
        queue(gone, "signed-in-again")
        gone.must("unauth", {})
        bob.must("auth", {"cred": secret.token(sub="bob", auth_time=now - 60)})
        queue(bob, "bob")
        (tmp_path / "pando.json").write_text(json.dumps({"auth": {**auth, "revoked_before": {"alice": now - 30}}}))
        server.signal(signal.SIGHUP)
        server.wait_for_log("keys, secrets or revocations have changed")
        gone.must("s", {"c": {}})
        gone.cut()
        bob.cut()
        eventually(lambda: watcher.get("/left"), {"signed-in-again": "ran", "bob": "ran"})


def test_revoked_writes_stay_revoked_after_a_crash(servers, secret, tmp_path):
    (tmp_path / "kept").mkdir()
    kept = Secret(tmp_path / "kept")
    server = servers(
        dev=False, data=tmp_path / "data",
        arguments=["--auth-secret-file", secret.path, "--auth-secret-file", kept.path])
    with Connection(server.port, "default") as connection:
        connection.must("auth", {"cred": secret.admin()})
        queue(connection, "revoked")
        connection.must("auth", {"cred": kept.admin()})
        queue(connection, "kept")
        secret.change()
        server.signal(signal.SIGHUP)
        server.wait_for_log("keys, secrets or revocations have changed")
        connection.must("p", {"p": "/alive", "d": 1})  # its answer waits for the journal, and the revocation is before it
        server.restart()
    watcher = Rest(server.port, "default", fields=[bearer(kept.admin())])
    assert watcher.get("/") == {"alive": 1, "left": {"kept": "ran"}}


def test_a_refused_token_leaves_the_earlier_one_valid(serve, secret):
    """Signing in that fails changes nothing, over either verb; the earlier credential ends as it would have (4.2)."""
    server = serve("--auth-secret-file", secret.path, rules={"rules": {"$uid": {
        ".read": "auth.uid == $uid", ".write": "auth.uid == $uid"}}})
    with Connection(server.port, "default") as connection:
        connection.must("auth", {"cred": secret.token()})
        connection.must("q", {"p": "/alice", "h": ""})
        connection.must("o", {"p": "/alice/left", "d": "ran"})
        for verb in ("auth", "gauth"):
            for bad in ("nonsense", secret.token(exp=1), hs256(b"x" * 32, {"sub": "bob", "iat": int(time.time())})):
                assert connection.ask(verb, {"cred": bad})["s"] in ("invalid_token", "expired_token")
                connection.must("p", {"p": "/alice/x", "d": bad[:5]})
                assert connection.ask("p", {"p": "/bob/x", "d": 1})["s"] == "permission_denied"
        # Nor may a user be taken for another one.
        assert connection.ask("auth", {"cred": secret.token(), "authvar": {"uid": "bob"}})["s"] != "ok"
        connection.must("p", {"p": "/alice/x", "d": "still"})
        assert not [push for push in connection.taken_pushes() if push[0] == "c"], "no listen is revoked"
        connection.cut()
    watcher = Rest(server.port, "default", fields=[bearer(secret.admin())])
    eventually(lambda: watcher.get("/alice"), {"x": "still", "left": "ran"})


def test_every_problem_is_reported_before_the_server_starts(servers, tmp_path):
    short = tmp_path / "short"
    short.write_text("tooshort!")
    said = fails_to_start(
        servers, BAD_CONFIGURATION, dev=False, memory=True,
        arguments=[
            "--auth-secret-file", "/none", "--auth-secret-file", short, "--oidc-issuer", "http://id.example.org",
            "--oidc-audience", "x", "--jwks-file", "/none.pem", "--auth-clock-skew", "61"])
    for word in ("/none", str(short), "http://id.example.org", "--jwks-issuer", "--auth-clock-skew"):
        assert word in said, word
    assert "tooshort!" not in said, "a secret is quoted"


def test_check_config_looks_at_the_auth_object(tmp_path, secret):
    path = tmp_path / "pando.json"
    good = {"data": "d", "auth": {"secrets": [{"id": "2026", "file": str(secret.path)}], "clock_skew_s": 5}}
    path.write_text(json.dumps(good))
    assert server_module.run("check", "config", path).returncode == 0
    path.write_text(json.dumps({"data": "d", "auth": {"secrets": [{"file": "/none"}], "colour": 1, "issuers": [{}]}}))
    bad = server_module.run("check", "config", path)
    assert bad.returncode == 1
    for word in ("/none", "auth.colour", "auth.issuers[0].issuer: missing", "auth.issuers[0].audience: missing"):
        assert word in bad.stdout, word


@pytest.mark.parametrize("mode, warns", [(0o600, False), (0o640, False), (0o644, True)])
def test_a_secret_that_everybody_may_read(serve, tmp_path, secret, mode, warns):
    secret.path.chmod(mode)
    server = serve("--auth-secret-file", secret.path)
    if warns:
        server.wait_for_log("may read the secret")
    server.terminate()
    assert ("may read the secret" in server.stderr()) == warns
    path = tmp_path / "checked.json"
    # Kubernetes mounts secrets as symbolic links.
    link = tmp_path / "link"
    link.symlink_to(secret.path)
    for file in (secret.path, link):
        path.write_text(json.dumps({"data": "d", "auth-secret-file": [str(file)]}))
        assert ("may read the secret" in server_module.run("check", "config", path).stderr) == warns


def test_check_config_warns_of_shared_uids(tmp_path, secret):
    path = tmp_path / "pando.json"
    issuers = [{"issuer": f"https://{name}.example.org", "audience": "x"} for name in ("a", "b")]
    for count in (1, 2):
        path.write_text(json.dumps({"data": "d", "auth": {"issuers": issuers[:count]}}))
        said = server_module.run("check", "config", path)
        assert said.returncode == 0
        assert ("share one space of uids" in said.stderr) == (count == 2)


def test_no_secret_is_logged(serve, issuer, secret):
    """With everything said that can be said, over every carrier, tokens good and bad."""
    server = serve(
        *oidc(issuer), "--auth-secret-file", secret.path, "--allow-secret-as-admin", "--log-level", "trace", rules=OPEN)
    tokens = [issuer.token(), secret.token(), secret.admin(), secret.text]
    tokens += [token for _, token, _ in forgeries(issuer, secret) if len(token) > 10]
    for token in tokens:
        sign_in(server, token)
        sign_in(server, token, "gauth", authvar={"uid": "u1"})
        get(server, f"/x.json?auth={token}")
        get(server, f"/x.json?access_token={token}")
        get(server, fields=[bearer(token)])
        get(server, f"/a%23b.json?auth={token}")
        get(server, f"/x.json?auth={token}&ns=nowhere")
    raw = Wire(server.port)
    raw.send(f"GET /x.json?auth={tokens[0]} NONSENSE\r\n\r\n".encode())
    raw.receive().expect(400)
    raw.close()
    assert server.terminate() == 0
    log = server.stderr(limit=1 << 30)
    assert "token refused" in log, "the log says why, without the token"
    for token in [*tokens, secret.key.hex()]:
        assert token not in log
        for piece in token.split("."):
            assert len(piece) < 30 or piece not in log

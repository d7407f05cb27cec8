"""An OpenID Connect issuer on loopback, and tokens of every kind, good and forged.

Tokens are made with PyJWT and `cryptography`; what no library signs is put together by hand.
"""

import base64
import contextlib
import hashlib
import hmac
import datetime
import http.server
import ipaddress
import json
import ssl
import threading
import time

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from pando_client import DEADLINE

AUDIENCE = "rtdb"


def part(value):
    """One part of a token: JSON, or bytes, in the URL's Base64."""
    data = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def hs256(key, claims, header=None):
    """A token signed with any bytes, also those that PyJWT refuses."""
    signed = f'{part(header or {"alg": "HS256", "typ": "JWT"})}.{part(claims)}'
    return f"{signed}.{part(hmac.new(key, signed.encode(), hashlib.sha256).digest())}"


def unsigned(claims):
    return f'{part({"alg": "none", "type": "JWT"})}.{part(claims)}.'


class Key:
    """An RSA key pair with its id."""

    def __init__(self, name):
        self.name = name
        self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @property
    def jwk(self):
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {**public, "kid": self.name, "use": "sig"}

    @property
    def public_pem(self):
        return self.private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def sign(self, claims, header=None):
        return jwt.encode(claims, self.private, algorithm="RS256", headers={"kid": self.name, **(header or {})})


def self_signed(folder, address="127.0.0.1", days=1):
    """A certificate for an address, which vouches for itself, and its key: two files of PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "an issuer on this machine")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=2)).not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256()))
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "private.pem").write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return folder / "certificate.pem", folder / "private.pem"


class Issuer:
    """Discovery and keys over HTTP. `gate` holds every answer back while it is cleared.

    With the two files of `self_signed`, over HTTPS."""

    def __init__(self, certificate=None, private=None):
        self.keys = [Key("k1")]
        self.requests = []  # paths, in the order in which they came
        self.gate = threading.Event()
        self.gate.set()
        self.changed = threading.Condition()
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle(self):
                # A client that does not trust the certificate disconnects in the middle of the handshake.
                with contextlib.suppress(ssl.SSLError, ConnectionResetError):
                    super().handle()

            def do_GET(self):
                with issuer.changed:
                    issuer.requests.append(self.path)
                    issuer.changed.notify_all()
                issuer.gate.wait(60)
                documents = {
                    "/.well-known/openid-configuration": {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"},
                    "/keys": {"keys": [key.jwk for key in issuer.keys]},
                }
                body = json.dumps(documents.get(self.path, {})).encode()
                self.send_response(200 if self.path in documents else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Cache-Control", "public, max-age=600")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        scheme = "http"
        if certificate:
            scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, private)
            # The handshake belongs to the thread of its connection: one that fails does not delay others.
            self.server.socket = context.wrap_socket(
                self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{scheme}://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def key_requests(self):
        return self.requests.count("/keys")

    def wait_for_request(self, path):
        with self.changed:
            assert self.changed.wait_for(lambda: path in self.requests, DEADLINE), f"{path} was not asked for"

    def claims(self, **changes):
        """Claims of a good token; `None` takes one out."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + 600, **changes}
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, key=None, header=None, **changes):
        return (key or self.keys[0]).sign(self.claims(**changes), header)

    def stop(self):
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()

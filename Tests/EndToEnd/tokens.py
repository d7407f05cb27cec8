"""Credentials for tests: unsigned emulator tokens (auth §2.5)."""

import base64
import json


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unsigned(uid, **claims):
    """What the emulator's helper makes: `alg` none, an empty signature, times long gone."""
    header = {"alg": "none", "type": "JWT"}
    body = {
        "sub": uid,
        "user_id": uid,
        "iat": 0,
        "exp": 3600,
        "auth_time": 0,
        "firebase": {"sign_in_provider": "custom", "identities": {}},
        **claims,
    }
    return ".".join([base64url(json.dumps(header).encode()), base64url(json.dumps(body).encode()), ""])


def bearer(token):
    """The header field that signs a REST request in."""
    return ("Authorization", f"Bearer {token}")

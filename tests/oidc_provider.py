"""A small OpenID provider on the loopback, with keys that can be changed and answers that lie."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CLIENT, SECRET = "vgpumgr", "s3cret/+"
Claims = dict[str, Any]


class Provider:
    """It knows one user. ``change`` alters the claims of an ID token before it is signed,
    ``encode`` is how it is signed; ``userinfo`` are more claims.
    """

    def __init__(self) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        self.asked: list[str] = []
        self.codes: dict[str, dict[str, str]] = {}
        self.devices: dict[str, str] = {}
        self.tokens: set[str] = set()
        self.claims: Claims = {"sub": "u-1", "preferred_username": "ada", "groups": ["cad", "ops"]}
        self.userinfo: Claims = {"sub": "u-1"}
        self.change: Callable[[Claims], None] = lambda _: None
        self.encode: Callable[[Claims], str] = self.sign
        self.published = True
        self.description: Claims = {}
        self.keys: list[tuple[str, rsa.RSAPrivateKey]] = []
        self.rotate("k1")

    def rotate(self, kid: str) -> None:
        """Sign with a new key from now on, and publish that alone."""
        self.keys = [(kid, rsa.generate_private_key(65537, 2048))]

    def sign(self, claims: Claims, **header: Any) -> str:
        kid, key = self.keys[0]
        return jwt.encode(claims, key, "RS256", headers={"kid": kid, **header})

    def log_in(self, url: str) -> dict[str, str]:
        """The browser's part: the user agrees, and the browser is sent back with this query."""
        query = dict(parse_qsl(urlsplit(url).query))
        assert (query["client_id"], query["code_challenge_method"]) == (CLIENT, "S256")
        assert "openid" in query["scope"].split()
        code = secrets.token_hex(8)
        self.codes[code] = query
        return {"code": code, "state": query["state"], "iss": self.issuer}

    def jwks(self) -> Claims:
        keys = [
            {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig"}
            for kid, key in self.keys
        ]
        return {"keys": keys if self.published else []}

    def described(self) -> Claims:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/auth",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "device_authorization_endpoint": f"{self.issuer}/device",
            "jwks_uri": f"{self.issuer}/jwks",
            **self.description,
        }

    def given(self, nonce: str | None) -> Claims:
        now = time.time()
        access = secrets.token_hex(16)
        self.tokens.add(access)
        half = hashlib.sha256(access.encode()).digest()[:16]
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "exp": now + 300,
            "iat": now,
            "at_hash": base64.urlsafe_b64encode(half).decode().rstrip("="),
            **({"nonce": nonce} if nonce else {}),
            **self.claims,
        }
        self.change(claims)
        return {
            "access_token": access,
            "token_type": "Bearer",
            "id_token": self.encode(
                {key: each for key, each in claims.items() if each is not None}
            ),
        }

    def token(self, form: dict[str, str]) -> tuple[int, Claims]:
        if form["grant_type"].endswith("device_code"):
            state = self.devices.get(form["device_code"], "expired_token")
            return (200, self.given(None)) if state == "done" else (400, {"error": state})
        query = self.codes.pop(form["code"], None)
        if query is None or query["redirect_uri"] != form["redirect_uri"]:
            return 400, {"error": "invalid_grant", "error_description": "used, or never given"}
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != query["code_challenge"]:
            return 400, {"error": "invalid_grant", "error_description": "PKCE"}
        return 200, self.given(query["nonce"])

    def device(self, base: str) -> Claims:
        code = secrets.token_hex(8)
        self.devices[code] = "authorization_pending"
        return {
            "device_code": code,
            "user_code": "ABCD-EFGH",
            "verification_uri": f"{base}/activate",
            "verification_uri_complete": f"{base}/activate?code=ABCD-EFGH",
            "expires_in": 600,
            "interval": 2,
        }


def _handler(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def _answer(self, status: int, found: Claims) -> None:
            text = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self) -> None:
            provider.asked.append(self.path)
            match self.path:
                case "/.well-known/openid-configuration":
                    self._answer(200, provider.described())
                case "/jwks":
                    self._answer(200, provider.jwks())
                case "/userinfo":
                    token = self.headers.get("Authorization", "").removeprefix("Bearer ")
                    known = token in provider.tokens
                    self._answer(200 if known else 401, provider.userinfo if known else {})
                case "/elsewhere":
                    self.send_response(302)
                    self.send_header("Location", f"{provider.issuer}/jwks")
                    self.end_headers()
                case "/large":
                    self._answer(200, {"keys": "x" * 300_000})
                case "/text":
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.write(b"<html>")
                case "/slow":
                    self.send_response(200)
                    self.end_headers()
                    with suppress(BrokenPipeError):  # who asked does not wait so long
                        for _ in range(40):
                            time.sleep(0.05)
                            self.wfile.write(b" ")
                case "/slow-head":
                    with suppress(OSError):
                        for each in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 400:
                            time.sleep(0.05)
                            self.wfile.write(bytes([each]))
                case _:
                    self._answer(404, {})

        def do_POST(self) -> None:
            provider.asked.append(self.path)
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {key: values[0] for key, values in parse_qs(body).items()}
            basic = base64.b64encode(b"vgpumgr:s3cret%2F%2B").decode()
            if self.headers.get("Authorization") != f"Basic {basic}":
                self._answer(401, {"error": "invalid_client"})
            elif self.path == "/device":
                self._answer(200, provider.device(provider.issuer))
            else:
                self._answer(*provider.token(form))

    return Handler


@contextmanager
def running() -> Iterator[Provider]:
    """A provider of this process."""
    made = Provider()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()

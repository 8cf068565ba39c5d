"""Signature version 4 of AWS, in header form: a strict check of requests, and signed requests of our own.

It is written from the specification and shares nothing with the engine. What is signed is computed from the bytes that
came in: a path is decoded and encoded anew, as S3 does it, so that both sides have to agree on the name of an object.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from servers.conversation import Request

SKEW_LIMIT = 900  # seconds between the clocks, more than which S3 refuses
UNSIGNED = "UNSIGNED-PAYLOAD"
EMPTY = hashlib.sha256(b"").hexdigest()
HEADER = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/,\s]+)/(\d{8})/([^/,]+)/s3/aws4_request, ?"
    r"SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})"
)


@dataclass(frozen=True)
class Key:
    """An access key. With a token it is of a session, and is valid until then, in seconds of the monotonic clock."""

    access_key: str = "AKIDACCESS7C1E"
    secret_key: str = "secret/5b+2f0c9d1e7a84"
    token: str | None = None
    until: float = float("inf")

    @property
    def expired(self) -> bool:
        """Whether its time is over."""
        return time.monotonic() > self.until

    def given(self) -> dict[str, str]:
        """Returns what a function for credentials gives."""
        both = {"access_key": self.access_key, "secret_key": self.secret_key}
        return both | ({"token": self.token} if self.token else {})


class RefusedError(Exception):
    """A request is refused, with this code of S3 and these elements beside it."""

    def __init__(self, status: int, code: str, **details: str) -> None:
        super().__init__(code)
        self.status, self.code, self.details = status, code, details


def encoded(data: bytes, safe: str = "") -> str:
    """Returns bytes in percent-encoding, of which only unreserved characters and `safe` are left out."""
    return quote(data, safe="-_.~" + safe)


def canonical_query(raw: str) -> str:
    """Returns the parameters of a query, decoded once, encoded and sorted."""
    pairs = [part.partition("=") for part in raw.split("&") if part]
    decoded = [[unquote_to_bytes(text.replace("+", " ")) for text in (name, value)] for name, _, value in pairs]
    return "&".join(f"{name}={value}" for name, value in sorted((encoded(a), encoded(b)) for a, b in decoded))


@lru_cache(64)
def signing_key(secret: str, day: str, region: str) -> bytes:
    """Returns the key of a day."""
    key = f"AWS4{secret}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def signature(secret: str, method: str, target: str, headers: Mapping[str, str], signed: list[str], region: str) -> str:
    """Returns the signature of a request. Its headers have names in lower case."""
    path, _, query = target.partition("?")
    lines = [method, encoded(unquote_to_bytes(path), "/"), canonical_query(query)]
    lines += [f"{name}:{' '.join(headers[name].split())}" for name in signed]
    lines += ["", ";".join(signed), headers["x-amz-content-sha256"]]
    at = headers["x-amz-date"]
    hashed = hashlib.sha256("\n".join(lines).encode("latin-1")).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", at, f"{at[:8]}/{region}/s3/aws4_request", hashed])
    return hmac.new(signing_key(secret, at[:8], region), text.encode(), hashlib.sha256).hexdigest()


def check(request: Request, keys: Mapping[str, Key], region: str, now: float) -> None:
    """Fails unless a GET is signed by one of the keys, at about this time of the server.

    Raises:
        RefusedError: It is not.
    """
    headers = request.headers
    if not (parts := HEADER.fullmatch(headers.get("authorization", ""))):
        raise RefusedError(400, "AuthorizationHeaderMalformed", Message="not in the form of a signature")
    access_key, day, named, names, given = parts.groups()
    signed = names.split(";")
    if named != region:
        raise RefusedError(400, "AuthorizationHeaderMalformed", Region=region)
    if (key := keys.get(access_key)) is None:
        raise RefusedError(403, "InvalidAccessKeyId", AWSAccessKeyId=access_key)
    at = headers.get("x-amz-date", "")
    if headers.get("x-amz-content-sha256") not in (UNSIGNED, EMPTY) or not at.startswith(day):
        raise RefusedError(403, "AccessDenied", Message="x-amz-content-sha256 or x-amz-date is missing or wrong")
    unsigned = {"host", *(name for name in headers if name.startswith("x-amz-"))} - set(signed)
    if unsigned or signed != sorted(signed) or not headers.keys() >= set(signed):
        raise RefusedError(403, "AccessDenied", Message="There were headers present that were not signed")
    if given != signature(key.secret_key, "GET", request.target, headers, signed, region):
        raise RefusedError(403, "SignatureDoesNotMatch", AWSAccessKeyId=access_key, SignatureProvided=given)
    sent = datetime.strptime(at, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    if abs(sent - now) > SKEW_LIMIT:
        server = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        raise RefusedError(403, "RequestTimeTooSkewed", RequestTime=at, ServerTime=server)
    token = headers.get("x-amz-security-token")
    if token != key.token:
        raise RefusedError(400, "InvalidToken")
    if key.expired:
        raise RefusedError(400, "ExpiredToken")


class Client:
    """Sends signed requests to one store over a connection that is kept, to fill it."""

    def __init__(self, port: int, key: Key, region: str = "us-east-1") -> None:
        self.host, self.key, self.region = f"127.0.0.1:{port}", key, region
        self._connection = http.client.HTTPConnection(self.host, timeout=20)

    def __call__(self, method: str, path: bytes, query: str = "", body: bytes = b"") -> tuple[int, bytes]:
        """Sends one; the path is not encoded yet. Returns status and body of the answer."""
        target = encoded(path, "/") + (f"?{query}" if query else "")
        sha = hashlib.sha256(body).hexdigest()
        at = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        headers = {"host": self.host, "x-amz-content-sha256": sha, "x-amz-date": at}
        made = signature(self.key.secret_key, method, target, headers, sorted(headers), self.region)
        scope = f"{self.key.access_key}/{at[:8]}/{self.region}/s3/aws4_request"
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={';'.join(sorted(headers))}, Signature={made}"
        )
        self._connection.request(method, target, body, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

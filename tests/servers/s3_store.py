"""An object store that speaks S3 on a loopback port: one bucket with any keys, and strict about signatures.

Left alone it answers `ListObjectsV2` and `GetObject` as S3 does, in path style and for hosts of `store.test` in virtual
style. Attributes make it another, correct or incorrect, kind of store; the faults of `faults.py` work as for any fault
server. What it saw is in `requests`, `listed`, `fetched` and `refusals`. Not here: lists that lie (`s3_lists.py`),
signatures (`signatures.py`), real stores (`s3_real.py`).
"""

from __future__ import annotations

import base64
import hashlib
import os
import random
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from functools import cached_property
from typing import Any, ClassVar, Literal
from urllib.parse import quote_plus, unquote_to_bytes
from xml.sax.saxutils import escape

from servers import faults, signatures
from servers.conversation import Request
from servers.fault_server import Exchange, Fault, FaultServer
from servers.signatures import Key, RefusedError

OLD = 1_700_000_000  # seconds since 1970 of what was stored long ago
XML = {"Content-Type": "application/xml"}
START = '<?xml version="1.0" encoding="UTF-8"?>\n'
# What Go's encoding/xml makes of characters in keys; XML 1.0 cannot say the others.
GO = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;"} | {c: f"&#x{ord(c):X};" for c in "\t\n\r"}
)
GO_CANNOT = str.maketrans({chr(code): "\ufffd" for code in range(0x20) if chr(code) not in "\t\n\r"})

Answer = tuple[int, bytes, dict[str, str]]
# How keys stand in a list: in percent-encoding; as Go writes XML; with `&` and `<` escaped alone; or so, although the
# answer says that they are in percent-encoding.
Encoding = Literal["url", "go", "raw", "lie"]


class S3Request(Request):
    """A request to a bucket, which the first part of the path names, or the first label of a host of `store.test`."""

    @cached_property
    def parts(self) -> tuple[str, str]:
        """The bucket and the key that were asked for, decoded once."""
        path = unquote_to_bytes(self.target.partition("?")[0].removeprefix("/")).decode("utf-8", "surrogateescape")
        label, _, rest = self.headers.get("host", "").partition(".")
        if rest.startswith("store.test"):
            return label, path
        bucket, _, key = path.partition("/")
        return bucket, key

    @property
    def name(self) -> str | None:
        """The key of the object that was asked for, if one was."""
        return self.parts[1] or None

    @property
    def is_list(self) -> bool:
        """Whether a page of the listing was asked for."""
        return self.name is None

    @property
    def token(self) -> str | None:
        """The token of the page asked for; None for the first one."""
        return self.query.get("continuation-token")


@dataclass
class About:
    """What is known of an object besides its bytes.

    Attributes:
        modified: When it was stored, in seconds since 1970.
        etag: Its ETag; by default the MD5 of its bytes.
        storage_class: Where it is kept; see `S3Store.archived`.
        restored: Whether it can be read although it is in an archive.
        size: What lists say of its length; by default the truth.
        headers: What its answers have besides. Checksums are sent only to those who ask for them.
    """

    modified: float = OLD
    etag: str | None = None
    storage_class: str = "STANDARD"
    restored: bool = False
    size: int | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def archived(self) -> bool:
        """Whether it cannot be read now."""
        return self.storage_class in ("GLACIER", "DEEP_ARCHIVE") and not self.restored


def error(status: int, code: str, **details: str) -> Answer:
    """Returns an error of S3, with these elements beside the code."""
    inner = "".join(
        f"<{name}>{escape(text)}</{name}>" for name, text in {"Code": code, "Message": "no", **details}.items()
    )
    return status, f"{START}<Error>{inner}<RequestId>4442587FB7D0A2F9</RequestId></Error>".encode(), XML


def failing(status: int, code: str, headers: dict[str, str] | None = None, **details: str) -> Fault:
    """Returns a fault that answers with an error of S3."""
    status, body, fields = error(status, code, **details)
    return faults.status(status, body, fields | (headers or {}))


def share(part: float, seed: int = 1) -> Callable[[Request], bool]:
    """Returns what takes this part of all requests, at random."""
    chance = random.Random(seed)
    return lambda _: chance.random() < part


def checksum(kind: str, number: int | bytes, width: int = 4) -> dict[str, str]:
    """Returns the header of a checksum."""
    data = number if isinstance(number, bytes) else number.to_bytes(width, "big")
    return {f"x-amz-checksum-{kind}": base64.b64encode(data).decode()}


def later(keys: list[str], after: str) -> list[str]:
    """Returns those behind `start-after` of keys in their order."""
    return keys[bisect_right(keys, os.fsencode(after), key=os.fsencode) :]


def later_as_minio(keys: list[str], after: str) -> list[str]:
    """As MinIO, which finds nothing behind a key that ends with a slash."""
    return [] if after.endswith("/") else later(keys, after)


def later_as_seaweedfs(keys: list[str], after: str) -> list[str]:
    """As SeaweedFS, which passes over all below a key that is a prefix, too."""
    return [key for key in later(keys, after) if not key.startswith(f"{after}/")]


def token_behind(key: str, salt: bytes | None = None) -> str:
    """Returns a token for what comes behind a key, another one each time or for each salt of 8 bytes."""
    return base64.b64encode((salt or random.randbytes(8)) + os.fsencode(key)).decode()


def key_of(token: str) -> str:
    """Returns the key behind which a token leads."""
    return os.fsdecode(base64.b64decode(token, validate=True)[8:])


def in_order(keys: Iterable[str]) -> list[str]:
    """Returns keys in the order of S3, which is that of their bytes."""
    return sorted(keys, key=os.fsencode)


@dataclass
class Page:
    """A page of a list, as it will be answered; lies change it."""

    asked: Request
    bucket: str
    keys: list[str]
    about: Callable[[str], tuple[About, int, str]]  # also the size and the ETag
    token: str | None
    encoding: Encoding
    truncated: bool

    def text(self, key: str) -> str:
        """Returns a key as it stands in this page."""
        if self.encoding == "url" and self.asked.query.get("encoding-type") == "url":
            return quote_plus(os.fsencode(key), safe="/*")
        if self.encoding == "go":
            return key.translate(GO_CANNOT).translate(GO)
        return escape(key)

    def entry(self, key: str) -> str:
        """Returns what stands in it for an object."""
        about, size, etag = self.about(key)
        at = datetime.fromtimestamp(about.modified, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        told = self.asked.headers.get("x-amz-optional-object-attributes") == "RestoreStatus"
        until = "<RestoreExpiryDate>2099-01-01T00:00:00.000Z</RestoreExpiryDate>"
        until = f"<RestoreStatus><IsRestoreInProgress>false</IsRestoreInProgress>{until}</RestoreStatus>"
        until = until if told and about.restored else ""
        return (
            f"<Contents><Key>{self.text(key)}</Key><LastModified>{at}</LastModified><ETag>&quot;{etag}&quot;</ETag>"
            f"<Size>{size}</Size><StorageClass>{about.storage_class}</StorageClass>{until}</Contents>"
        )

    def xml(self) -> bytes:
        """Returns it as it is sent."""
        query = self.asked.query
        echoed = query.get("encoding-type") == "url" and self.encoding in ("url", "lie")
        elements = {
            "Name": self.bucket,
            "Prefix": self.text(query.get("prefix", "")),
            "StartAfter": self.text(query["start-after"]) if "start-after" in query else None,
            "ContinuationToken": query.get("continuation-token"),
            "NextContinuationToken": self.token,
            "KeyCount": str(len(self.keys)),
            "MaxKeys": "1000",
            "EncodingType": "url" if echoed else None,
            "IsTruncated": str(self.truncated).lower(),
        }
        inner = "".join(f"<{name}>{text}</{name}>" for name, text in elements.items() if text is not None)
        inner += "".join(map(self.entry, self.keys))
        start = f'{START}<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        return f"{start}{inner}</ListBucketResult>".encode("utf-8", "surrogateescape")


@dataclass
class S3Store(FaultServer):
    """The store. Its objects are named by keys, in which bytes that are no text are surrogate escapes.

    Attributes:
        bucket: Its only bucket.
        region: For which requests must be signed.
        keys: Which are accepted, by access key.
        public: Whether requests without a signature are answered, too.
        requester_pays: Whether requests must say that the requester pays.
        about: What is known of objects besides their bytes.
        forbidden: Keys of objects that nobody may read.
        encoding: How keys stand in a list.
        later: Which keys it takes for those behind `start-after`.
        ordered: Puts the keys of the bucket into the order of its lists.
        clock: Seconds by which its clock is ahead.
        closes_after: After so many answers it closes a connection, and says so.
        refusals: The codes of requests that were refused.
    """

    form: ClassVar[type[Request]] = S3Request

    echo: bool = False
    bucket: str = "bucket"
    region: str = "us-east-1"
    keys: dict[str, Key] = field(default_factory=lambda: {Key().access_key: Key()})
    public: bool = False
    requester_pays: bool = False
    about: dict[str, About] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    encoding: Encoding = "url"
    later: Callable[[list[str], str], list[str]] = later
    ordered: Callable[[Iterable[str]], list[str]] = in_order
    clock: float = 0.0
    closes_after: int | None = None
    refusals: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._answered: Counter[int] = Counter()
        self._issued = 0
        self._sorted: tuple[str, list[str]] | None = None  # a prefix, and the keys with it

    def session(self, life: float) -> Key:
        """Returns a new key that is valid for so many seconds."""
        self._issued += 1
        key = Key(
            f"ASIASESSION{self._issued:04}",
            f"secret-{self._issued}",
            f"token+{self._issued}/5d==",
            time.monotonic() + life,
        )
        self.keys[key.access_key] = key
        return key

    def put(self, key: str, data: bytes, **about: Any) -> None:
        """Stores an object, newer than what was stored under its key before."""
        before = self.about.get(key, About()) if key in self.objects else None
        self.objects[key], self._sorted = data, None
        self.about[key] = About(**{"modified": before.modified + 60 if before else OLD} | about)

    def remove(self, key: str) -> None:
        """Removes an object."""
        del self.objects[key]
        self._sorted = None

    def headers_of(self, name: str) -> list[str | None]:
        """Returns the values of a header of all requests."""
        return [request.headers.get(name) for request in self.requests]

    # What it answers.

    def describe(self, key: str) -> tuple[About, int, str]:
        """Returns what is known of an object, what lists say of its length, and its ETag."""
        about, data = self.about.get(key, About()), self.objects[key]
        size = len(data) if about.size is None else about.size
        return about, size, about.etag or hashlib.md5(data).hexdigest()

    def page_of(self, request: Request) -> Page:
        """Returns the page of the list that was asked for."""
        prefix = request.query.get("prefix", "")
        if self._sorted is None or self._sorted[0] != prefix:
            self._sorted = prefix, self.ordered(key for key in self.objects if key.startswith(prefix))
        keys = self._sorted[1]
        if request.token is not None:
            last = key_of(request.token)
            keys = later(keys, last) if self.ordered is in_order or not last else keys[keys.index(last) + 1 :]
        elif after := request.query.get("start-after"):
            keys = self.later(keys, after)
        count = min(int(request.query.get("max-keys", "1000")), self.page_size)
        token = token_behind(keys[count - 1]) if len(keys) > count else None
        return Page(request, self.bucket, keys[:count], self.describe, token, self.encoding, token is not None)

    def healthy_answer(self, request: Request) -> Answer:
        """Returns status, body and headers of what the store answers."""
        now = time.time() + self.clock
        try:
            status, body, headers = self._answer(request, now)
        except RefusedError as refused:
            self.refusals.append(refused.code)
            status, body, headers = error(refused.status, refused.code, **refused.details)
        return status, body, {"Date": formatdate(now, usegmt=True), "x-amz-request-id": "4442587FB7D0A2F9", **headers}

    def _answer(self, request: Request, now: float) -> Answer:
        assert isinstance(request, S3Request)
        signed = "authorization" in request.headers
        if signed or not self.public:
            if not signed:
                raise RefusedError(403, "AccessDenied")
            signatures.check(request, self.keys, self.region, now)
        elif any(name.startswith("response-") for name in request.query):
            raise RefusedError(400, "InvalidRequest", Message="not for anonymous requests")
        if self.requester_pays and request.headers.get("x-amz-request-payer") != "requester":
            raise RefusedError(403, "AccessDenied")
        bucket, key = request.parts
        if bucket != self.bucket:
            raise RefusedError(404, "NoSuchBucket", BucketName=bucket)
        if not key:
            if request.query.get("list-type") != "2":
                raise RefusedError(501, "NotImplemented")
            return 200, self.page_of(request).xml(), dict(XML)
        return self._object(request, key)

    def _object(self, request: Request, key: str) -> Answer:
        if key in self.forbidden:
            raise RefusedError(403, "AccessDenied")
        if key not in self.objects:
            raise RefusedError(404, "NoSuchKey", Key=escape(key))
        about, _, etag = self.describe(key)
        if about.archived:
            raise RefusedError(403, "InvalidObjectState", StorageClass=about.storage_class)
        body = self.objects[key]
        headers = {"ETag": f'"{etag}"', "Last-Modified": formatdate(about.modified, usegmt=True)}
        headers |= {"Content-Type": "binary/octet-stream", "Accept-Ranges": "bytes"} | about.headers
        if request.headers.get("x-amz-checksum-mode") != "ENABLED":
            headers = {name: text for name, text in headers.items() if not name.startswith("x-amz-checksum-")}
        if language := request.query.get("response-content-language"):
            headers["Content-Language"] = language
        if request.headers.get("if-match", headers["ETag"]) != headers["ETag"]:
            raise RefusedError(412, "PreconditionFailed")
        if (wanted := request.headers.get("range", "")).startswith("bytes="):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            end = min(int(last or len(body) - 1), len(body) - 1)
            if int(first) > end:
                raise RefusedError(416, "InvalidRange")
            headers["Content-Range"] = f"bytes {first}-{end}/{len(body)}"
            headers = {name: text for name, text in headers.items() if not name.startswith("x-amz-checksum-")}
            return 206, body[int(first) : end + 1], headers
        return 200, body, headers

    def _fault_for(self, request: Request) -> Fault:
        self._answered[request.connection] += 1
        if self.closes_after and self._answered[request.connection] >= self.closes_after:
            return _last
        return super()._fault_for(request)


async def _last(exchange: Exchange) -> None:
    status, body, headers = exchange.server.healthy_answer(exchange.request)
    fields = {"Content-Length": str(len(body)), **headers, "Connection": "close"}
    await exchange.send(exchange.head(status, fields) + body)
    await exchange.finish()

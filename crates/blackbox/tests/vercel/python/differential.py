"""Sends the same requests to the server that ships in Vercel's Python package, the oracle, and to Millpond, and compares the
answers: status, the headers that a client reads, and the body, in which ids, handles, times and boundaries are replaced by
what they stand for.

    python differential.py ORACLE_URL MILLPOND_URL [--all-same] [PART_OF_A_NAME ...]

Prints a line for each case. It fails when a difference is not in INTENDED, or is not what is said there, or is none; with
--all-same, when there is any difference.
"""

import argparse
import base64
import concurrent.futures
import email.parser
import http.client
import json
import re
import sys
import time
import traceback
import urllib.parse
import uuid
from datetime import datetime

MULTIPART = "multipart/mixed"
NDJSON = "application/x-ndjson"
DAY = 86400
WEEK = 7 * DAY

# Members of error bodies that some client reads. Others may be there.
ERROR_MEMBERS = ("error", "originalMessageId", "messageExpiresAt", "requestedExpiresAt", "currentInflight", "maxConcurrency")
# The only texts of errors that a client compares.
LEASE_ERRORS = (
    "Message is not currently in-flight",
    "Message lease has expired",
    "Receipt handle does not match current lease holder",
)
PART_HEADERS = (
    "Content-Type",
    "Vqs-Message-Id",
    "Vqs-Receipt-Handle",
    "Vqs-Delivery-Count",
    "Vqs-Timestamp",
    "Vqs-Expires-At",
)

NO_SUCH_METHOD = "a 405 says that the path has other methods; the oracle knows no such path", 405
LONGER = "the oracle knows no such limit", {"status": 400}
NO_SUCH_HEADER = "the oracle does not know the header", {"status": 400}
SUPERSEDED = (
    "says that another has the lease, in the text that Vercel documents",
    {"status": 409, "body": {"error": "Receipt handle does not match current lease holder"}},
)
SENT = [{"status": "sent", "messageId": f"id {number}"} for number in (1, 2, 3)]
FAILED = {"status": "failed", "statusCode": 400, "error": "a text", "retryable": False}

# Where Millpond is meant to differ: by the name of the case why, and what the first answer that differs has to be there.
INTENDED = {
    "ack: a handle that was superseded": SUPERSEDED,
    "ack: again": ("what it asks for has been done; Vercel's users see a failure after a success", {"status": 204}),
    "batch: a bad part": ("the oracle has no batches", {"status": 200, "body": {"results": [FAILED, SENT[0]]}}),
    "batch: three messages": ("the oracle has no batches", {"status": 200, "body": {"results": SENT}}),
    "by id: a delayed message": ("a delay is not to be got around", {"status": 409, "retry after": True}),
    "end: a message that is over": ("who holds a message may acknowledge it after its end", {"status": 204}),
    "end: the key of a message that is over": (
        "a key is used as long as its message is kept; the oracle never forgets one",
        {"status": 200, "ids": ["id 2"]},
    ),
    "key: 257 characters": LONGER,
    "key: the same for another payload": (
        "a key stands for its message whatever the payload is, as Vercel documents",
        {"status": 200, "ids": ["id 1"]},
    ),
    "method: DELETE a group": NO_SUCH_METHOD,
    "method: DELETE a topic": NO_SUCH_METHOD,
    "method: DELETE a visibility": NO_SUCH_METHOD,
    "method: GET a group": NO_SUCH_METHOD,
    "method: GET a lease": NO_SUCH_METHOD,
    "method: GET a message": NO_SUCH_METHOD,
    "method: GET a topic": NO_SUCH_METHOD,
    "method: PATCH a group": NO_SUCH_METHOD,
    "method: POST a lease": NO_SUCH_METHOD,
    "method: PUT a topic": NO_SUCH_METHOD,
    "names: a slash in a topic": ("an encoded slash belongs to the name, which then is a bad one", {"status": 400}),
    "patch: a handle of a lease that ran out": ("a bad body is refused before the lease is looked at", {"status": 400}),
    "patch: a handle that is acknowledged": ("a bad body is refused before the lease is looked at", {"status": 400}),
    "patch: a handle that was superseded": SUPERSEDED,
    "receive: accept multipart/mixed, */*": ("who accepts parts among others gets parts", {"status": 200}),
    "receive: cursor fallback latest": ("the oracle does not know the header", {"status": 204}),
    "receive: cursor fallback of another word": NO_SUCH_HEADER,
    "receive: max concurrency 0": NO_SUCH_HEADER,
    "receive: max concurrency of words": NO_SUCH_HEADER,
    "receive: max concurrency reached": (
        "the oracle does not know the header",
        {"status": 429, "body": {"error": "a text", "currentInflight": 1, "maxConcurrency": 1}},
    ),
    "receive: never delivered goes first": (
        "Vercel documents it; the oracle keeps the order of sending",
        {"status": 200, "ids": ["id 2"]},
    ),
    "receive: nothing follows the last delimiter": ("a line end there can make Vercel's client for Node fail", ""),
    "receive: times to the millisecond": ("the only fraction that each of Vercel's clients reads", True),
    "visibility 0: is no delivery": (
        "it only looks, as Vercel documents; the oracle counts it",
        {"status": 200, "ids": ["id 1"], "counts": ["1"]},
    ),
}

CASES = {}


def case(name):
    assert name not in CASES, name

    def add(function):
        CASES[name] = function
        return function

    return add


class Answer:
    def __init__(self, response, body):
        self.status, self.headers, self.body = response.status, response.headers, body
        self.content_type = self.headers.get_content_type() if "Content-Type" in self.headers else None

    @property
    def messages(self):
        """What was received: part headers with the payload under `body`."""
        if self.status != 200:
            return []
        return multipart(self) if self.content_type == MULTIPART else ndjson(self)

    @property
    def handle(self):
        return self.messages[0]["Vqs-Receipt-Handle"]

    @property
    def id(self):
        return json.loads(self.body)["messageId"]


def multipart(answer):
    delimiter = b"--" + answer.headers.get_boundary().encode()
    assert answer.body.startswith(delimiter), "nothing goes before the first delimiter"
    *parts, end = answer.body.split(delimiter)[1:]
    assert end in (b"--", b"--\r\n"), end
    messages = []
    for part in parts:
        assert part.startswith(b"\r\n") and part.endswith(b"\r\n"), part
        head, _, body = part[2:-2].partition(b"\r\n\r\n")
        headers = email.parser.HeaderParser().parsestr(head.decode("latin-1"))
        messages.append({name: headers[name] for name in PART_HEADERS} | {"body": body})
    assert messages
    return messages


def ndjson(answer):
    assert answer.body.endswith(b"\n")
    members = ("contentType", "messageId", "receiptHandle", "deliveryCount", "timestamp", "expiresAt")
    messages = []
    for line in answer.body[:-1].split(b"\n"):
        message = json.loads(line)
        assert isinstance(message["deliveryCount"], int)
        headers = {header: str(message[member]) for header, member in zip(PART_HEADERS, members)}
        messages.append(headers | {"body": base64.b64decode(message["body"], validate=True)})
    return messages


class Side:
    """One server during one case: what it was asked and what it answered, in a form that can be compared."""

    def __init__(self, base):
        self.base = urllib.parse.urlsplit(base)
        self.topic = f"t-{uuid.uuid4()}"
        self.seen = []
        self.names = {}

    def call(self, method, path, headers=(), body=None, *, prefix="", look="all", chunked=False):
        """Sends a request; `look` says how much of the answer is compared: all, status, or nothing."""
        connection = http.client.HTTPConnection(self.base.netloc, timeout=30)
        target = self.base.path.rstrip("/") + prefix + path
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in [("Authorization", "Bearer any"), ("Vqs-Client-Ts", "2026-11-30T03:25:23.647Z"), *headers]:
            connection.putheader(name, value)
        if chunked:
            connection.putheader("Transfer-Encoding", "chunked")
        elif body is not None or method in ("POST", "PATCH"):
            connection.putheader("Content-Length", str(len(body or b"")))
        connection.endheaders(body, encode_chunked=chunked)
        response = connection.getresponse()
        answer = Answer(response, response.read())
        connection.close()
        if look == "status":
            self.seen.append(answer.status)
        elif look == "all":
            self.seen.append(self.described(answer, lease="/lease/" in path))
        return answer

    def path(self, *segments, topic=None):
        quoted = [urllib.parse.quote(segment, safe="") for segment in (topic or self.topic, *segments)]
        return "/api/v3/topic/" + "/".join(quoted)

    def send(self, body=b"x", headers=(), topic=None, **options):
        return self.call("POST", self.path(topic=topic), as_pairs(headers), body, **options)

    def receive(self, headers=(), group="g", accept=MULTIPART, topic=None, **options):
        given = [("Accept", accept)] if accept is not None else []
        return self.call("POST", self.path("consumer", group, topic=topic), given + as_pairs(headers), **options)

    def by_id(self, message_id, headers=(), group="g", accept=MULTIPART, topic=None, **options):
        given = [("Accept", accept)] if accept is not None else []
        path = self.path("consumer", group, "id", message_id, topic=topic)
        return self.call("POST", path, given + as_pairs(headers), **options)

    def ack(self, handle, headers=(), group="g", topic=None, **options):
        path = self.path("consumer", group, "lease", handle, topic=topic)
        return self.call("DELETE", path, as_pairs(headers), **options)

    def patch(self, handle, body, headers=(), group="g", topic=None, **options):
        """`body` is the number of seconds, or JSON as it is sent."""
        body = json.dumps({"visibilityTimeoutSeconds": body}).encode() if isinstance(body, int) else body
        path = self.path("consumer", group, "lease", handle, topic=topic)
        headers = [("Content-Type", "application/json"), *as_pairs(headers)]
        return self.call("PATCH", path, headers, body, **options)

    def take(self, headers=(), **options):
        """A message and its handle, which are not what the case is about."""
        return self.receive(headers, look="nothing", **options).handle

    def until_it_comes(self, *arguments, **options):
        """Receives what comes within a few seconds, and compares only that."""
        deadline = time.monotonic() + 10
        while not (answer := self.receive(*arguments, look="nothing", **options)).messages:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        self.seen.append(self.described(answer))

    def passed(self, moment):
        """Waits until a moment of the clock that the server has, too, is over."""
        while (left := moment + 0.05 - time.time()) > 0:
            time.sleep(left)

    def note(self, what):
        self.seen.append(what)

    def described(self, answer, lease=False):
        """An answer without what must differ."""
        told = {"status": answer.status}
        if answer.content_type:
            told["content type"] = answer.content_type
        if (retry_after := answer.headers["Retry-After"]) is not None:
            told["retry after"] = retry_after.isdecimal() and int(retry_after) >= 1 or retry_after
        if (message_id := answer.headers["Vqs-Message-Id"]) is not None:
            told["Vqs-Message-Id"] = self.named("id", message_id)
        if answer.status == 200 and answer.content_type in (MULTIPART, NDJSON):
            told["messages"] = [self.message(message) for message in answer.messages]
            told["ids"] = [message["id"] for message in told["messages"]]
            told["counts"] = [message["count"] for message in told["messages"]]
        elif answer.content_type == "application/json":
            body = json.loads(answer.body)
            told["body"] = self.error(answer.status, body, lease) if answer.status >= 400 else self.plain(body)
        else:
            told["body"] = answer.body.decode("latin-1")
        return told

    def message(self, message):
        sent, expires = (datetime.fromisoformat(message[name]) for name in ("Vqs-Timestamp", "Vqs-Expires-At"))
        assert all(message[name].endswith("Z") for name in ("Vqs-Timestamp", "Vqs-Expires-At"))
        assert abs(sent.timestamp() - time.time()) < 600, sent
        return {
            "id": self.named("id", message["Vqs-Message-Id"]),
            "handle": self.named("handle", message["Vqs-Receipt-Handle"]),
            "count": message["Vqs-Delivery-Count"],
            "kept for": round((expires - sent).total_seconds(), 2),
            "content type": message["Content-Type"],
            "body": message["body"].decode("latin-1"),
        }

    def error(self, status, body, lease):
        body = {name: value for name, value in body.items() if name in ERROR_MEMBERS}
        text = body.get("error")
        assert isinstance(text, str) and text, "an error has a text"
        if not (status == 404 or lease and text in LEASE_ERRORS):
            body["error"] = "a text"
        return self.plain(body)

    def plain(self, body):
        for result in body.get("results", []):
            self.plain(result)
            if isinstance(result.get("error"), str) and result["error"]:
                result["error"] = "a text"
        for name in ("messageId", "originalMessageId"):
            if isinstance(body.get(name), str):
                body[name] = self.named("id", body[name])
        for name in ("messageExpiresAt", "requestedExpiresAt"):
            if name in body:
                assert datetime.fromisoformat(body[name]).tzinfo is not None
                body[name] = "a time"
        return body

    def named(self, kind, value):
        """The same name for the same value."""
        return self.names.setdefault((kind, value), f"{kind} {sum(known == kind for known, _ in self.names) + 1}")


def as_pairs(headers):
    return list(headers.items()) if isinstance(headers, dict) else list(headers)


# --- send


@case("send: a message")
def _(s):
    s.send(b'{"order":7}', {"Content-Type": "application/json"})
    s.receive()
    s.receive()


@case("send: chunked, with a query")
def _(s):
    path = s.path() + "?x=1"
    s.call("POST", path, [("Content-Type", "text/plain")], iter([b"one", b"two"]), chunked=True)
    s.receive()


@case("send: a header that nobody knows")
def _(s):
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    s.send(b"x", {"Vqs-Unheard-Of": "1", "X-Own": "2", "traceparent": traceparent})
    s.receive({"Vqs-Unheard-Of": "1"})


PAYLOADS = {
    "nothing": b"",
    "every byte": bytes(range(256)),
    "line ends": b"\r\n\r\n",
    "delimiters": b"--vqs-boundary--\r\n--vqs-boundary\r\n\r\n--",
    "300 kB": b"0123456789" * 30_000,
}
for name, payload in PAYLOADS.items():

    @case(f"send: a payload of {name}")
    def _(s, payload=payload):
        s.send(payload)
        s.receive(accept=NDJSON, group="a")
        s.receive(accept=MULTIPART, group="b")


CONTENT_TYPES = [
    None,
    "application/json",
    "text/plain; charset=utf-8",
    'Multipart/Mixed;boundary="x y"',
    "application/cbor",
    "odd",
]
for content_type in CONTENT_TYPES:

    @case(f"send: content type {content_type}")
    def _(s, content_type=content_type):
        s.send(b"x", {} if content_type is None else {"Content-Type": content_type})
        s.receive(accept=NDJSON, group="a")
        s.receive(accept=MULTIPART, group="b")


WHOLE_NUMBERS = ["100", "1e2", "100.", "100.0", "+100", "0100", " 100 "]
NO_WHOLE_NUMBERS = ["", "x", "100x", "0x64", "60.5", "100,100", "NaN", "Infinity", "-Infinity"]
NO_WHOLE_NUMBERS += ["1e400", "-100", "99999999999999999999"]
RETENTIONS = ["59", "60", "604800", "604801", "0", *WHOLE_NUMBERS, *NO_WHOLE_NUMBERS]
for value in RETENTIONS:

    @case(f"send: retention {value!r}")
    def _(s, value=value):
        s.send(b"x", {"Vqs-Retention-Seconds": value})
        s.receive()


DELAYS = ["0", "-0", "-1", "0.5", "86400", "86401", "604800", *WHOLE_NUMBERS, *NO_WHOLE_NUMBERS]
for value in DELAYS:

    @case(f"send: delay {value!r}")
    def _(s, value=value):
        s.send(b"x", {"Vqs-Delay-Seconds": value})
        s.receive()


for delay, retention in [(60, 60), (61, 60), (WEEK, WEEK), (WEEK + 1, WEEK)]:

    @case(f"send: delay {delay} within retention {retention}")
    def _(s, delay=delay, retention=retention):
        s.send(b"x", {"Vqs-Delay-Seconds": str(delay), "Vqs-Retention-Seconds": str(retention)})
        s.receive()


@case("send: a delay that passes")
def _(s):
    s.send(b"late", {"Vqs-Delay-Seconds": "1"})
    s.send(b"now")
    s.receive({"Vqs-Max-Messages": "10"})
    s.until_it_comes()


# --- idempotency keys


@case("key: the same twice")
def _(s):
    s.send(b"x", {"Vqs-Idempotency-Key": "k"})
    second = s.send(b"x", {"Vqs-Idempotency-Key": "k"})
    s.by_id(second.id)
    s.receive({"Vqs-Max-Messages": "10"})
    s.receive({"Vqs-Max-Messages": "10"})


@case("key: the same after the acknowledgement")
def _(s):
    s.send(b"x", {"Vqs-Idempotency-Key": "k"})
    s.ack(s.take())
    second = s.send(b"x", {"Vqs-Idempotency-Key": "k"})
    s.receive()
    s.by_id(second.id)


@case("key: the same three times")
def _(s):
    for _ in range(3):
        last = s.send(b"x", {"Vqs-Idempotency-Key": "k"})
    s.by_id(last.id)


@case("key: the same for another payload")
def _(s):
    s.send(b"x", {"Vqs-Idempotency-Key": "k"})
    s.send(b"y", {"Vqs-Idempotency-Key": "k"})
    s.receive({"Vqs-Max-Messages": "10"})


@case("key: the same in another deployment and topic")
def _(s):
    key = {"Vqs-Idempotency-Key": "k"}
    s.send(b"x", key)
    s.send(b"x", key | {"Vqs-Deployment-Id": "dpl_a"})
    s.send(b"x", key | {"Vqs-Deployment-Id": "dpl_b"})
    other = s.topic + "-other"
    s.send(b"x", key, topic=other)
    s.receive({"Vqs-Max-Messages": "10"})
    s.receive({"Vqs-Max-Messages": "10"}, topic=other)


@case("key: a duplicate of another deployment, by id")
def _(s):
    key = {"Vqs-Idempotency-Key": "k", "Vqs-Deployment-Id": "dpl_a"}
    s.send(b"x", key)
    second = s.send(b"x", key)
    s.by_id(second.id, {"Vqs-Deployment-Id": "dpl_b"})
    s.by_id(second.id, {"Vqs-Deployment-Id": "dpl_a"})
    s.by_id(second.id)


@case("key: with other options the second time")
def _(s):
    s.send(b"x", {"Vqs-Idempotency-Key": "k", "Content-Type": "a/a"})
    s.send(b"x", {"Vqs-Idempotency-Key": "k", "Content-Type": "b/b", "Vqs-Retention-Seconds": "60"})
    s.receive({"Vqs-Max-Messages": "10"})


for length in (1, 256, 257):

    @case(f"key: {length} character{'s' if length > 1 else ''}")
    def _(s, length=length):
        s.send(b"x", {"Vqs-Idempotency-Key": "k" * length})


@case("key: an empty one")
def _(s):
    for _ in range(2):
        s.send(b"x", {"Vqs-Idempotency-Key": ""})
    s.receive({"Vqs-Max-Messages": "10"})


# --- batch


@case("batch: three messages")
def _(s):
    part = b"--B\r\ncontent-type: text/plain\r\n\r\nx\r\n"
    s.call("POST", s.path("batch"), [("Content-Type", "multipart/mixed; boundary=B")], part * 3 + b"--B--\r\n")


@case("batch: a bad part")
def _(s):
    parts = b"--B\r\nvqs-retention-seconds: 59\r\n\r\nx\r\n--B\r\n\r\ny\r\n--B--\r\n"
    s.call("POST", s.path("batch"), [("Content-Type", "multipart/mixed; boundary=B")], parts)


# --- receive


@case("receive: an unknown topic")
def _(s):
    s.receive()
    s.receive(accept=NDJSON)


@case("receive: one, ten, the rest")
def _(s):
    for number in range(13):
        s.send(str(number).encode())
    for headers in ({}, {"Vqs-Max-Messages": "1"}, {"Vqs-Max-Messages": "10"}, {"Vqs-Max-Messages": "10"}):
        s.receive(headers)
    s.receive()


@case("receive: messages of many types in both forms")
def _(s):
    for number, content_type in enumerate(["text/plain", "application/json", "image/png"]):
        s.send(bytes([number]), {"Content-Type": content_type})
    s.receive({"Vqs-Max-Messages": "3"}, group="a")
    s.receive({"Vqs-Max-Messages": "3"}, group="b", accept=NDJSON)


@case("receive: groups are apart")
def _(s):
    s.send()
    s.ack(s.take(group="a"), group="a")
    s.receive(group="a")
    s.receive(group="b")
    s.receive(group="A")


@case("receive: a message that was sent to an old group")
def _(s):
    s.receive()
    s.send(b"x")
    s.receive()


ACCEPTS = [
    None,
    "",
    "*/*",
    "multipart/*",
    "application/json",
    "text/html, */*",
    "multipart/mixed, */*",
    "multipart/mixed",
    "Multipart/MIXED; q=0.5",
    "application/x-ndjson",
    "application/x-ndjson; charset=utf-8",
    "application/x-ndjson, multipart/mixed",
    "text/html,application/x-ndjson",
]
for accept in ACCEPTS:

    @case(f"receive: accept {accept}")
    def _(s, accept=accept):
        sent = s.send()
        s.receive(accept=accept)
        s.by_id(sent.id, accept=accept, group="other")
        s.receive(accept=accept, topic=s.topic + "-empty")


for value in ["0", "11", "-1", "1.5", "10", "1e1", "2.0", "", "x"]:

    @case(f"receive: max messages {value!r}")
    def _(s, value=value):
        s.send(b"1")
        s.send(b"2")
        s.receive({"Vqs-Max-Messages": value})
        s.receive({"Vqs-Max-Messages": value}, topic=s.topic + "-empty")


for value in ["1", "30", "3600", "3601", "-1", "0.5", "30.0", "3e1", "", "x"]:

    @case(f"receive: visibility {value!r}")
    def _(s, value=value):
        sent = s.send()
        s.receive({"Vqs-Visibility-Timeout-Seconds": value})
        s.by_id(sent.id, {"Vqs-Visibility-Timeout-Seconds": value}, group="other")


@case("receive: a lease lasts a minute unless said otherwise")
def _(s):
    s.send()
    s.take()
    answer = s.by_id(s.send(b"y", look="nothing").id)
    locked = s.by_id(answer.messages[0]["Vqs-Message-Id"])
    s.note(55 <= int(locked.headers["Retry-After"]) <= 60)


@case("receive: a lease that runs out")
def _(s):
    s.send()
    s.receive({"Vqs-Visibility-Timeout-Seconds": "1"})
    s.receive()
    s.until_it_comes()


@case("receive: nothing follows the last delimiter")
def _(s):
    s.send()
    answer = s.receive(look="nothing")
    s.note(answer.body.split(b"--" + answer.headers.get_boundary().encode() + b"--")[1].decode())


@case("receive: times to the millisecond")
def _(s):
    s.send()
    [message] = s.receive(look="nothing").messages
    for name in ("Vqs-Timestamp", "Vqs-Expires-At"):
        s.note(bool(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", message[name])))


@case("receive: never delivered goes first")
def _(s):
    s.send(b"failed")
    s.patch(s.take(), 0)
    s.send(b"new")
    s.receive()
    s.receive()


@case("receive: max concurrency not reached")
def _(s):
    s.send()
    s.receive({"Vqs-Max-Concurrency": "5"})
    s.receive({"Vqs-Max-Concurrency": "5"})


@case("receive: max concurrency reached")
def _(s):
    s.send()
    s.send()
    s.receive({"Vqs-Max-Concurrency": "1"})
    s.receive({"Vqs-Max-Concurrency": "1"})


for name, value in [("0", "0"), ("of words", "many")]:

    @case(f"receive: max concurrency {name}")
    def _(s, value=value):
        s.send()
        s.receive({"Vqs-Max-Concurrency": value})


@case("receive: cursor fallback earliest")
def _(s):
    s.send()
    s.receive({"Vqs-Cursor-Fallback": "earliest"})


@case("receive: cursor fallback latest")
def _(s):
    s.send()
    s.receive({"Vqs-Cursor-Fallback": "latest"})


@case("receive: cursor fallback latest, of a group that has begun")
def _(s):
    s.receive({"Vqs-Cursor-Fallback": "earliest"})
    s.send()
    s.receive({"Vqs-Cursor-Fallback": "latest"})


@case("receive: cursor fallback of another word")
def _(s):
    s.send()
    s.receive({"Vqs-Cursor-Fallback": "newest"})


# --- visibility 0


@case("visibility 0: leaves the message where it is")
def _(s):
    s.send(b"x")
    for _ in range(2):
        answer = s.receive({"Vqs-Visibility-Timeout-Seconds": "0"}, look="nothing")
        s.note([message["body"].decode() for message in answer.messages])
    s.ack(s.receive(look="nothing").handle)
    s.receive()


@case("visibility 0: is no delivery")
def _(s):
    s.send()
    for _ in range(2):
        s.receive({"Vqs-Visibility-Timeout-Seconds": "0"}, look="nothing")
    s.receive()


@case("visibility 0: gives a handle that settles nothing")
def _(s):
    s.send()
    handle = s.take({"Vqs-Visibility-Timeout-Seconds": "0"})
    s.ack(handle, look="status")
    s.patch(handle, 30, look="status")
    s.note(len(s.receive(look="nothing").messages))


@case("visibility 0: by id")
def _(s):
    sent = s.send()
    for _ in range(2):
        answer = s.by_id(sent.id, {"Vqs-Visibility-Timeout-Seconds": "0"}, look="nothing")
        s.note((answer.status, len(answer.messages)))
    s.note(len(s.receive(look="nothing").messages))


# --- by id


@case("by id: a message that waits")
def _(s):
    s.send(b"first")
    sent = s.send(b"second", {"Content-Type": "text/plain", "Vqs-Retention-Seconds": "60"})
    s.by_id(sent.id)
    s.receive({"Vqs-Max-Messages": "10"})


@case("by id: as ndjson")
def _(s):
    s.by_id(s.send(b"\r\n").id, accept=NDJSON)


@case("by id: a leased message")
def _(s):
    sent = s.send()
    handle = s.receive().handle
    s.by_id(sent.id)
    s.by_id(sent.id, group="other")
    s.ack(handle)


@case("by id: a rescheduled message")
def _(s):
    sent = s.send()
    s.patch(s.take(), 20)
    s.by_id(sent.id)


@case("by id: a message whose lease ran out")
def _(s):
    sent = s.send()
    handle = s.take({"Vqs-Visibility-Timeout-Seconds": "1"})
    s.passed(time.time() + 1)
    s.named("handle", handle)
    s.by_id(sent.id)


@case("by id: an acknowledged message")
def _(s):
    sent = s.send()
    s.ack(s.by_id(sent.id).handle)
    s.by_id(sent.id)
    s.by_id(sent.id, accept=NDJSON)
    s.by_id(sent.id, group="other")


@case("by id: a delayed message")
def _(s):
    s.by_id(s.send(b"x", {"Vqs-Delay-Seconds": "60"}).id)


@case("by id: an unknown message")
def _(s):
    sent = s.send()
    s.by_id("no-such-message")
    s.by_id(sent.id, topic=s.topic + "-other")
    s.by_id(sent.id + "0")
    s.receive()


@case("by id: of deployments")
def _(s):
    pinned = s.send(b"pinned", {"Vqs-Deployment-Id": "dpl_a"})
    unpinned = s.send(b"unpinned")
    s.by_id(pinned.id, {"Vqs-Deployment-Id": "dpl_b"})
    s.by_id(unpinned.id, {"Vqs-Deployment-Id": "dpl_a"})
    s.by_id(pinned.id, {"Vqs-Deployment-Id": "dpl_a"})
    s.by_id(unpinned.id)
    s.by_id(pinned.id, {"Vqs-Deployment-Id": "dpl_b"})


# --- acknowledge


@case("ack: a lease")
def _(s):
    s.send()
    s.ack(s.receive().handle)
    s.receive()


@case("ack: again")
def _(s):
    s.send()
    handle = s.take()
    for _ in range(2):
        s.ack(handle)


@case("ack: an unknown handle")
def _(s):
    s.send()
    s.take()
    s.ack("no-such-handle")
    s.ack("no-such-handle", topic=s.topic + "-other")
    s.ack("rh_1:msg_0:g")


@case("ack: a handle of another topic")
def _(s):
    s.send()
    handle = s.take()
    s.ack(handle, topic=s.topic + "-other")
    s.ack(handle)


@case("ack: a handle of another group")
def _(s):
    s.send()
    handle = s.take(group="a")
    s.ack(handle, group="b")
    s.receive(group="b")
    s.ack(handle, group="a")


@case("ack: a handle of a lease that ran out")
def _(s):
    s.send()
    handle = s.take({"Vqs-Visibility-Timeout-Seconds": "1"})
    s.passed(time.time() + 1)
    s.ack(handle)
    s.note(len(s.receive(look="nothing").messages))


@case("ack: a handle that was given back")
def _(s):
    s.send()
    handle = s.take()
    s.patch(handle, 0)
    s.ack(handle)


@case("ack: a handle that was superseded")
def _(s):
    s.send()
    first = s.take()
    s.patch(first, 0)
    second = s.take()
    s.note(first != second)
    s.ack(first)
    s.ack(second)


@case("ack: deployments")
def _(s):
    s.send(b"pinned", {"Vqs-Deployment-Id": "dpl_a"})
    pinned = s.take()
    s.ack(pinned, {"Vqs-Deployment-Id": "dpl_b"})
    s.ack(pinned, {"Vqs-Deployment-Id": "dpl_a"})
    s.send(b"unpinned")
    unpinned = s.take()
    s.ack(unpinned, {"Vqs-Deployment-Id": "dpl_a"})
    s.ack(unpinned)


@case("ack: a pinned message without a deployment")
def _(s):
    s.send(b"pinned", {"Vqs-Deployment-Id": "dpl_a"})
    s.ack(s.take())


@case("ack: a message that another group has acknowledged")
def _(s):
    s.send()
    for group in ("a", "b"):
        s.ack(s.take(group=group), group=group)


# --- extend and reschedule


for seconds in (0, 1, 20, 3600):

    @case(f"patch: {seconds}")
    def _(s, seconds=seconds):
        s.send()
        handle = s.take()
        s.patch(handle, seconds)
        if seconds > 1:
            s.receive()
            s.ack(handle)
        else:
            s.until_it_comes()


BODIES = {
    "3601": 3601,
    "-1": -1,
    "a number as text": b'{"visibilityTimeoutSeconds":"30"}',
    "30.5": b'{"visibilityTimeoutSeconds":30.5}',
    "30.0": b'{"visibilityTimeoutSeconds":30.0}',
    "3e1": b'{"visibilityTimeoutSeconds":3e1}',
    "1e400": b'{"visibilityTimeoutSeconds":1e400}',
    "a very big number": b'{"visibilityTimeoutSeconds":99999999999999999999}',
    "true": b'{"visibilityTimeoutSeconds":true}',
    "null": b'{"visibilityTimeoutSeconds":null}',
    "an empty object": b"{}",
    "another member": b'{"visibilitytimeoutseconds":30}',
    "an array": b"[30]",
    "a bare number": b"30",
    "nothing": b"",
    "broken JSON": b'{"visibilityTimeoutSeconds":30',
    "no UTF-8": b'{"visibilityTimeoutSeconds":30,"x":"\xff"}',
}
for name, body in BODIES.items():

    @case(f"patch: refused: {name}")
    def _(s, body=body):
        s.send()
        handle = s.take()
        s.patch(handle, body)
        s.ack(handle)


@case("patch: more members than one, and no content type")
def _(s):
    s.send()
    handle = s.take()
    s.patch(handle, b' { "more": [1], "visibilityTimeoutSeconds": 0 } ')
    s.receive()
    s.send()
    handle = s.take()
    s.call("PATCH", s.path("consumer", "g", "lease", handle), [], b'{"visibilityTimeoutSeconds":20}')


@case("patch: beyond the end of the message")
def _(s):
    s.send(b"x", {"Vqs-Retention-Seconds": "60"})
    handle = s.receive().handle
    s.patch(handle, 61)
    s.patch(handle, 3600)
    s.patch(handle, 20)
    s.ack(handle)


@case("patch: by the other path")
def _(s):
    s.send()
    handle = s.take()
    path = s.path("consumer", "g", "lease", handle, "visibility")
    s.call("PATCH", path, [], b'{"visibilityTimeoutSeconds":3601}')
    s.call("PATCH", path, [], b'{"visibilityTimeoutSeconds":0}')
    s.receive()


@case("patch: an unknown handle")
def _(s):
    s.send()
    s.patch("no-such-handle", 30)
    s.patch("no-such-handle", b"broken")


@case("patch: a handle of another group and topic")
def _(s):
    s.send()
    handle = s.take()
    s.patch(handle, 30, group="other")
    s.patch(handle, 30, topic=s.topic + "-other")
    s.patch(handle, 30)


@case("patch: a handle that is acknowledged")
def _(s):
    s.send()
    handle = s.take()
    s.ack(handle)
    s.patch(handle, 30)
    s.patch(handle, b"broken")


@case("patch: a handle of a lease that ran out")
def _(s):
    s.send()
    handle = s.take({"Vqs-Visibility-Timeout-Seconds": "1"})
    s.passed(time.time() + 1)
    s.patch(handle, 30)
    s.patch(handle, b"broken")


@case("patch: a handle that was superseded")
def _(s):
    s.send()
    first = s.take()
    s.patch(first, 0)
    second = s.take()
    s.patch(first, 30)
    s.patch(second, 30)


@case("patch: deployments")
def _(s):
    s.send(b"pinned", {"Vqs-Deployment-Id": "dpl_a"})
    handle = s.take()
    s.patch(handle, 30, {"Vqs-Deployment-Id": "dpl_b"})
    s.patch(handle, 30, {"Vqs-Deployment-Id": "dpl_a"})
    s.patch(handle, 0)
    s.receive()


@case("patch: the new time counts from now")
def _(s):
    sent = s.send()
    handle = s.take({"Vqs-Visibility-Timeout-Seconds": "3600"})
    s.patch(handle, 20)
    locked = s.by_id(sent.id)
    s.note(15 <= int(locked.headers["Retry-After"]) <= 20)


# --- deployments and names


@case("deployments: who sees what")
def _(s):
    s.send(b"unpinned")
    s.send(b"a", {"Vqs-Deployment-Id": "dpl_a"})
    s.send(b"b", {"Vqs-Deployment-Id": "dpl_b"})
    ten = {"Vqs-Max-Messages": "10"}
    s.receive(ten | {"Vqs-Deployment-Id": "dpl_a"})
    s.receive(ten | {"Vqs-Deployment-Id": "dpl_c"})
    s.receive(ten)
    s.receive(ten, group="other")


for value in ["", "a b", "a.b", "a/b", "dpl_a-1"]:

    @case(f"deployments: the name {value!r}")
    def _(s, value=value):
        deployment = {"Vqs-Deployment-Id": value}
        s.send(b"x", deployment)
        s.receive(deployment)
        s.by_id("no-such-message", deployment)
        s.ack("no-such-handle", deployment)
        s.patch("no-such-handle", 30, deployment)


for name in ["a b", "a.b", "a~b", "a:b", "kůň", "\U0001f40e", "%", "a\u0000b", "a\nb"]:

    @case(f"names: {name!r} of a topic")
    def _(s, name=name):
        s.send(topic=name)
        s.receive(topic=name)
        s.by_id("no-such-message", topic=name)
        s.ack("no-such-handle", topic=name)
        s.patch("no-such-handle", 30, topic=name)

    @case(f"names: {name!r} of a group")
    def _(s, name=name):
        s.receive(group=name)
        s.by_id("no-such-message", group=name)
        s.ack("no-such-handle", group=name)
        s.patch("no-such-handle", 30, group=name)


@case("names: a slash in a topic")
def _(s):
    s.send(topic="a/b")


@case("names: every letter that is allowed")
def _(s):
    name = "-_09azAZ-" + s.topic
    s.send(topic=name)
    s.receive(topic=name, group="-_09azAZ")
    s.receive(topic=name.lower())


@case("names: percent-encoded where they need not be")
def _(s):
    def encoded(text):
        return "".join(f"%{byte:02x}" for byte in text.encode())

    sent = s.send()
    path = f"/api/v3/topic/{encoded(s.topic)}/consumer/{encoded('g')}"
    answer = s.call("POST", path, [("Accept", MULTIPART)])
    s.call("POST", f"{path}/id/{encoded(sent.id)}", [("Accept", MULTIPART)])
    lease = f"{path}/lease/{encoded(answer.handle)}"
    s.call("PATCH", lease, [], b'{"visibilityTimeoutSeconds":20}')
    s.call("PATCH", f"{lease}/visibility", [], b'{"visibilityTimeoutSeconds":20}')
    s.call("DELETE", lease)
    s.by_id(sent.id)


for prefix in ["/prefix", "/r/iad1", "/a%20b/c.d", "/api/v2/topic"]:

    @case(f"path: the prefix {prefix}")
    def _(s, prefix=prefix):
        sent = s.send(prefix=prefix)
        handle = s.receive(prefix=prefix).handle
        s.by_id(sent.id, prefix=prefix)
        s.patch(handle, 20, prefix=prefix)
        s.ack(handle, prefix=prefix)
        s.by_id(sent.id)


@case("path: what there is not")
def _(s):
    accept = [("Accept", MULTIPART)]
    for path in [
        "/api/v3/topic",
        "/api/v3/topics/t",
        s.path("consumer"),
        s.path("other"),
        s.path("other", "g"),
        s.path("consumer", "g", "other"),
        s.path("consumer", "g", "id"),
        s.path("consumer", "g", "id", "x", "y"),
    ]:
        s.call("POST", path, accept, look="status")
    s.call("DELETE", s.path("consumer", "g", "lease"), look="status")


for method, what, segments in [
    ("GET", "a topic", ()),
    ("PUT", "a topic", ()),
    ("DELETE", "a topic", ()),
    ("GET", "a group", ("consumer", "g")),
    ("DELETE", "a group", ("consumer", "g")),
    ("PATCH", "a group", ("consumer", "g")),
    ("GET", "a message", ("consumer", "g", "id", "x")),
    ("GET", "a lease", ("consumer", "g", "lease", "x")),
    ("POST", "a lease", ("consumer", "g", "lease", "x")),
    ("DELETE", "a visibility", ("consumer", "g", "lease", "x", "visibility")),
]:

    @case(f"method: {method} {what}")
    def _(s, method=method, segments=segments):
        s.call(method, s.path(*segments), [("Accept", MULTIPART)], look="status")


# --- the end of messages; takes a minute, beside the others


@case("end: a message that is over")
def _(s):
    sent = s.send(b"x", {"Vqs-Retention-Seconds": "60"})
    waiting = s.send(b"y", {"Vqs-Retention-Seconds": "60"})
    delayed = s.send(b"z", {"Vqs-Retention-Seconds": "60", "Vqs-Delay-Seconds": "60"})
    handle = s.by_id(sent.id, {"Vqs-Visibility-Timeout-Seconds": "3600"}).handle
    s.passed(time.time() + 60)
    for message in (sent, waiting, delayed):
        s.by_id(message.id)
    s.ack(handle)
    s.patch(handle, 20)
    s.receive({"Vqs-Max-Messages": "10"})


@case("end: the key of a message that is over")
def _(s):
    options = {"Vqs-Retention-Seconds": "60", "Vqs-Idempotency-Key": "k"}
    s.send(b"x", options)
    s.ack(s.take())
    s.passed(time.time() + 60)
    s.send(b"x", options)
    s.receive()


def outcome(function, base):
    side = Side(base)
    try:
        function(side)
    except Exception:
        side.seen.append(traceback.format_exc())
    return side.seen


def first_difference(oracle, millpond):
    for number, (one, other) in enumerate(zip(oracle, millpond), 1):
        if one != other:
            return number, one, other
    return min(len(oracle), len(millpond)) + 1, f"{len(oracle)} answers", f"{len(millpond)} answers"


def is_as(answer, expected):
    """Whether an answer is what was expected, of which only some may be said."""
    if isinstance(answer, dict) and isinstance(expected, dict):
        return all(name in answer and answer[name] == value for name, value in expected.items())
    return answer == expected


def verdict(name, oracle, millpond, intended):
    """Whether the outcomes are as they should be, and a line that says how they are."""
    broken = [seen for seen in oracle if isinstance(seen, str) and seen.startswith("Traceback")]
    if broken:
        return False, f"differs {name}: the oracle cannot be asked: {broken[0]}"
    if oracle == millpond:
        return name not in intended, f"same {name}" + (", which is intended to differ" if name in intended else "")
    number, one, other = first_difference(oracle, millpond)
    told = f"answer {number}: oracle {one!r} millpond {other!r}"
    if name not in intended:
        return False, f"differs {name}: {told}"
    why, expected = intended[name]
    right = is_as(other, expected)
    return right, f"differs {name} ({'intended' if right else f'not as intended, {expected!r}'}: {why}): {told}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("oracle")
    parser.add_argument("millpond")
    parser.add_argument("--all-same", action="store_true", help="no difference is intended")
    parser.add_argument("parts", nargs="*", help="only cases with one of these in their names")
    chosen = parser.parse_args()
    assert INTENDED.keys() <= CASES.keys(), INTENDED.keys() - CASES.keys()
    names = [name for name in CASES if not chosen.parts or any(part in name for part in chosen.parts)]
    passed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:
        # Those at the end take longest.
        pairs = {
            name: [pool.submit(outcome, CASES[name], base) for base in (chosen.oracle, chosen.millpond)]
            for name in reversed(names)
        }
        for name in names:
            oracle, millpond = (future.result() for future in pairs[name])
            right, line = verdict(name, oracle, millpond, {} if chosen.all_same else INTENDED)
            passed += right
            print(line)
    print(f"{passed} passed, {len(names) - passed} failed")
    return 0 if names and passed == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())

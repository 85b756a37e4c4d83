"""CloudEvents' own SDK for Python sends to a running server, in each mode of the HTTP binding, and reads back what is leased.

The SDK has two APIs, `core` and the older `v1`; both write binary and structured mode, neither writes batches, so a batch
is made of the SDK's own JSON. What a request says is worked out here from its headers and body by the rules of the
binding, and is what has to come back, data byte for byte.

One thing is done to what the SDK builds: `v1` does not percent-encode header values, which the binding asks for and
HTTP libraries insist on, so attributes beyond ASCII are encoded here on their way into headers.
"""

import base64
import http.client
import json
import os
import unittest
import urllib.parse
from datetime import datetime, timedelta, timezone

from cloudevents.core.bindings import http as core_http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent as CoreEvent
from cloudevents.v1 import http as v1_http
from cloudevents.v1.conversion import to_binary, to_json, to_structured

SERVER = urllib.parse.urlsplit(os.environ["MILLPOND_URL"]).netloc
BATCH = "application/cloudevents-batch+json"
JSON = {"content-type": "application/json"}
OWN = "millpond"
BASE = {"source": "https://shop.example/orders?x=1", "type": "order.placed"}
TIME = datetime(2026, 11, 30, 1, 2, 3, 456000, tzinfo=timezone.utc)

# JSON that a parser would change: spaces, escapes, numbers beyond 2^53, 1.50, a repeated name.
EXACT = '{ "n": 1.50,"big":12345678901234567890, "a":"\\u017e\\/", "a" : [ ] , "e": 1E2 }'

# name: (attributes, data)
CASES = {
    "json object": ({"datacontenttype": "application/json"}, {"order": 7, "lines": [{"sku": "a"}], "note": None}),
    "json beyond ascii": ({"datacontenttype": "application/json"}, {"kůň": "🐎 \u2028", "n": 1.5e300}),
    "json without a content type": ({}, {"default": True}),
    "json of a json suffix": ({"datacontenttype": "application/vnd.shop.order+json"}, {"order": 8}),
    "json as text": ({"datacontenttype": "application/json"}, EXACT),
    "json as bytes": ({"datacontenttype": "application/json; charset=utf-8"}, EXACT.encode()),
    "no data": ({}, None),
    "no data with a content type": ({"datacontenttype": "text/plain"}, None),
    "text": ({"datacontenttype": "text/plain"}, 'one\nline "two"\ttabbed \\ {"not": "json"}'),
    "text beyond ascii": ({"datacontenttype": "text/plain; charset=utf-8"}, "žluťoučký kůň 🐎 \u2028 日本語"),
    "text that looks like json": ({"datacontenttype": "text/plain"}, "[1, 2]"),
    "empty text": ({"datacontenttype": "text/plain"}, ""),
    "xml": ({"datacontenttype": "application/xml"}, '<order id="7"/>'),
    "bytes": ({"datacontenttype": "application/octet-stream"}, bytes(range(256))),
    "empty bytes": ({"datacontenttype": "application/octet-stream"}, b""),
    "a picture": ({"datacontenttype": "image/png"}, b"\x89PNG\r\n\x1a\n\x00"),
    "every attribute": (
        {
            "datacontenttype": "application/json",
            "dataschema": "https://shop.example/order.json#v1",
            "subject": "orders/7",
            "time": TIME,
        },
        {},
    ),
    "a time of another zone": ({"time": TIME.astimezone(timezone(timedelta(hours=5, minutes=30)))}, None),
    "a time to the microsecond": ({"time": TIME.replace(microsecond=1)}, None),
    "extensions": (
        {
            "datacontenttype": "application/json",
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "x2": "digits in the name",
            "spaced": "two  spaces inside",
            "count": 7,
            "flag": True,
        },
        {"n": 1},
    ),
    "attributes that need encoding": (
        {"datacontenttype": "text/plain", "subject": 'č. 7 – 50 % "sleva" €🐎', "tenant": "Ünïcode, %41 %zz"},
        "x",
    ),
    "an id that needs encoding": ({"datacontenttype": "text/plain", "id": "objednávka č. 7/α"}, "x"),
}


def core_event(attributes, data):
    return CoreEvent(dict(BASE) | attributes, data)


def v1_event(attributes, data):
    times = {"time": attributes["time"].isoformat()} if "time" in attributes else {}
    return v1_http.CloudEvent(dict(BASE) | attributes | times, data)


def encoded(value):
    """A header value as the binding wants it."""
    return urllib.parse.quote(str(value), safe="".join(map(chr, range(0x21, 0x7F))).replace('"', "").replace("%", ""))


def core_binary(attributes, data):
    message = core_http.to_binary_event(core_event(attributes, data))
    return message.headers, message.body


def core_structured(attributes, data):
    message = core_http.to_structured_event(core_event(attributes, data))
    return message.headers, message.body


def core_batch(attributes, data):
    return {"content-type": BATCH}, b"[" + JSONFormat().write(core_event(attributes, data)) + b"]"


def v1_binary(attributes, data):
    headers, body = to_binary(v1_event(attributes, data))
    return {name: encoded(value) if name.startswith("ce-") else value for name, value in headers.items()}, body or b""


def v1_structured(attributes, data):
    return to_structured(v1_event(attributes, data))


def v1_batch(attributes, data):
    return {"content-type": BATCH}, b"[" + to_json(v1_event(attributes, data)) + b"]"


def core_read(text):
    event = JSONFormat().read(None, text)
    attributes = dict(event.get_attributes())
    if "time" in attributes:
        attributes["time"] = attributes["time"].isoformat()
    return attributes, event.get_data()


def v1_read(text):
    event = v1_http.from_http({"content-type": "application/cloudevents+json"}, text)
    return {name: event[name] for name in event}, event.get_data()


MODES = {
    "core binary": (core_binary, core_read),
    "core structured": (core_structured, core_read),
    "core batch": (core_batch, core_read),
    "v1 binary": (v1_binary, v1_read),
    "v1 structured": (v1_structured, v1_read),
    "v1 batch": (v1_batch, v1_read),
}


def post(path, headers, body):
    connection = http.client.HTTPConnection(SERVER, timeout=60)
    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        text = response.read().decode()
        assert response.status == 200, f"{path}: {response.status} {text}"
        return text, response.getheader("content-type")
    finally:
        connection.close()


def lease(queue, accept="application/json", max_messages=1):
    call = json.dumps({"max_messages": max_messages, "visibility_timeout": "60s"})
    return post(f"/v1/queues/{queue}:lease", JSON | {"accept": accept}, call)


def settle(queue, verb, held):
    text, _ = post(f"/v1/queues/{queue}:{verb}", JSON, json.dumps({"leases": [held]}))
    return json.loads(text)["stale_leases"]


def is_json(content_type):
    essence = (content_type or "application/json").split(";")[0].strip()
    return essence.endswith("/json") or essence.endswith("+json")


def data_in(text, content_type):
    """The bytes of an event's data as JSON text holds them; None: there is no data."""
    event = json.loads(text)
    if "data_base64" in event:
        return base64.b64decode(event["data_base64"])
    if "data" not in event:
        return None
    if isinstance(event["data"], str) and not is_json(content_type):
        return event["data"].encode()
    return raw_member(text, "data").encode()


def raw_member(text, name):
    """The text of a member of the outermost object, as it stands there."""
    decoder = json.JSONDecoder()
    at = text.index("{") + 1
    while True:
        at = next_token(text, at)
        key, at = decoder.raw_decode(text, at)
        start = next_token(text, next_token(text, at) + 1)
        _, at = decoder.raw_decode(text, start)
        if key == name:
            return text[start:at]
        at = next_token(text, at) + 1


def next_token(text, at):
    while text[at] in " \t\r\n":
        at += 1
    return at


def elements(text):
    """The texts of the elements of an array, as they stand there."""
    decoder, found, at = json.JSONDecoder(), [], next_token(text, text.index("[") + 1)
    while text[at] != "]":
        _, end = decoder.raw_decode(text, at)
        found.append(text[at:end])
        at = next_token(text, end)
        if text[at] == ",":
            at = next_token(text, at + 1)
    return found


def said(headers, body):
    """Attributes and data bytes of a request, by the rules of the HTTP binding."""
    content_type = headers.get("content-type")
    if content_type in (BATCH, "application/cloudevents+json"):
        text = body.decode()
        text = elements(text)[0] if content_type == BATCH else text
        attributes = {name: value for name, value in json.loads(text).items() if not name.startswith("data_")}
        attributes.pop("data", None)
        # A member that is null is not there.
        attributes = {name: value for name, value in attributes.items() if value is not None}
        return attributes, data_in(text, attributes.get("datacontenttype"))
    attributes = {
        name[3:].lower(): urllib.parse.unquote(value)
        for name, value in headers.items()
        if name.lower().startswith("ce-")
    }
    if content_type is not None:
        attributes["datacontenttype"] = content_type
    return attributes, body or None


def native(event):
    """The same of an event in the server's own form, without data."""
    names = {"event_time": "time", "data_content_type": "datacontenttype", "data_schema": "dataschema"}
    skipped = ("data", "data_base64", "extensions")
    own = {names.get(name, name): value for name, value in event.items() if name not in skipped}
    return {"specversion": "1.0"} | own | event.get("extensions", {})


def normal(attributes):
    """Attributes with times as instants, and without those that the server adds."""
    return {
        name: datetime.fromisoformat(value.replace("Z", "+00:00")) if name == "time" else value
        for name, value in attributes.items()
        if not name.startswith(OWN)
    }


def means(value, data):
    """Whether what the SDK read is these bytes. It cannot tell null or nothing from no data."""
    if value is None:
        return data in (None, b"", b"null")
    if isinstance(value, bytes):
        return value == data
    if isinstance(value, str) and value.encode() == data:
        return True
    return json.loads(data) == value


class RealSenders(unittest.TestCase):
    maxDiff = None

    def check(self, queue, write, read, attributes, data):
        headers, body = write(attributes, data)
        post(f"/v1/queues?queue_id={queue}", JSON, "{}")
        post(f"/v1/queues/{queue}:send", headers, body)
        expected, expected_data = said(headers, body)

        text, _ = lease(queue)
        message = json.loads(text)["messages"][0]
        event_text = raw_member(elements(raw_member(text, "messages"))[0], "event")
        self.assertEqual(normal(native(message["event"])), normal(expected))
        self.assertEqual(data_in(event_text, expected.get("datacontenttype")), expected_data)
        self.assertEqual(settle(queue, "nack", message["lease"]), [])

        text, content_type = lease(queue, accept=BATCH)
        self.assertEqual(content_type, BATCH)
        [element] = elements(text)
        read_attributes, read_data = read(element)
        self.assertEqual(normal(read_attributes), normal(expected))
        self.assertEqual(data_in(element, expected.get("datacontenttype")), expected_data)
        self.assertTrue(means(read_data, expected_data), (read_data, expected_data))
        held = {
            "message_id": read_attributes["millpondmessageid"],
            "lease_generation": read_attributes["millpondgeneration"],
        }
        self.assertEqual((held["message_id"], read_attributes["millponddeliveries"]), (message["message_id"], "2"))
        self.assertEqual(settle(queue, "ack", held), [])

    def test_many_events_in_one_batch(self):
        post("/v1/queues?queue_id=batch", JSON, "{}")
        written = [JSONFormat().write(core_event(attributes, data)) for attributes, data in CASES.values()]
        post("/v1/queues/batch:send", {"content-type": BATCH}, b"[" + b",".join(written) + b"]")
        text, _ = lease("batch", accept=BATCH, max_messages=100)
        leased = elements(text)
        self.assertEqual(len(leased), len(CASES))
        for sent, element in zip(written, leased):
            self.assertEqual(normal(core_read(element)[0]), normal(core_read(sent)[0]))
        self.assertEqual(elements(lease("batch", accept=BATCH)[0]), [], "an empty batch")


def add(number, mode, name):
    write, read = MODES[mode]
    attributes, data = CASES[name]

    def test(self):
        self.check(f"q-{number}", write, read, attributes, data)

    setattr(RealSenders, f"test_{mode}_{name}".replace(" ", "_"), test)


for mode in MODES:
    for name in CASES:
        add(len(vars(RealSenders)), mode, name)

if __name__ == "__main__":
    unittest.main()

"""Vercel's own client for Python, polling a running server at MILLPOND_URL: each test by its asynchronous and by its
synchronous API.

With ORACLE=1 the server is the one that ships in the client's package, and what it has not got or does otherwise is
skipped or expected by name. Each test has topics of its own. Time passes only until what the server was asked for is due.
"""

import asyncio
import collections.abc
import dataclasses
import json
import os
import random
import subprocess
import sys
import time
import unittest
import unittest.mock
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any

import vercel.queue as vqs
import vercel.queue.sync as vqs_sync

BASE = os.environ["MILLPOND_URL"].rstrip("/")
ORACLE = os.environ.get("ORACLE") == "1"
WITHIN_SECONDS = 20
DAY = 86400

# What the client reads from there would change where it sends to.
for variable in [name for name in os.environ if name.startswith("VERCEL_")]:
    del os.environ[variable]

only_millpond = unittest.skipIf(ORACLE, "the reference server has not got this")


class FormTransport:
    content_type = 'application/x-www-form-urlencoded; charset="utf-8"'

    def serialize(self, value):
        return value.encode()

    async def deserialize(self, payload, *, content_type):
        return (b"".join([chunk async for chunk in payload])).decode()


def options(prefix="", deployment=vqs.ALL_DEPLOYMENTS, **others):
    return {"token": "any", "region": "iad1", "base_url": BASE + prefix, "deployment": deployment} | others


def pushed(topic, group, message_id):
    """A delivery that only names its message: the client fetches it by its id."""
    return {
        "ce-type": "com.vercel.queue.v2beta",
        "ce-vqsqueuename": topic,
        "ce-vqsconsumergroup": group,
        "ce-vqsmessageid": message_id,
    }


# By topic and group: what the subscriber there was given, and it, as the client keeps only a weak reference.
SUBSCRIBERS = {}


def handled_by(api, topic, group):
    if (topic, group) not in SUBSCRIBERS:
        handled = []
        SUBSCRIBERS[topic, group] = handled, api.subscribe(topic, handled.append, group)
    return SUBSCRIBERS[topic, group][0]


class Async:
    """The asynchronous API."""

    bytes_stream = collections.abc.AsyncIterable[bytes]
    text_stream = collections.abc.AsyncIterable[str]

    def __init__(self, **chosen):
        self.client = vqs.QueueClient(**options(**chosen))

    async def send(self, topic, payload, **chosen):
        return await self.client.send(topic, payload, **chosen)

    async def poll(self, topic, group="workers", handle=None, **chosen):
        """Handles and acknowledges what is there; the messages."""
        messages = []
        async for delivery in self.client.poll(topic, group, **chosen):
            async with delivery as message:
                if is_stream(message.payload):
                    message = dataclasses.replace(message, payload=[chunk async for chunk in message.payload])
                messages.append(message)
                if handle:
                    handle(message)
        return messages

    async def take(self, topic, group="workers", **chosen):
        """Leases what is there and leaves it so; the messages."""
        return [delivery.accept() async for delivery in self.client.poll(topic, group, **chosen)]

    async def acknowledge(self, message):
        await self.client.acknowledge(message)

    async def extend_lease(self, message, seconds):
        await self.client.extend_lease(message, seconds)

    async def retry_after(self, message, seconds):
        await self.client.retry_after(message, seconds)

    async def by_id(self, topic, message_id, group="workers"):
        """Handles and acknowledges one message; it."""
        handled = handled_by(self, topic, group)
        await self.client.accept_and_handle(b"", pushed(topic, group, message_id))
        return handled.pop()

    def subscribe(self, topic, handle, group="workers"):
        async def subscriber(message: vqs.Message[Any]):
            handle(message)

        return vqs.subscribe(topic=topic, consumer_group=group)(subscriber)

    async def handle_until(self, subscriber, done):
        polling = asyncio.create_task(self.client.poll_and_handle(subscriber, interval=0.05))
        await until(done, polling.done)
        polling.cancel()
        with unittest.TestCase().assertRaises(asyncio.CancelledError):
            await polling

    @staticmethod
    async def top_level(topic, payload, group):
        sent = await vqs.send(topic, payload)
        messages = []
        async for delivery in vqs.poll(topic, group):
            async with delivery as message:
                messages.append(message)
        return sent, messages


class Sync:
    """The synchronous API, in threads."""

    bytes_stream = collections.abc.Iterable[bytes]
    text_stream = collections.abc.Iterable[str]

    def __init__(self, **chosen):
        self.client = vqs_sync.QueueClient(**options(**chosen))

    async def send(self, topic, payload, **chosen):
        return await asyncio.to_thread(self.client.send, topic, payload, **chosen)

    async def poll(self, topic, group="workers", handle=None, **chosen):
        def poll():
            messages = []
            for delivery in self.client.poll(topic, group, **chosen):
                with delivery as message:
                    if is_stream(message.payload):
                        message = dataclasses.replace(message, payload=list(message.payload))
                    messages.append(message)
                    if handle:
                        handle(message)
            return messages

        return await asyncio.to_thread(poll)

    async def take(self, topic, group="workers", **chosen):
        def take():
            return [delivery.accept() for delivery in self.client.poll(topic, group, **chosen)]

        return await asyncio.to_thread(take)

    async def acknowledge(self, message):
        await asyncio.to_thread(self.client.acknowledge, message)

    async def extend_lease(self, message, seconds):
        await asyncio.to_thread(self.client.extend_lease, message, seconds)

    async def retry_after(self, message, seconds):
        await asyncio.to_thread(self.client.retry_after, message, seconds)

    async def by_id(self, topic, message_id, group="workers"):
        handled = handled_by(self, topic, group)
        await asyncio.to_thread(self.client.accept_and_handle, b"", pushed(topic, group, message_id))
        return handled.pop()

    def subscribe(self, topic, handle, group="workers"):
        def subscriber(message: vqs.Message[Any]):
            handle(message)

        return vqs.subscribe(topic=topic, consumer_group=group)(subscriber)

    async def handle_until(self, subscriber, done):
        polling = self.client.poll_and_handle(subscriber, interval=0.05)
        await until(done, polling.done)
        polling.cancel()
        await until(polling.done)

    @staticmethod
    async def top_level(topic, payload, group):
        def run():
            sent = vqs_sync.send(topic, payload)
            messages = []
            for delivery in vqs_sync.poll(topic, group):
                with delivery as message:
                    messages.append(message)
            return sent, messages

        return await asyncio.to_thread(run)


async def until(done, failed=lambda: False):
    deadline = time.monotonic() + WITHIN_SECONDS
    while not done():
        assert not failed() and time.monotonic() < deadline, f"it came within {WITHIN_SECONDS} s"
        await asyncio.sleep(0.02)


async def passed(moment):
    """Waits until a moment of the clock that the server has, too."""
    while (left := (moment - now()).total_seconds()) > 0:
        await asyncio.sleep(left)


def now():
    return datetime.now(timezone.utc)


def is_stream(payload):
    return type(payload).__name__.endswith("StreamPayload")


def topic_name():
    return f"t-{uuid.uuid4()}"


def ids(messages):
    return sorted(message.message_id for message in messages)


def payloads(messages):
    return sorted(message.payload for message in messages)


class Pollers:
    def setUp(self):
        self.queue = self.api()

    async def all(self, topic, count, group="workers", **chosen):
        """What comes until `count` messages came, which have to come one day."""
        messages = []
        deadline = time.monotonic() + WITHIN_SECONDS
        while True:
            messages += await self.queue.poll(topic, group, limit=10, **chosen)
            if len(messages) >= count:
                break
            self.assertLess(time.monotonic(), deadline, f"{len(messages)} of {count} messages came")
            await asyncio.sleep(0.02)
        self.assertEqual(len(messages), count)
        return messages

    async def test_a_message_comes_once_with_what_the_server_knows_of_it(self):
        topic, begun = topic_name(), now()
        sent = await self.queue.send(topic, {"order": 7})
        answered = now()
        [message] = await self.queue.poll(topic)
        metadata = message.metadata
        self.assertEqual((message.payload, message.message_id), ({"order": 7}, sent))
        self.assertEqual((metadata.topic, metadata.consumer_group, metadata.delivery_count), (topic, "workers", 1))
        self.assertEqual(metadata.content_type, "application/json")
        # A server may know times to the millisecond only.
        self.assertLessEqual(begun - timedelta(milliseconds=1), metadata.created_at)
        self.assertLessEqual(metadata.created_at, answered)
        self.assertEqual(metadata.expires_at - metadata.created_at, timedelta(days=1))
        self.assertEqual(await self.queue.poll(topic), [])
        await self.by_id_fails(topic, sent, vqs.MessageAlreadyProcessedError)

    async def by_id_fails(self, topic, message_id, error, queue=None):
        with self.assertRaises(error) as raised:
            await (queue or self.queue).by_id(topic, message_id)
        self.assertIs(type(raised.exception), error)
        return raised.exception

    async def test_payloads_come_back(self):
        blob = bytes(range(256)) + b"\r\n--vqs-boundary\r\n\r\n--vqs-boundary--\r\n"
        text = "žluťoučký kůň 🐎 \u2028 日本語"
        big = random.Random(7).randbytes(1024 * 1024)
        for kind, payload, content_type in [
            (None, {"lines": [{"sku": "a", "count": 2}], "note": None}, "application/json"),
            (None, [1, "two", [3.5], {}], "application/json"),
            (None, None, "application/json"),
            (str, text, "text/plain; charset=utf-8"),
            (str, "", "text/plain; charset=utf-8"),
            (bytes, blob, "application/octet-stream"),
            (bytes, b"", "application/octet-stream"),
            (bytes, big, "application/octet-stream"),
        ]:
            with self.subTest(content_type=content_type, payload=str(payload)[:40]):
                name = topic_name()
                topic = vqs.Topic[kind](name) if kind else name
                await self.queue.send(topic, payload)
                [message] = await self.queue.poll(topic)
                self.assertEqual((message.payload, message.metadata.content_type), (payload, content_type))

    async def test_streams_come_back(self):
        chunks = [b"a" * 70_000, b"", b"\r\n--", b"b" * 70_000]
        for kind, pieces, transport in [
            (self.queue.bytes_stream, chunks, vqs.ByteStreamTransport()),
            (self.queue.bytes_stream, [], vqs.ByteStreamTransport()),
            (self.queue.text_stream, ["kůň", " ", "🐎"], vqs.TextStreamTransport()),
        ]:
            with self.subTest(kind=str(kind), pieces=len(pieces)):
                topic = vqs.Topic[kind](topic_name(), transport=transport)
                await self.queue.send(topic, self.stream(pieces))
                [message] = await self.queue.poll(topic)
                empty = b"" if kind is self.queue.bytes_stream else ""
                self.assertEqual(empty.join(message.payload), empty.join(pieces))
                self.assertEqual(message.metadata.content_type, transport.content_type)

    def stream(self, pieces):
        async def stream():
            for piece in pieces:
                yield piece

        return stream() if self.api is Async else iter(pieces)

    async def test_a_content_type_comes_back_as_it_was_sent(self):
        topic = vqs.Topic[str](topic_name(), transport=FormTransport())
        await self.queue.send(topic, "a=1&b=2")
        [message] = await self.queue.poll(topic)
        self.assertEqual((message.payload, message.metadata.content_type), ("a=1&b=2", FormTransport.content_type))

    async def test_headers_of_the_sender_change_nothing(self):
        topic = topic_name()
        queue = self.api(headers={"X-Tenant": "acme"})
        await queue.send(topic, "x", headers={"X-Trace": "7"})
        self.assertEqual(payloads(await queue.poll(vqs.Topic[str](topic))), ["x"])

    async def test_a_delay_hides_a_message_until_it_is_over(self):
        topic = topic_name()
        await self.queue.send(topic, ["late"], delay=timedelta(seconds=2))
        await self.queue.send(topic, ["now"], delay=0)
        self.assertEqual(payloads(await self.queue.poll(topic, limit=10)), [["now"]])
        [late] = await self.all(topic, 1)
        self.assertGreaterEqual(now(), late.metadata.created_at + timedelta(seconds=2))
        self.assertEqual((late.payload, late.metadata.delivery_count), (["late"], 1))

    @only_millpond
    async def test_a_delayed_message_is_not_to_be_had_by_id(self):
        topic = topic_name()
        sent = await self.queue.send(topic, 1, delay=2)
        error = await self.by_id_fails(topic, sent, vqs.MessageLockedError)
        self.assertIn(error.retry_after, (1, 2))
        self.assertEqual(ids(await self.all(topic, 1)), [sent])

    async def test_a_message_is_kept_for_as_long_as_is_asked_for(self):
        for retention in (60, 7 * DAY):
            topic = topic_name()
            await self.queue.send(topic, 1, retention=retention)
            [message] = await self.queue.poll(topic)
            kept = message.metadata.expires_at - message.metadata.created_at
            self.assertEqual(kept, timedelta(seconds=retention))

    async def test_what_is_out_of_range_is_refused(self):
        topic = topic_name()
        refused = [
            {"retention": 59},
            {"retention": 7 * DAY + 1},
            {"delay": 61, "retention": 60},
            {"delay": DAY + 1},
            {"delay": 7 * DAY + 1, "retention": 7 * DAY},
        ]
        if not ORACLE:
            refused.append({"idempotency_key": "k" * 257})
        for chosen in refused:
            with self.subTest(**chosen), self.assertRaises(vqs.BadRequestError):
                await self.queue.send(topic, 1, **chosen)
        self.assertEqual(await self.queue.poll(topic), [])

    async def test_a_duplicate_is_never_delivered_and_leads_to_its_original(self):
        topic = topic_name()
        first = await self.queue.send(topic, 1, idempotency_key="k" * 256)
        second = await self.queue.send(topic, 1, idempotency_key="k" * 256)
        self.assertNotEqual(first, second)
        self.assertEqual((await self.queue.by_id(topic, second)).message_id, first)
        self.assertEqual(await self.queue.poll(topic, limit=10), [])
        error = await self.by_id_fails(topic, second, vqs.MessageAlreadyProcessedError)
        self.assertEqual(error.message_id, first)
        third = await self.queue.send(topic, 1, idempotency_key="k" * 256)
        self.assertEqual(await self.queue.poll(topic, limit=10), [])
        other = await self.queue.send(topic, [1], idempotency_key="other")
        self.assertEqual(ids(await self.queue.poll(topic, limit=10)), [other])
        self.assertNotIn(third, (first, second))

    @only_millpond
    async def test_the_payload_of_a_duplicate_does_not_matter(self):
        topic = topic_name()
        first = await self.queue.send(topic, [1], idempotency_key="k")
        await self.queue.send(topic, [2], idempotency_key="k")
        self.assertEqual(ids(await self.queue.poll(topic, limit=10)), [first])

    async def test_deployments_have_keys_of_their_own(self):
        topic = topic_name()
        for deployment in (vqs.ALL_DEPLOYMENTS, "dpl_a", "dpl_b"):
            await self.queue.send(topic, 1, idempotency_key="k", deployment=deployment)
        self.assertEqual(len(await self.queue.poll(topic, limit=10)), 3)

    async def test_an_unknown_topic_is_empty(self):
        self.assertEqual(await self.queue.poll(topic_name()), [])

    async def test_one_message_comes_unless_more_are_asked_for_and_ten_at_most(self):
        topic = topic_name()
        sent = [await self.queue.send(topic, number) for number in range(13)]
        got = []
        for chosen, count in [({}, 1), ({"limit": 1}, 1), ({"limit": 10}, 10), ({"limit": 10}, 1), ({}, 0)]:
            messages = await self.queue.poll(topic, **chosen)
            self.assertEqual(len(messages), count)
            got += messages
        self.assertEqual(ids(got), sorted(sent))

    async def test_groups_have_their_own_copies(self):
        topic = topic_name()
        sent = sorted([await self.queue.send(topic, number) for number in (1, 2)])
        for group in ("a", "b", "grp.one/ü"):
            self.assertEqual(ids(await self.queue.poll(topic, group, limit=10)), sent)
            self.assertEqual(await self.queue.poll(topic, group, limit=10), [])

    async def test_a_message_is_leased_while_it_is_handled_and_after_a_failure(self):
        topic = topic_name()
        sent = await self.queue.send(topic, 1)

        def fail(message):
            raise ArithmeticError("on purpose")

        with self.assertRaises(ArithmeticError):
            await self.queue.poll(topic, handle=fail, lease_duration=60)
        self.assertEqual(await self.queue.poll(topic), [])
        error = await self.by_id_fails(topic, sent, vqs.MessageLockedError)
        self.assertTrue(1 <= error.retry_after <= 60, error.retry_after)
        self.assertEqual(ids(await self.queue.poll(topic, "other")), [sent])

    async def test_a_handed_off_message_stays_leased_until_it_is_acknowledged(self):
        topic = topic_name()
        sent = await self.queue.send(topic, 1)

        def hand_off(message):
            raise vqs.Handoff

        [message] = await self.queue.poll(topic, handle=hand_off)
        await self.by_id_fails(topic, sent, vqs.MessageLockedError)
        await self.queue.acknowledge(message)
        await self.by_id_fails(topic, sent, vqs.MessageAlreadyProcessedError)

    async def test_a_failed_message_comes_again_after_the_time_that_was_asked_for(self):
        topic = topic_name()
        sent = await self.queue.send(topic, 1)
        for count, delay in [(1, 0), (2, 1)]:

            def fail(message):
                self.assertEqual(message.metadata.delivery_count, count)
                raise vqs.RetryAfter(delay)

            begun = now()
            self.assertEqual(ids(await self.queue.poll(topic, handle=fail)), [sent])
        [message] = await self.all(topic, 1)
        self.assertGreaterEqual(now(), begun + timedelta(seconds=1))
        self.assertEqual((message.message_id, message.metadata.delivery_count), (sent, 3))

    async def test_a_lease_that_ran_out(self):
        topic = topic_name()
        await self.queue.send(topic, 1)
        [message] = await self.queue.take(topic, lease_duration=1)
        await passed(now() + timedelta(seconds=1))
        for settle in (self.queue.acknowledge(message), self.queue.extend_lease(message, 30)):
            with self.assertRaises(vqs.MessageLeaseExpiredError):
                await settle
        [again] = await self.queue.poll(topic)
        self.assertEqual((again.message_id, again.metadata.delivery_count), (message.message_id, 2))

    async def test_a_lease_that_another_has_now(self):
        topic = topic_name()
        await self.queue.send(topic, 1)
        [first] = await self.queue.take(topic)
        await self.queue.extend_lease(first, 0)
        [second] = await self.queue.take(topic)
        self.assertNotEqual(first.metadata.receipt_handle, second.metadata.receipt_handle)
        expected = vqs.MessageNotInFlightError if ORACLE else vqs.ReceiptHandleMismatchError
        for settle in (self.queue.acknowledge(first), self.queue.extend_lease(first, 30)):
            with self.assertRaises(vqs.MessageLockedError) as raised:
                await settle
            self.assertIs(type(raised.exception), expected)
        await self.queue.extend_lease(second, 30)
        await self.queue.acknowledge(second)
        await self.by_id_fails(topic, first.message_id, vqs.MessageAlreadyProcessedError)

    @only_millpond
    async def test_an_acknowledgement_may_be_repeated(self):
        topic = topic_name()
        await self.queue.send(topic, 1)
        [message] = await self.queue.take(topic)
        for _ in range(3):
            await self.queue.acknowledge(message)
        with self.assertRaises(vqs.MessageNotInFlightError):
            await self.queue.extend_lease(message, 30)

    async def test_a_handle_of_nobody(self):
        topic = topic_name()
        sent = await self.queue.send(topic, 1)
        [message] = await self.queue.take(topic)
        made_up = dataclasses.replace(message.metadata, receipt_handle="made up/by nobody")
        elsewhere = dataclasses.replace(message.metadata, topic=topic_name())
        for metadata in (made_up, elsewhere):
            with self.assertRaises(vqs.MessageNotFoundError):
                await self.queue.extend_lease(metadata, 30)
            await self.queue.acknowledge(metadata)
            with self.assertLogs("vercel.queue", "WARNING"):
                await self.queue.retry_after(metadata, 0)
        other_group = dataclasses.replace(message.metadata, consumer_group=vqs.SanitizedName("other"))
        for settle in (self.queue.extend_lease(other_group, 30), self.queue.acknowledge(other_group)):
            with self.assertRaises(vqs.MessageNotInFlightError):
                await settle
        await self.by_id_fails(topic, sent, vqs.MessageLockedError)
        await self.queue.acknowledge(message)

    async def test_a_lease_is_extended_and_shortened_from_now(self):
        topic = topic_name()
        sent = await self.queue.send(topic, 1)
        [message] = await self.queue.take(topic, lease_duration=1)
        await self.queue.extend_lease(message, 30)
        await passed(now() + timedelta(seconds=1))
        self.assertEqual(await self.queue.poll(topic), [])
        begun = now()
        await self.queue.extend_lease(message, timedelta(seconds=1))
        [again] = await self.all(topic, 1)
        self.assertGreaterEqual(now(), begun + timedelta(seconds=1))
        self.assertEqual((again.message_id, again.metadata.delivery_count), (sent, 2))

    async def test_a_lease_lasts_an_hour_at_most_and_never_beyond_the_message(self):
        topic = topic_name()
        await self.queue.send(topic, 1)
        await self.queue.send(topic, 2, retention=60)
        leased = {message.payload: message for message in await self.queue.take(topic, limit=10)}
        await self.queue.extend_lease(leased[1], 3600)
        with self.assertRaises(vqs.BadRequestError) as raised:
            await self.queue.extend_lease(leased[2], 61)
        answer = json.loads(str(raised.exception))
        expires_at = datetime.fromisoformat(answer["messageExpiresAt"])
        self.assertEqual(expires_at, leased[2].metadata.expires_at)
        self.assertGreater(datetime.fromisoformat(answer["requestedExpiresAt"]), expires_at)
        for message in leased.values():
            await self.queue.acknowledge(message)

    async def test_a_message_by_its_id(self):
        topic = topic_name()
        sent = [await self.queue.send(topic, number) for number in (1, 2)]
        message = await self.queue.by_id(topic, sent[1])
        self.assertEqual((message.payload, message.message_id), (2, sent[1]))
        self.assertEqual(message.metadata.delivery_count, 1)
        self.assertEqual(ids(await self.queue.poll(topic, limit=10)), [sent[0]])
        await self.by_id_fails(topic, "no-such-message", vqs.MessageNotFoundError)
        await self.by_id_fails(topic_name(), sent[0], vqs.MessageNotFoundError)

    async def test_pinned_readers_see_their_deployment_and_unpinned_ones_all(self):
        topic = topic_name()
        for deployment in (vqs.ALL_DEPLOYMENTS, "dpl_a", "dpl_b"):
            await self.queue.send(topic, str(deployment), deployment=deployment)
        text = vqs.Topic[str](topic)
        pinned = self.api(deployment="dpl_a")
        self.assertEqual(payloads(await pinned.poll(text, limit=10)), ["dpl_a"])
        self.assertEqual(await self.api(deployment="dpl_c").poll(text, limit=10), [])
        # What the group has done is done for all that read as it.
        self.assertEqual(len(await self.queue.poll(text, limit=10)), 2)
        self.assertEqual(len(await self.queue.poll(text, "other", limit=10)), 3)
        self.assertEqual(payloads(await pinned.poll(text, "third", limit=10)), ["dpl_a"])

    async def test_a_lease_belongs_to_the_deployment_of_its_message(self):
        topic = topic_name()
        sent = await self.queue.send(topic, 1, deployment="dpl_a")
        right, wrong = self.api(deployment="dpl_a"), self.api(deployment="dpl_b")
        await self.by_id_fails(topic, sent, vqs.MessageNotFoundError, queue=wrong)
        [message] = await right.take(topic)
        with self.assertRaises(vqs.MessageNotFoundError):
            await wrong.extend_lease(message, 0)
        await wrong.acknowledge(message)
        await self.by_id_fails(topic, sent, vqs.MessageLockedError)
        await self.queue.extend_lease(message, 30)
        await right.acknowledge(message)
        await self.by_id_fails(topic, sent, vqs.MessageAlreadyProcessedError)

    async def test_the_base_url_may_have_a_prefix(self):
        for prefix in ("/a-prefix", "/with/three/parts", "/r/{region}/"):
            topic = topic_name()
            queue = self.api(prefix=prefix)
            sent = await queue.send(topic, 1)
            [message] = await queue.take(topic)
            await queue.extend_lease(message, 30)
            await queue.acknowledge(message)
            self.assertEqual(message.message_id, sent)
            self.assertEqual(ids(await self.queue.poll(topic, "other")), [sent])

    async def test_the_environment_that_vercel_dev_makes(self):
        environment = {
            "VERCEL_QUEUE_BASE_URL": BASE + "/_svc/_queues",
            "VERCEL_QUEUE_TOKEN": "vc-dev-token",
            "VERCEL_REGION": "dev1",
        }
        with unittest.mock.patch.dict(os.environ, environment):
            sent, messages = await self.queue.top_level(topic_name(), {"n": 1}, "workers")
        self.assertEqual([(sent, {"n": 1})], [(message.message_id, message.payload) for message in messages])

    async def test_the_command_line_sender(self):
        topic = topic_name()
        command = [sys.executable, "-m", "vercel.queue", "send", "--topic", topic, "--region", "iad1"]
        command += ["--deployment", "dpl_a", "--json", '{"n": 1}', "--output-format", "json"]
        environment = os.environ | {"VERCEL_QUEUE_BASE_URL": BASE, "VERCEL_QUEUE_TOKEN": "any"}
        ended = await asyncio.to_thread(subprocess.run, command, env=environment, capture_output=True, text=True)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        [message] = await self.api(deployment="dpl_a").poll(topic)
        self.assertEqual(message.payload, {"n": 1})
        self.assertIn(message.message_id, json.loads(ended.stdout).values())

    async def test_a_subscriber_handles_what_comes_and_what_failed_again(self):
        topic, handled = topic_name(), []

        def handle(message):
            handled.append(message)
            if message.payload == 3 and message.metadata.delivery_count == 1:
                raise vqs.RetryAfter(0)

        subscriber = self.queue.subscribe(topic, handle)
        for number in range(15):
            await self.queue.send(topic, number)
        await self.queue.handle_until(subscriber, lambda: len(handled) == 16)
        self.assertEqual(payloads(handled), sorted([*range(15), 3]))
        self.assertEqual(await self.queue.poll(topic), [])

    async def test_a_hundred_messages_go_through_four_pollers_each_once(self):
        topic = topic_name()
        sent = []
        for begin in range(0, 100, 20):
            sent += await asyncio.gather(*(self.queue.send(topic, begin + number) for number in range(20)))
        self.assertEqual(len(set(sent)), 100)
        got = []
        deadline = time.monotonic() + WITHIN_SECONDS

        async def poll():
            while len(got) < 100 and time.monotonic() < deadline:
                got.extend(await self.queue.poll(topic, limit=10))

        await asyncio.gather(*(poll() for _ in range(4)))
        self.assertEqual(ids(got), sorted(sent))
        self.assertEqual(payloads(got), list(range(100)))
        self.assertEqual({message.metadata.delivery_count for message in got}, {1})
        self.assertEqual(await self.queue.poll(topic, limit=10), [])


class AsyncPollers(Pollers, unittest.IsolatedAsyncioTestCase):
    api = Async


class SyncPollers(Pollers, unittest.IsolatedAsyncioTestCase):
    api = Sync


if __name__ == "__main__":
    unittest.main()

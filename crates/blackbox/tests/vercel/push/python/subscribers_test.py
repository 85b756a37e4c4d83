"""vercel-queue's subscribers behind Vercel's own receiver of pushes, and behind WSGI: what each outcome does to a message."""

import time
import unittest

import vercel.queue as vqs
import vercel.queue.sync as vqs_sync
from harness import App, Millpond

DEPLOYMENT = "dpl_1"
TOKEN = "VERCEL_QUEUE_TOKEN"


class Deployed(unittest.TestCase):
    """A server and an app of a project for all tests of a class."""

    project, module, receiver = "subscribers", "shop", "receiver"
    deployment_of_messages = vqs.ALL_DEPLOYMENTS
    further = ()

    @classmethod
    def environment(cls):
        return cls.millpond.client_environment()

    @classmethod
    def setUpClass(cls):
        cls.millpond = Millpond()
        cls.addClassCleanup(cls.millpond.stop)
        cls.millpond.call("POST", "/v1/queues?queue_id=dead", {})
        cls.app = App(cls.project, cls.module, cls.environment(), cls.receiver)
        cls.addClassCleanup(cls.app.end)
        cls.millpond.deploy(cls.app, DEPLOYMENT, "--dead-letter-queue", "dead", *cls.further)
        cls.client = vqs_sync.QueueClient(
            token="any", region="iad1", base_url=cls.millpond.url, deployment=cls.deployment_of_messages
        )

    def replies(self, *ids):
        """What the app said to the pushes of messages, in their order, one for each time that an id is given."""
        def those(seen):
            replies = [note for note in seen if note["note"] == "reply" and note["headers"]["ce-vqsmessageid"] in ids]
            return len(replies) >= len(ids) and [reply["status"] for reply in replies]

        return self.app.notes.until(those)

    def handled(self, name, *ids):
        """What a subscriber noted of messages, the same way."""
        def those(seen):
            notes = [note for note in seen if note["note"] == name and note["id"] in ids]
            return len(notes) >= len(ids) and notes

        return self.app.notes.until(those)

    def assert_done(self, topic, group, message_id):
        """No subscriber gets it any more."""
        self.assertEqual(self.millpond.take(topic, group, message_id), 410)


class Outcomes(Deployed):
    def test_one_that_returns_gets_the_message_once(self):
        sent = self.client.send("orders", {"order": 7, "note": "žluťoučký kůň 🐎"})
        self.assertEqual(self.replies(sent), [204])
        [note] = self.handled("order", sent)
        self.assertEqual((note["payload"], note["count"]), ({"order": 7, "note": "žluťoučký kůň 🐎"}, 1))
        self.assert_done("orders", "shop_Dorder", sent)

    def test_a_pattern_takes_each_topic_it_matches(self):
        topics = {self.client.send(f"payloads-{end}", {"end": end}): f"payloads-{end}" for end in "abc"}
        self.assertEqual(self.replies(*topics), [204] * 3)
        payloads = [note["payload"]["end"] for note in self.app.notes.named("payload", 3)]
        self.assertEqual(sorted(payloads), ["a", "b", "c"])
        for sent, topic in topics.items():
            self.assert_done(topic, "only_Dpayloads", sent)

    def test_one_that_raises_gets_the_message_again_after_its_retry_time(self):
        begun = time.monotonic()
        sent = self.client.send("failing", {})
        self.assertEqual(self.replies(sent, sent, sent), [500, 500, 204])
        self.assertEqual([note["count"] for note in self.handled("failing", sent)], [1, 2, 3])
        self.assertGreaterEqual(time.monotonic() - begun, 2)
        self.assert_done("failing", "shop_Dfailing", sent)

    def test_one_that_raises_what_the_receiver_takes_for_a_bad_request_gets_it_again_too(self):
        sent = self.client.send("invalid", {})
        self.assertEqual(self.replies(sent, sent), [400, 204])
        self.assert_done("invalid", "shop_Dinvalid", sent)

    def test_one_that_asks_to_have_it_later_gets_it_then(self):
        begun = time.monotonic()
        sent = self.client.send("later", {})
        self.assertEqual(self.replies(sent, sent), [204, 204])
        self.assertGreaterEqual(time.monotonic() - begun, 2)
        self.assertEqual([note["count"] for note in self.handled("later", sent)], [1, 2])
        self.assert_done("later", "shop_Dlater", sent)

    def test_one_that_fails_as_often_as_it_may_loses_it_to_the_dead_letter_queue(self):
        sent = self.client.send("poison", {"order": 7})
        dead = self.millpond.call("POST", "/v1/queues/dead:lease", {"wait": "20s"})
        self.assertEqual(dead["messages"][0]["event"]["data"], {"order": 7})
        self.assertEqual([note["count"] for note in self.handled("poison", sent, sent)], [1, 2])
        self.assertEqual(self.replies(sent, sent), [500, 500])

    def test_one_that_hands_it_over_may_acknowledge_it_later(self):
        sent = self.client.send("handed", {})
        self.assertEqual(self.replies(sent), [204])
        self.client.send("let-go", {})
        self.handled("finished", sent)
        self.assert_done("handed", "shop_Dhanded", sent)
        self.assertEqual(len(self.handled("handed", sent)), 1)

    def test_large_data_and_none_are_fetched(self):
        for size in (5 * 1024 * 1024, 0):
            sent = self.client.send("large", b"0123456789abcdef" * (size // 16))
            self.assertEqual(self.replies(sent), [204])
            self.assert_done("large", "shop_Dlarge", sent)
        large, empty = self.app.notes.named("large", 2)
        self.assertEqual((large["length"], large["same"], large["count"]), (5 * 1024 * 1024, True, 1))
        self.assertEqual((empty["length"], empty["count"]), (0, 1))

    def test_many_at_once_are_pushed_at_once(self):
        sent = [self.client.send("crowd", {"number": number}) for number in range(8)]
        self.assertEqual(self.replies(*sent), [204] * 8)
        for message in sent:
            self.assert_done("crowd", "shop_Dcrowd", message)


class ShortLeases(Deployed):
    further = ("--lease", "5")

    def test_one_that_takes_longer_than_its_lease_has_it_renewed(self):
        sent = self.client.send("slow", {})
        self.handled("slow", sent)
        self.client.send("let-go", {}, delay=7)
        self.assertEqual(self.replies(sent), [204])
        self.assertEqual(len(self.handled("slow", sent)), 1)
        self.assert_done("slow", "shop_Dslow", sent)


class PushTokens(Deployed):
    """With no token of its own the app makes its calls with those that come with the pushes."""

    deployment_of_messages = DEPLOYMENT

    @classmethod
    def environment(cls):
        environment = cls.millpond.client_environment(VERCEL_DEPLOYMENT_ID=DEPLOYMENT)
        del environment[TOKEN]
        return environment

    def test_one_message_after_the_other(self):
        for number in range(5):
            sent = self.client.send("orders", {"number": number})
            self.assertEqual(self.replies(sent), [204], self.app.said())
            self.assert_done("orders", "shop_Dorder", sent)

    def test_large_data_is_fetched(self):
        sent = self.client.send("large", b"0123456789abcdef" * 64 * 1024)
        self.assertEqual(self.replies(sent), [204], self.app.said())
        self.assert_done("large", "shop_Dlarge", sent)

    def test_one_that_asks_to_have_it_later_gets_it_then(self):
        sent = self.client.send("later", {})
        self.assertEqual(self.replies(sent, sent), [204, 204], self.app.said())

    def test_many_at_once_that_send_messages_on(self):
        """The client keeps one token for all calls under way, the one that is good for longest."""
        sent = [self.client.send("crowd", {"number": number}) for number in range(8)]
        self.assertEqual(self.replies(*sent), [204] * 8, self.app.said())

        def arrived(seen):
            orders = [note["payload"]["after"] for note in seen if note["note"] == "order" and "after" in note["payload"]]
            return len(orders) >= 8 and sorted(orders)

        self.assertEqual(self.app.notes.until(arrived), list(range(8)))

    def test_what_is_handed_over_is_acknowledged_after_the_call(self):
        sent = self.client.send("handed", {})
        self.assertEqual(self.replies(sent), [204], self.app.said())
        self.client.send("let-go", {})
        self.handled("finished", sent)
        self.assert_done("handed", "shop_Dhanded", sent)


class Wsgi(Deployed):
    project, receiver = "wsgi", "wsgi_receiver"

    def test_one_that_returns_gets_the_message_once(self):
        sent = [self.client.send("orders", {"number": number}) for number in range(20)]
        self.assertEqual(self.replies(*sent), [204] * 20)
        self.assertEqual(sorted(note["payload"]["number"] for note in self.handled("order", *sent)), list(range(20)))
        for message in sent:
            self.assert_done("orders", "shop_Dorder", message)

    def test_one_that_raises_and_one_that_asks_for_time(self):
        failing, later = self.client.send("failing", {}), self.client.send("later", {})
        self.assertEqual(self.replies(failing, failing), [500, 204])
        self.assertEqual(self.replies(later, later), [204, 204])
        self.assert_done("failing", "shop_Dfailing", failing)
        self.assert_done("later", "shop_Dlater", later)


if __name__ == "__main__":
    unittest.main()

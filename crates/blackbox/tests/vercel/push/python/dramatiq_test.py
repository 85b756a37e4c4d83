"""Dramatiq with Vercel's integration in push mode: its actors run in the process that is pushed to, their results are in
the runtime cache."""

import os
import sys
import time
import unittest

from dramatiq.results import ResultFailure
from harness import HERE, WITHIN_SECONDS, App, Millpond

MILLPOND = Millpond("--runtime-cache", str(64 * 1024 * 1024))
os.environ |= MILLPOND.client_environment()
sys.path.insert(0, str(HERE / "dramatiq_shop"))

from dramatiq_shop import add, failing, later, twice_failing  # noqa: E402  reads the environment


def setUpModule():
    global pushed
    pushed = App("dramatiq_shop", "dramatiq_shop", MILLPOND.client_environment())
    MILLPOND.deploy(pushed, "dpl_1")


def tearDownModule():
    pushed.end()
    MILLPOND.stop()


class DramatiqTest(unittest.TestCase):
    def get(self, message):
        return message.get_result(block=True, timeout=WITHIN_SECONDS * 1000)

    def test_results_come_back(self):
        sent = [add.send(number, 1) for number in range(20)]
        self.assertEqual([self.get(message) for message in sent], list(range(1, 21)), pushed.said())
        self.assertTrue(all(status == 204 for status in pushed.notes.replies(20)))
        replies = [note for note in pushed.notes.seen if note["note"] == "reply"]
        for headers in (reply["headers"] for reply in replies):
            taken = MILLPOND.take(headers["ce-vqsqueuename"], "dramatiq", headers["ce-vqsmessageid"])
            self.assertEqual(taken, 410)

    def test_a_failure_comes_back(self):
        sent = failing.send()
        with self.assertRaises(ResultFailure) as raised:
            self.get(sent)
        self.assertIn("ArithmeticError", str(raised.exception))
        self.assertEqual(len(pushed.notes.named("failing", 1)), 1)

    def test_a_failing_actor_is_tried_again_later(self):
        sent = twice_failing.send("a")
        tries = [note["at"] for note in pushed.notes.named("twice_failing", 3)]
        self.assertEqual(self.get(sent), 3)
        for before, after in zip(tries, tries[1:]):
            # The least back-off, of which a part is by chance.
            self.assertGreater(after - before, 0.49)

    def test_a_delayed_message_waits(self):
        later.send_with_options(args=(time.time(),), delay=2500)
        [note] = pushed.notes.named("later", 1)
        self.assertGreaterEqual(note["waited"], 2.499)


if __name__ == "__main__":
    unittest.main()

"""Celery with Vercel's integration in push mode: its tasks run in the process that is pushed to, their results are in the
runtime cache."""

import os
import sys
import unittest

from harness import HERE, WITHIN_SECONDS, App, Millpond

MILLPOND = Millpond("--runtime-cache", str(64 * 1024 * 1024))
os.environ |= MILLPOND.client_environment()
sys.path.insert(0, str(HERE / "celery_shop"))

from celery_shop import add, app, failing, once_rejected, twice_failing  # noqa: E402  reads the environment

TOPIC = "celery-my__shop-celery"


def setUpModule():
    global pushed
    pushed = App("celery_shop", "celery_shop", MILLPOND.client_environment())
    MILLPOND.deploy(pushed, "dpl_1")


def tearDownModule():
    app.close()
    pushed.end()
    MILLPOND.stop()


class CeleryTest(unittest.TestCase):
    def get(self, result):
        try:
            return result.get(timeout=WITHIN_SECONDS)
        except Exception:
            print(pushed.said(), file=sys.stderr)
            raise

    def assert_all_done(self):
        """Each message that was pushed has been acknowledged."""
        replies = [note for note in pushed.notes.seen if note["note"] == "reply"]
        for message in {reply["headers"]["ce-vqsmessageid"] for reply in replies}:
            self.assertEqual(MILLPOND.take(TOPIC, "celery", message), 410)

    def test_results_come_back(self):
        sent = [add.delay(number, 1) for number in range(20)]
        self.assertEqual([self.get(result) for result in sent], list(range(1, 21)))
        pushed.notes.replies(20)
        self.assert_all_done()

    def test_a_chain_sends_from_task_to_task(self):
        chain = (add.s(1, 2) | add.s(3) | add.s(4)).apply_async()
        self.assertEqual(self.get(chain), 10)

    def test_a_failure_comes_back(self):
        sent = failing.delay()
        with self.assertRaises(ArithmeticError):
            sent.get(timeout=WITHIN_SECONDS)
        self.assertEqual(sent.state, "FAILURE")
        self.assertEqual(len(pushed.notes.named("failing", 1)), 1)

    def test_a_task_that_asks_to_be_tried_again_is(self):
        self.assertEqual(self.get(twice_failing.delay(1)), 2)
        retries = [note["retries"] for note in pushed.notes.named("twice_failing", 3)]
        self.assertEqual(retries, [0, 1, 2])

    def test_a_task_that_is_rejected_is_pushed_again(self):
        self.assertEqual(self.get(once_rejected.delay()), "at last")
        pushed.notes.named("once_rejected", 2)

    def test_a_task_with_a_countdown_waits(self):
        self.assertEqual(self.get(add.apply_async((1, 2), countdown=2)), 3)


if __name__ == "__main__":
    unittest.main()

"""Django's tasks with Vercel's integration in push mode: they run in the process that is pushed to, their results are in
the runtime cache."""

import os
import sys
import unittest
from datetime import datetime, timedelta, timezone

from harness import HERE, App, Millpond

MILLPOND = Millpond("--runtime-cache", str(64 * 1024 * 1024))
os.environ |= MILLPOND.client_environment()
sys.path.insert(0, str(HERE / "django_shop"))

from django.tasks import TaskResultStatus  # noqa: E402  after the environment
from django_shop import add, add_async, failing, once_failing  # noqa: E402


def setUpModule():
    global pushed
    pushed = App("django_shop", "django_shop", MILLPOND.client_environment())
    MILLPOND.deploy(pushed, "dpl_1")


def tearDownModule():
    pushed.end()
    MILLPOND.stop()


class DjangoTest(unittest.TestCase):
    def until_pushed(self, sent, times):
        """Waits until a task was pushed so often, and returns its result as it is then."""
        def those(seen):
            replies = [note for note in seen if note["note"] == "reply" and note["headers"]["ce-vqsmessageid"] == sent.id]
            return len(replies) >= times and [reply["status"] for reply in replies]

        self.assertEqual(pushed.notes.until(those), [204] * times, pushed.said())
        sent.refresh()
        return sent

    def assert_done(self, sent):
        self.assertEqual(MILLPOND.take("default", "django-tasks", sent.id), 410)

    def enqueue(self, task, *args):
        # The integration notes that a task is ready after it has sent it, over what the task may have come to by then.
        return task.using(run_after=datetime.now(timezone.utc) + timedelta(seconds=2)).enqueue(*args)

    def test_results_come_back(self):
        for task in (add, add_async):
            sent = [self.enqueue(task, number, 1) for number in range(5)]
            for number, result in enumerate(sent):
                self.assertEqual(result.status, TaskResultStatus.READY)
                self.until_pushed(result, 1)
                self.assertEqual((result.status, result.return_value), (TaskResultStatus.SUCCESSFUL, number + 1))
                self.assert_done(result)

    def test_a_failing_task_is_tried_again_and_its_result_comes_back(self):
        sent = self.until_pushed(self.enqueue(once_failing), 2)
        self.assertEqual((sent.status, sent.return_value, sent.attempts), (TaskResultStatus.SUCCESSFUL, 2, 2))
        [error] = sent.errors
        self.assertEqual(error.exception_class_path, "builtins.ArithmeticError")
        waited = sent.last_attempted_at - sent.started_at
        self.assertGreaterEqual(waited, timedelta(seconds=4.9))
        self.assert_done(sent)

    def test_a_task_that_always_fails_has_failed_after_three_tries(self):
        sent = self.until_pushed(self.enqueue(failing), 3)
        self.assertEqual((sent.status, sent.attempts, len(sent.errors)), (TaskResultStatus.FAILED, 3, 3))
        self.assert_done(sent)

    def test_a_task_that_is_for_later_waits(self):
        due = datetime.now(timezone.utc) + timedelta(seconds=3)
        sent = self.until_pushed(add.using(run_after=due).enqueue(1, 2), 1)
        self.assertEqual(sent.return_value, 3)
        # The integration rounds down to whole seconds.
        self.assertGreaterEqual(sent.started_at, due - timedelta(seconds=1))


if __name__ == "__main__":
    unittest.main()

"""Celery with Vercel's integration, polling the server at MILLPOND_URL: workers are processes of their own."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = tempfile.TemporaryDirectory(prefix="celery-")
WITHIN_SECONDS = 45
# How long the task of a killed worker waits for another.
LEASE_SECONDS = 8

for variable in [name for name in os.environ if name.startswith("VERCEL")]:
    del os.environ[variable]
os.environ |= {
    "VERCEL_QUEUE_BASE_URL": os.environ["MILLPOND_URL"].rstrip("/"),
    "VERCEL_QUEUE_TOKEN": "vc-dev-token",
    "VERCEL_REGION": "iad1",
    "RESULTS": RESULTS.name,
    # Topics get their names from this.
    "CELERY_APP": f"shop_{uuid.uuid4().hex}",
}
sys.path.insert(0, str(HERE))

from celery_app import add, app, endless_once, once_rejected, twice_failing  # noqa: E402  reads the environment


def notes():
    """What tasks noted: their words, and when."""
    path = Path(RESULTS.name) / "notes"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(words[:-1], float(words[-1])) for words in map(str.split, lines)]


class Worker:
    def __init__(self, queue, **environment):
        command = [sys.executable, "-B", "-m", "celery", "-A", "celery_app", "worker", "--pool=solo", "-Q", queue]
        command += ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=INFO"]
        self.log = tempfile.TemporaryFile("w+")
        environment = os.environ | environment
        self.process = subprocess.Popen(command, cwd=HERE, stdout=self.log, stderr=self.log, env=environment)

    def end(self, how):
        self.process.send_signal(how)
        status = self.process.wait(WITHIN_SECONDS)
        with self.log:
            self.log.seek(0)
            return status, self.log.read()


class CeleryTest(unittest.TestCase):
    def worker(self, queue, **environment):
        worker = Worker(queue, **environment)
        self.addCleanup(lambda: worker.process.poll() is None and worker.process.kill())
        return worker

    def until(self, done, worker):
        deadline = time.monotonic() + WITHIN_SECONDS
        while not (found := done()):
            if worker.process.poll() is not None or time.monotonic() > deadline:
                self.fail(worker.end(signal.SIGKILL)[1])
            time.sleep(0.02)
        return found

    def test_a_chain_a_retry_with_a_countdown_and_a_rejection(self):
        worker = self.worker("celery")
        chain = (add.s(1, 2) | add.s(3) | add.s(4)).apply_async()
        retried = twice_failing.delay(1)
        rejected = once_rejected.delay()
        self.until(lambda: chain.ready() and retried.ready() and rejected.ready(), worker)
        self.assertEqual((chain.get(), retried.get()), (10, 2))
        status, log = worker.end(signal.SIGTERM)
        self.assertEqual(status, 0, log)
        # What the server refused would be in the log as an error of the client's.
        self.assertNotIn("vercel.queue._internal.errors", log)

        ran = notes()
        self.assertEqual([words for words, _ in ran if words[0] == "add"], [
            ["add", "1", "2"], ["add", "3", "3"], ["add", "6", "4"],
        ])
        tries = [(words, at) for words, at in ran if words[0] == "twice_failing"]
        self.assertEqual([words for words, _ in tries], [["twice_failing", str(number)] for number in range(3)])
        # Its lease is far longer than this test: it was given back.
        self.assertEqual(len([words for words, _ in ran if words == ["once_rejected"]]), 2)
        for (_, before), (_, after) in zip(tries, tries[1:]):
            self.assertGreater(after - before, 0.9)

    def test_the_task_of_a_killed_worker_is_done_by_another(self):
        first = self.worker("kills", LEASE_SECONDS=str(LEASE_SECONDS))
        sent = endless_once.apply_async(queue="kills")
        [(words, _)] = self.until(lambda: [note for note in notes() if note[0][0] == "endless_once"], first)
        self.assertEqual(words[1], str(first.process.pid))
        self.assertEqual(first.end(signal.SIGKILL)[0], -signal.SIGKILL)

        second = self.worker("kills", LEASE_SECONDS=str(LEASE_SECONDS))
        self.until(sent.ready, second)
        self.assertEqual(sent.get(), second.process.pid)
        again = [at for words, at in notes() if words == ["endless_once", str(second.process.pid)]]
        self.assertEqual(len(again), 1)
        self.assertEqual(second.end(signal.SIGTERM)[0], 0)
        # Acknowledged, it does not come a third time when the second lease is over.
        over = again[0] + LEASE_SECONDS
        while time.time() < over:
            time.sleep(over - time.time())
        with app.connection_for_read() as connection:
            self.assertIsNone(connection.SimpleQueue("kills").queue.get())

    @classmethod
    def tearDownClass(cls):
        app.close()
        RESULTS.cleanup()


if __name__ == "__main__":
    unittest.main()

"""Dramatiq with Vercel's integration, polling the server at MILLPOND_URL: workers are processes of their own."""

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
RESULTS = tempfile.TemporaryDirectory(prefix="dramatiq-")
WITHIN_SECONDS = 45

for variable in [name for name in os.environ if name.startswith("VERCEL")]:
    del os.environ[variable]
os.environ |= {
    "VERCEL_QUEUE_BASE_URL": os.environ["MILLPOND_URL"].rstrip("/"),
    "VERCEL_QUEUE_TOKEN": "vc-dev-token",
    "VERCEL_REGION": "iad1",
    "RESULTS": RESULTS.name,
    "DRAMATIQ_PREFIX": f"shop_{uuid.uuid4().hex}-",
}
sys.path.insert(0, str(HERE))

from dramatiq_app import LEASE_SECONDS, broker, ever_failing, later, twice_failing, work  # noqa: E402  reads the environment


def notes(actor):
    """What an actor noted: its arguments, and when."""
    path = Path(RESULTS.name) / "notes"
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [(words[1:-1], float(words[-1])) for words in lines if words[0] == actor]


class DramatiqTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        command = [sys.executable, "-B", "-m", "dramatiq", "dramatiq_app", "--processes", "1", "--threads", "2"]
        cls.log = Path(RESULTS.name) / "log"
        with open(cls.log, "w") as log:
            cls.worker = subprocess.Popen(command, cwd=HERE, stdout=log, stderr=log)

    @classmethod
    def tearDownClass(cls):
        cls.worker.send_signal(signal.SIGTERM)
        try:
            status = cls.worker.wait(WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            cls.worker.kill()
            status = cls.worker.wait()
        log = cls.log.read_text()
        over = time.time() + LEASE_SECONDS
        while time.time() < over:
            time.sleep(over - time.time())
        left = [message for queue in ("default", "default.DQ") for message in broker.poll_messages(queue, 1)]
        broker.close()
        RESULTS.cleanup()
        # What the server refused would be in the log as an error of the client's.
        assert status == 0 and "vercel.queue._internal.errors" not in log, log
        assert not left, f"not acknowledged: {left}"

    def until(self, done):
        deadline = time.monotonic() + WITHIN_SECONDS
        while not done():
            if self.worker.poll() is not None or time.monotonic() > deadline:
                self.fail(self.log.read_text())
            time.sleep(0.02)

    def test_messages_are_worked_off(self):
        for number in range(50):
            work.send(number)
        self.until(lambda: len(notes("work")) >= 50)
        self.assertEqual(sorted(int(number) for [number], _ in notes("work")), list(range(50)))

    def test_a_failing_message_is_tried_again_later(self):
        twice_failing.send("a")
        self.until(lambda: len(notes("twice_failing")) >= 3)
        self.assertEqual([words for words, _ in notes("twice_failing")], [["a"]] * 3)
        tries = [at for _, at in notes("twice_failing")]
        for before, after in zip(tries, tries[1:]):
            # The least back-off, which Dramatiq keeps to the millisecond.
            self.assertGreater(after - before, 0.499)

    def test_what_fails_too_often_is_given_up(self):
        ever_failing.send()
        self.until(lambda: "Retries exceeded for message" in self.log.read_text())
        self.assertEqual(len(notes("ever_failing")), 2)

    def test_a_delayed_message_waits(self):
        begun = time.time()
        for delay in (1500, 100, 2500):
            later.send_with_options(args=(delay,), delay=delay)
        self.until(lambda: len(notes("later")) >= 3)
        for [delay], at in notes("later"):
            # Dramatiq keeps the time to the millisecond.
            self.assertGreaterEqual(at - begun, int(delay) / 1000 - 0.001)


if __name__ == "__main__":
    unittest.main()

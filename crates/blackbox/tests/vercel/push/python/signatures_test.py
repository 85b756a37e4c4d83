"""Signatures of pushes, verified by the package of Standard Webhooks."""

import json
import re
import unittest

from harness import WITHIN_SECONDS, Millpond, Recorder
from standardwebhooks import Webhook, WebhookVerificationError


class Signatures(unittest.TestCase):
    def setUp(self):
        self.millpond = Millpond()
        self.addCleanup(self.millpond.stop)
        self.recorder = Recorder()
        self.addCleanup(self.recorder.end)
        self.millpond.call(
            "POST", "/v1/triggers?trigger_id=it", {"topic": "orders", "group": "workers", "target": self.recorder.url}
        )

    def secret(self, *words):
        text = self.millpond.command("signing-secret", *words, "--json")
        return re.search(r"whsec_[A-Za-z0-9+/]+=*", text)[0]

    def pushed(self, payload):
        self.millpond.call("POST", "/api/v3/topic/orders", payload)
        return self.recorder.pushes.get(timeout=WITHIN_SECONDS)

    def test_they_verify_with_the_secret_and_after_a_rotation_with_both(self):
        old = self.secret("show")
        headers, body = self.pushed({"order": 7, "note": "žluťoučký kůň 🐎"})
        self.assertEqual(Webhook(old).verify(body, headers), json.loads(body))
        with self.assertRaises(WebhookVerificationError):
            Webhook(old).verify(body.replace(b"7", b"8"), headers)

        self.secret("rotate", "--yes")
        new = self.secret("show")
        self.assertNotEqual(new, old)
        with self.assertRaises(WebhookVerificationError):
            Webhook(new).verify(body, headers)
        headers, body = self.pushed({"order": 8})
        for secret in (old, new):
            self.assertEqual(Webhook(secret).verify(body, headers), {"order": 8})

    def test_of_what_is_only_announced_they_verify_as_well(self):
        headers, body = self.pushed({"filler": "x" * (300 * 1024)})
        self.assertEqual(body, b"")
        Webhook(self.secret("show")).verify(body, headers, json_parse=False)


if __name__ == "__main__":
    unittest.main()

"""Vercel's client for its runtime cache, and the result backends over it, against the server at MILLPOND_URL."""

import asyncio
import os
import unittest
import uuid

os.environ |= {
    "RUNTIME_CACHE_ENDPOINT": os.environ["MILLPOND_URL"].rstrip("/") + "/v1/cache",
    "RUNTIME_CACHE_HEADERS": "{}",
}

import dramatiq  # noqa: E402  the clients read the environment
from celery import Celery  # noqa: E402
from dramatiq.results import ResultMissing  # noqa: E402
from vercel.cache import RuntimeCache, RuntimeCacheError  # noqa: E402
from vercel.cache.aio import get_cache  # noqa: E402
from vercel.integrations.celery import install_vercel_celery_integration  # noqa: E402
from vercel.integrations.dramatiq import VercelRuntimeCacheBackend  # noqa: E402

LARGEST = 2 * 1024 * 1024 - len('""')


def names(*names):
    """Names that no other test has."""
    return [f"{name}-{uuid.uuid4().hex}" for name in names]


class CacheTest(unittest.TestCase):
    def setUp(self):
        [namespace] = names("space")
        self.cache = RuntimeCache(namespace=namespace, strict=True)

    def test_a_value_is_there_until_it_is_deleted(self):
        self.assertIsNone(self.cache.get("k"))
        value = {"ä": [1, 2.5, None, True, "\n"], "long": "x" * 10_000}
        self.cache.set("k", value, {"ttl": 60, "tags": ["a"], "name": "a name"})
        self.assertEqual(self.cache.get("k"), value)
        self.assertIn("k", self.cache)
        self.cache.delete("k")
        self.cache.delete("k")
        self.assertIsNone(self.cache.get("k"))

    def test_tags_remove_what_has_any_of_them(self):
        one, two, other = names("one", "number two", "other")
        for key, tags in (("1", [one]), ("2", [two, other]), ("3", [other])):
            self.cache.set(key, key, {"tags": tags})
        self.cache.expire_tag([one, two])
        self.assertEqual([self.cache.get(key) for key in "123"], [None, None, "3"])
        self.cache.expire_tag(other)
        self.assertIsNone(self.cache.get("3"))

    def test_keys_and_values_of_all_kinds(self):
        plain = RuntimeCache(key_hash_function=str, strict=True)
        [key] = names("plain $ü+%")
        for value in ("v" * LARGEST, 0, float("inf"), [], "", False):
            plain.set(key, value)
            self.assertEqual(plain.get(key), value)

    def test_what_is_refused_raises_and_changes_nothing(self):
        self.cache.set("k", 1)
        for options, value in (({}, "v" * (LARGEST + 1)), ({"ttl": 10**9}, 2), ({"tags": ["t" * 257]}, 2)):
            with self.assertRaises(RuntimeCacheError):
                self.cache.set("k", value, options)
        with self.assertRaises(RuntimeCacheError):
            self.cache.expire_tag([])
        self.assertEqual(self.cache.get("k"), 1)

    def test_the_same_without_blocking(self):
        async def run():
            [namespace], [tag] = names("space"), names("tag")
            cache = get_cache(namespace=namespace)
            await cache.set("k", [1], {"ttl": 60, "tags": [tag]})
            self.assertEqual(await cache.get("k"), [1])
            self.assertTrue(await cache.contains("k"))
            await cache.expire_tag(tag)
            self.assertFalse(await cache.contains("k"))
            await cache.set("k", 2)
            await cache.delete("k")
            self.assertIsNone(await cache.get("k"))

        asyncio.run(run())

    def test_results_of_celery_are_kept_there_unless_told_otherwise(self):
        install_vercel_celery_integration(register_queues=False)
        app = Celery(names("app")[0].replace("-", "_"), broker="vercel-poll://")
        [task] = names("task")
        app.backend.store_result(task, {"sum": 5}, "SUCCESS")
        self.assertEqual(app.AsyncResult(task).get(timeout=10), {"sum": 5})
        app.AsyncResult(task).forget()
        self.assertEqual(app.AsyncResult(task).state, "PENDING")

    def test_results_of_dramatiq_are_kept_there(self):
        [tag] = names("results")
        backend = VercelRuntimeCacheBackend(tags=[tag])
        message = dramatiq.Message(queue_name="q", actor_name="a", args=(), kwargs={}, options={})
        backend.store_result(message, {"sum": 5}, 60_000)
        self.assertEqual(backend.get_result(message), {"sum": 5})
        self.cache.expire_tag(tag)
        with self.assertRaises(ResultMissing):
            backend.get_result(message)


if __name__ == "__main__":
    unittest.main()

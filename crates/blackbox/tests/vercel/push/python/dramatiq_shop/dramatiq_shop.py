"""Dramatiq actors as they are on Vercel: the broker and the result backend are those that the integration sets."""

import os
import time

import dramatiq
from notes import note
from vercel.integrations.dramatiq import install_vercel_dramatiq_integration, register_dramatiq_queues

install_vercel_dramatiq_integration()


@dramatiq.actor(store_results=True)
def add(left, right):
    note("add", left=left, right=right)
    return left + right


@dramatiq.actor(store_results=True, max_retries=0)
def failing():
    note("failing")
    raise ArithmeticError("on purpose")


@dramatiq.actor(store_results=True, min_backoff=1000, max_backoff=2000, max_retries=5)
def twice_failing(order):
    note("twice_failing", order=order, at=time.time())
    twice_failing.tries = getattr(twice_failing, "tries", 0) + 1
    if twice_failing.tries < 3:
        raise ArithmeticError("on purpose")
    return twice_failing.tries


@dramatiq.actor
def later(begun):
    note("later", waited=time.time() - begun)


# Where pushes are received.
if os.environ.get("VERCEL") == "1":
    register_dramatiq_queues()

"""The app of dramatiq_test.py. Its actors note what they do in $RESULTS/notes, one line each."""

import os
import time
from pathlib import Path

import dramatiq
from vercel.integrations.dramatiq import VercelQueueBroker

RESULTS = Path(os.environ["RESULTS"])

# The prefix keeps this run's topics apart from those of others.
LEASE_SECONDS = 8
broker = VercelQueueBroker(
    poll=True, queue_name_prefix=os.environ["DRAMATIQ_PREFIX"], lease_duration=LEASE_SECONDS
)
dramatiq.set_broker(broker)


def note(*words):
    with open(RESULTS / "notes", "a") as notes:
        notes.write(" ".join(map(str, [*words, time.time()])) + "\n")


def times(*words):
    line = " ".join(map(str, words)) + " "
    return sum(noted.startswith(line) for noted in (RESULTS / "notes").read_text().splitlines())


@dramatiq.actor
def work(number):
    note("work", number)


@dramatiq.actor
def later(delay):
    note("later", delay)


@dramatiq.actor(min_backoff=500, max_backoff=2000, max_retries=5)
def twice_failing(name):
    note("twice_failing", name)
    if times("twice_failing", name) < 3:
        raise ArithmeticError("on purpose")


@dramatiq.actor(min_backoff=10, max_backoff=20, max_retries=1)
def ever_failing():
    note("ever_failing")
    raise ArithmeticError("on purpose")

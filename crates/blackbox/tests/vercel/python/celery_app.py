"""The app of celery_test.py. Its tasks note what they do in $RESULTS/notes, one line each."""

import os
import signal
import time
from pathlib import Path

from vercel.integrations.celery import install_vercel_celery_integration

install_vercel_celery_integration(set_default_result_backend=False, register_queues=False)

from celery import Celery, exceptions  # noqa: E402  after the integration, which it is told about when it is loaded

RESULTS = Path(os.environ["RESULTS"])
app = Celery(os.environ["CELERY_APP"], broker="vercel-poll://", backend=RESULTS.as_uri())
app.conf.broker_transport_options = {"polling_interval": 0.1}
if "LEASE_SECONDS" in os.environ:
    # The client extends leases after ten seconds at the earliest: with less no task may run for longer than this.
    app.conf.broker_transport_options["lease_duration"] = int(os.environ["LEASE_SECONDS"])
# What is acknowledged before it has run is lost with its worker.
app.conf.task_acks_late = True
app.conf.worker_prefetch_multiplier = 1
app.conf.broker_connection_retry_on_startup = True


def note(*words):
    with open(RESULTS / "notes", "a") as notes:
        notes.write(" ".join(map(str, [*words, time.time()])) + "\n")


@app.task(name="add")
def add(left, right):
    note("add", left, right)
    return left + right


@app.task(name="twice_failing", bind=True, max_retries=3)
def twice_failing(self, countdown):
    note("twice_failing", self.request.retries)
    if self.request.retries < 2:
        raise self.retry(countdown=countdown)
    return self.request.retries


@app.task(name="once_rejected")
def once_rejected():
    first = not (RESULTS / "rejected").exists()
    (RESULTS / "rejected").touch()
    note("once_rejected")
    if first:
        raise exceptions.Reject("on purpose", requeue=True)


@app.task(name="endless_once")
def endless_once():
    """Never ends for its first worker."""
    first = not (RESULTS / "begun").exists()
    (RESULTS / "begun").touch()
    note("endless_once", os.getpid())
    while first:
        signal.pause()
    return os.getpid()

"""A Celery app as it is on Vercel: the broker and the result backend are those that the integration sets."""

from vercel.integrations.celery import install_vercel_celery_integration

install_vercel_celery_integration()

from celery import Celery, exceptions  # noqa: E402  after the integration, which it is told about when it is loaded
from notes import note  # noqa: E402

app = Celery("my_shop")
# Tasks that wait for their time run in a thread that knows of no other app: what they send would go to topics of one that
# Celery makes up.
app.set_default()
app.conf.task_acks_late = True
# Tasks are not lazy: the worker that the integration starts would look for them before they are all there.


@app.task(lazy=False, name="add")
def add(left, right):
    note("add", left=left, right=right)
    return left + right


@app.task(lazy=False, name="failing")
def failing():
    note("failing")
    raise ArithmeticError("on purpose")


@app.task(lazy=False, name="twice_failing", bind=True, max_retries=3)
def twice_failing(self, countdown):
    note("twice_failing", retries=self.request.retries)
    if self.request.retries < 2:
        raise self.retry(countdown=countdown)
    return self.request.retries


@app.task(lazy=False, name="once_rejected", bind=True)
def once_rejected(self):
    redelivered = getattr(once_rejected, "seen", False)
    once_rejected.seen = True
    note("once_rejected")
    if not redelivered:
        raise exceptions.Reject("on purpose", requeue=True)
    return "at last"


# Where pushes are received this makes the queues known and starts the worker that the integration brings.
app.finalize()

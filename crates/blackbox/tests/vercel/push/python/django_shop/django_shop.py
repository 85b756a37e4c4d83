"""Django tasks as they are on Vercel: the backend is the one that the integration sets."""

import django
from django.conf import settings

settings.configure(SECRET_KEY="only-for-tests", USE_TZ=True)
django.setup()

from django.tasks import task  # noqa: E402  needs the settings
from notes import note  # noqa: E402
from vercel.integrations.django import install_vercel_django_task_integration  # noqa: E402

install_vercel_django_task_integration()


@task
def add(left, right):
    note("add", left=left, right=right)
    return left + right


@task
async def add_async(left, right):
    note("add_async", left=left, right=right)
    return left + right


@task(takes_context=True)
def once_failing(context):
    note("once_failing", attempt=context.attempt)
    if context.attempt < 2:
        raise ArithmeticError("on purpose")
    return context.attempt


@task(takes_context=True)
def failing(context):
    note("failing", attempt=context.attempt)
    raise ArithmeticError("on purpose")

"""Subscribers of the synchronous kind only."""

from typing import Any

import vercel.queue as vqs
from notes import note


def noted(name, message):
    about = message.metadata
    note(name, payload=message.payload, id=about.message_id, count=about.delivery_count, topic=about.topic)
    return about.delivery_count


@vqs.subscribe(topic="orders")
def order(message: vqs.Message[Any]) -> None:
    noted("order", message)


@vqs.subscribe(topic="failing", retry_after=1)
def failing(message: vqs.Message[Any]) -> None:
    if noted("failing", message) < 2:
        raise ArithmeticError("on purpose")


@vqs.subscribe(topic="later", retry_after=3600)
def later(message: vqs.Message[Any]) -> None:
    if noted("later", message) < 2:
        raise vqs.RetryAfter(1)

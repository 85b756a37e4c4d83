"""Subscribers of each kind, as people write them with vercel-queue."""

import asyncio
from typing import Any

import vercel.queue as vqs
from notes import note


def noted(name, message):
    about = message.metadata
    note(name, payload=message.payload, id=about.message_id, count=about.delivery_count, topic=about.topic)
    return about.delivery_count


@vqs.subscribe(topic="orders")
async def order(message: vqs.Message[Any]) -> None:
    noted("order", message)


@vqs.subscribe(topic="payloads-*", consumer_group="only.payloads")
def payload(message: Any) -> None:
    note("payload", payload=message)


@vqs.subscribe(topic="failing", retry_after=1)
async def failing(message: vqs.Message[Any]) -> None:
    if noted("failing", message) < 3:
        raise ArithmeticError("on purpose")


@vqs.subscribe(topic="invalid", retry_after=1)
async def invalid(message: vqs.Message[Any]) -> None:
    if noted("invalid", message) < 2:
        raise ValueError("on purpose")


@vqs.subscribe(topic="later", retry_after=3600)
async def later(message: vqs.Message[Any]) -> None:
    if noted("later", message) < 2:
        raise vqs.RetryAfter(2)


@vqs.subscribe(topic="poison", retry_after=1, max_attempts=2)
async def poison(message: vqs.Message[Any]) -> None:
    noted("poison", message)
    raise ArithmeticError("on purpose")


@vqs.subscribe(topic="large")
async def large(message: vqs.Message[bytes]) -> None:
    data = message.payload
    same = data == b"0123456789abcdef" * (len(data) // 16)
    note("large", length=len(data), same=same, count=message.metadata.delivery_count)


let_go = asyncio.Event()


@vqs.subscribe(topic="handed")
async def handed(message: vqs.Message[Any]) -> None:
    """Its call ends at once; what it was given is acknowledged after the next message of `let-go`."""

    async def finish():
        await let_go.wait()
        await vqs.QueueClient().acknowledge(message)
        note("finished", id=message.metadata.message_id)

    noted("handed", message)
    tasks.append(asyncio.create_task(finish()))
    raise vqs.Handoff


tasks = []


@vqs.subscribe(topic="slow")
async def slow(message: vqs.Message[Any]) -> None:
    """Goes on until a message of `let-go` comes."""
    noted("slow", message)
    await let_go.wait()


@vqs.subscribe(topic="let-go")
async def go(message: vqs.Message[Any]) -> None:
    let_go.set()


CROWD = 8
crowded = asyncio.Barrier(CROWD)


@vqs.subscribe(topic="crowd")
async def crowd(message: vqs.Message[Any]) -> None:
    """Ends when so many are at work, and sends a message on."""
    noted("crowd", message)
    await crowded.wait()
    await vqs.send("orders", {"after": message.payload["number"]})

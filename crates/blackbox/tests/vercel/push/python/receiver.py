"""python receiver.py MODULE PORT: the subscribers of a module, behind the very receiver that Vercel puts in front of
them, served by uvicorn."""

import importlib
import os
import socket
import sys

import uvicorn
from notes import note

sys.path.insert(0, os.getcwd())
os.environ["VERCEL"] = "1"
module, port = sys.argv[1:]
importlib.import_module(module)

from vercel_runtime.workers import bootstrap_queue_service_app  # noqa: E402  reads the environment

app = bootstrap_queue_service_app()


async def noting(scope, receive, send):
    async def noted(message):
        await send(message)
        if message["type"] == "http.response.start":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            note("reply", status=message["status"], headers={name: headers[name] for name in headers if "vqs" in name})

    await app(scope, receive, noted)


listener = socket.create_server(("127.0.0.1", int(port)), backlog=128)
note("ready", port=listener.getsockname()[1])
uvicorn.Server(uvicorn.Config(noting, log_level="warning")).run([listener])

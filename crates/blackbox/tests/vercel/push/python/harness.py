"""What the tests beside this have in common: a server of the binary at MILLPOND_BIN, an app behind Vercel's own receiver
of pushes, and waiting for what the app notes."""

import atexit
import http.server
import itertools
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
WITHIN_SECONDS = 60

# What the packages read from there would change where they send to.
for variable in [name for name in os.environ if name.startswith(("VERCEL", "RUNTIME_CACHE", "DJANGO"))]:
    del os.environ[variable]
BINARY = os.environ["MILLPOND_BIN"]
DATABASE = os.environ.get("MILLPOND_TEST_STORE", "")
STORES = itertools.count()
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("MILLPOND_")}
# Where apps find `notes`.
ENVIRONMENT["PYTHONPATH"] = str(HERE)


def new_store():
    """What the binary is told about a store that nobody else has: a data directory, or a schema in the database that
    MILLPOND_TEST_STORE names."""
    if DATABASE.startswith(("postgres:", "postgresql:")):
        schema = f"millpond_test_{time.time_ns() // 1_000_000}_{os.getpid()}_{next(STORES)}"
        return ["--database-url", DATABASE, "--database-schema", schema]
    data = Path(tempfile.mkdtemp(prefix="millpond-push-"))
    atexit.register(shutil.rmtree, data, ignore_errors=True)
    return ["--data-dir", data]


class Millpond:
    """A server on a store of its own."""

    def __init__(self, *flags):
        self.flags = flags
        self.store = new_store()
        self.listen = "127.0.0.1:0"
        self.start()

    def start(self):
        command = [BINARY, "serve", "--listen", self.listen, *self.store, *self.flags]
        self.process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)
        line = self.process.stdout.readline()
        assert line.startswith("listening on http://"), line
        self.url = line.split()[-1]
        self.listen = self.url.removeprefix("http://")

    def stop(self):
        self.process.terminate()
        assert self.process.wait(WITHIN_SECONDS) == 0
        self.process.stdout.close()

    def call(self, method, path, body=None):
        """A call of the native API; its answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"content-type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=WITHIN_SECONDS) as answer:
            return json.load(answer)

    def take(self, topic, group, message_id):
        """The status that a group gets for taking one message by its id: 410 once it has been acknowledged."""
        path = f"/api/v3/topic/{topic}/consumer/{group}/id/{message_id}"
        headers = {"accept": "application/x-ndjson", "content-length": "0"}
        request = urllib.request.Request(self.url + path, None, headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=WITHIN_SECONDS) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            with error:
                return error.status

    def command(self, *words):
        """A command against this server; what it prints."""
        command = [BINARY, *words, "--server", self.url]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=WITHIN_SECONDS)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def deploy(self, app, deployment, *further):
        """Deploys the project of an app that runs."""
        words = ["--app", app.url, "--deployment", deployment, "--python", sys.executable, "--yes"]
        return self.command("deploy", app.project, *words, *further)

    def client_environment(self, **further):
        """For processes that use Vercel's packages."""
        return {
            "VERCEL_QUEUE_BASE_URL": self.url,
            "VERCEL_REGION": "iad1",
            "VERCEL_QUEUE_TOKEN": "vc-dev-token",
            # The client of the cache reports to its maker otherwise.
            "VERCEL_TELEMETRY_DISABLED": "1",
            "RUNTIME_CACHE_ENDPOINT": f"{self.url}/v1/cache",
            "RUNTIME_CACHE_HEADERS": '{"x-any": "thing"}',
        } | further


class Notes:
    """Lines of JSON from a pipe, in the order they came."""

    def __init__(self, pipe):
        self.seen = []
        self._came = queue.Queue()
        threading.Thread(target=self._read, args=(pipe,), daemon=True).start()

    def _read(self, pipe):
        with pipe:
            for line in pipe:
                self._came.put(json.loads(line))
        self._came.put(None)

    def until(self, done):
        """Waits until `done(seen)` is true of what came so far; that."""
        deadline = time.monotonic() + WITHIN_SECONDS
        while not (found := done(self.seen)):
            try:
                note = self._came.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                shown = "\n".join(map(str, self.seen[-50:]))
                raise AssertionError(f"not within {WITHIN_SECONDS} s; what came last:\n{shown}") from None
            assert note is not None, f"the app has ended; it noted {self.seen[-50:]}"
            self.seen.append(note)
        return found

    def named(self, name, count):
        """The first so many notes of a name, which have to come."""
        def those(seen):
            named = [note for note in seen if note["note"] == name]
            return len(named) >= count and named[:count]

        return self.until(those)

    def replies(self, count):
        return [note["status"] for note in self.named("reply", count)]


class App:
    """The module of a project, in a process of its own behind a receiver: `receiver` for Vercel's."""

    def __init__(self, project, module, environment, receiver="receiver", port=0):
        self.project = HERE / project
        command = [sys.executable, "-B", HERE / f"{receiver}.py", module, str(port)]
        reading, writing = os.pipe()
        environment = ENVIRONMENT | environment | {"NOTES": str(writing)}
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, cwd=self.project, env=environment, stdout=self.log, stderr=self.log, pass_fds=[writing]
        )
        os.close(writing)
        self.notes = Notes(os.fdopen(reading))
        try:
            [ready] = self.notes.named("ready", 1)
        except AssertionError as error:
            self.process.kill()
            raise AssertionError(self.said()) from error
        self.url = f"http://127.0.0.1:{ready['port']}"

    def said(self):
        """Its log."""
        self.log.seek(0)
        return self.log.read()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Recorder:
    """A target that keeps what is pushed to it and says 204."""

    def __init__(self):
        self.pushes = queue.Queue()
        recorder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                recorder.pushes.put((dict(self.headers.items()), body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def end(self):
        self.server.shutdown()
        self.server.server_close()

"""python wsgi_receiver.py MODULE PORT: the subscribers of a module behind WSGI, as one writes it with the synchronous API;
a thread for each call."""

import importlib
import os
import socketserver
import sys
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import vercel.queue.sync as vqs
from notes import note
from vercel.headers import headers_from_wsgi_environ

sys.path.insert(0, os.getcwd())
module, port = sys.argv[1:]
importlib.import_module(module)


def app(environ, start_response):
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    headers = headers_from_wsgi_environ(environ)
    try:
        vqs.accept_and_handle(body, headers)
        status = "204 No Content"
    except (vqs.ProtocolError, TypeError, ValueError):
        status = "400 Bad Request"
    except Exception:
        status = "500 Internal Server Error"
    start_response(status, [])
    note("reply", status=int(status[:3]), headers={name.lower(): headers[name] for name in headers if "Vqs" in name})
    return []


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


class Threading(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128


server = Threading(("127.0.0.1", int(port)), Quiet)
server.set_app(app)
note("ready", port=server.server_address[1])
server.serve_forever()

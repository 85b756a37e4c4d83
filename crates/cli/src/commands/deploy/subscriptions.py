"""Imports a module that subscribes to topics as Vercel's build does, and writes what it subscribes to as JSON."""

import importlib
import json
import os
import sys
import traceback

# The end of a traceback is where the fault is.
LINES_MAX = 20
FIELDS = (
    "topic",
    "consumer_group",
    "max_attempts",
    "retry_after_seconds",
    "initial_delay_seconds",
    "max_concurrency",
)


def told(error):
    """The traceback from the first frame that is not of the import itself."""
    own = ("<string>", importlib.__file__)
    place = error.__traceback__
    while place is not None:
        file = place.tb_frame.f_code.co_filename
        if file not in own and not file.startswith("<frozen importlib"):
            break
        place = place.tb_next
    text = "".join(traceback.format_exception(type(error), error, place))
    return text.splitlines()[-LINES_MAX:]


def look(asked):
    step = asked["module"]
    try:
        importlib.import_module(asked["module"])
        for module, installer in asked["adapters"]:
            step = module
            getattr(importlib.import_module(module), installer)()
        step = "vercel.queue"
        found = importlib.import_module("vercel.queue").get_subscriptions()
        values = [{field: getattr(one, field, None) for field in FIELDS} for one in found]
    # A module may leave by sys.exit as well.
    except BaseException as error:
        missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
        return {"failed": {"step": step, "missing": missing, "lines": told(error)}}
    given = [{field: value for field, value in one.items() if value is not None} for one in values]
    return {"subscriptions": given}


def main():
    # What the module prints is not the answer.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    asked = json.loads(sys.argv.pop())
    json.dump(look(asked), answer)
    for stream in (answer, sys.stdout, sys.stderr):
        stream.flush()
    # Adapters start workers, whose threads would go on.
    os._exit(0)


main()

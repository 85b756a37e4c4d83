"""A lease call that may wait for long waits a second: what it answers is the same, and the tests end in time. Headers that
no call has are not drawn: they are passed over, as HTTP wants it, and not refused."""

import re

import schemathesis

SECONDS = re.compile(r"([0-9]+)s")


@schemathesis.hook
def filter_case(context, case):
    return not any("unknown-property" in name for name in case.headers or {})


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    if not isinstance(body, dict):
        return
    for field in ("max_wait", "wait"):
        value = body.get(field)
        seconds = SECONDS.fullmatch(value) if isinstance(value, str) else None
        if seconds and 1 < int(seconds.group(1)) <= 20:
            body[field] = "1s"

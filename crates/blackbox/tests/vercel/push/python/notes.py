"""How apps tell the test that runs them what they do."""

import json
import os


def note(name, **fields):
    # Whole lines, also when several threads write: they are shorter than what a pipe takes at once.
    line = json.dumps({"note": name} | fields) + "\n"
    if "NOTES" in os.environ:
        os.write(int(os.environ["NOTES"]), line.encode())

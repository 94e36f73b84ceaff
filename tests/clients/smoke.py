"""Runs the client scripts of this folder, each against a server that it starts.

    LILY_BINARY=target/release/lily python tests/clients/smoke.py [SCRIPT ...]

A server serves the model that is compiled into the binary, or the one that LILY_MODEL names. A script whose client
package is missing prints "skipped" and succeeds. Exit status: 0 if every script succeeded.
"""

import collections
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = [
    "openai_chat.py",
    "openai_responses.py",
    "openai_chat.mjs",
    "anthropic_messages.py",
    "langchain_chat.py",
    "agent_loop.py",
    "openapi_fuzz.py",
    "load.py",
]
# Options of scripts that also get the process id of their server; the load is a short one.
OPTIONS = {"load.py": ["--seconds", os.environ.get("LILY_LOAD_SECONDS", "20")]}


# Most requests that are made from the document have no limit of tokens: a short context ends them.
CONTEXT = {"openapi_fuzz.py": "256"}


def start(context):
    """A server on a free port, and its address."""
    binary = os.environ.get("LILY_BINARY", "lily")
    arguments = [binary, "serve", "--port", "0", "--context", context, "--cache", "64"]
    server = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
    lines = []
    for line in server.stderr:
        lines.append(line)
        found = re.search(r"listening on (http://\S+)", re.sub(r"\x1b\[[0-9;]*m", "", line))
        if found:
            # What it logs from here on is not read, and must not fill the pipe.
            threading.Thread(target=lambda: collections.deque(server.stderr, 0), daemon=True).start()
            return server, found.group(1)
    sys.exit("the server did not start:\n" + "".join(lines))


def run(script):
    """Runs a script against a server of its own; says what failed, if anything did."""
    if script.endswith(".mjs") and not shutil.which("node"):
        print(f"skipped: no node to run {script}", flush=True)
        return []
    server, address = start(CONTEXT.get(script, "2048"))
    program = ["node"] if script.endswith(".mjs") else [sys.executable]
    options = [*OPTIONS[script], "--pid", str(server.pid)] if script in OPTIONS else []
    begun, failed = time.monotonic(), []
    try:
        environment = {**os.environ, "LILY_URL": address}
        code = subprocess.run([*program, str(HERE / script), *options], env=environment, timeout=600).returncode
        outcome = "ok" if code == 0 else f"FAILED with {code}"
        print(f"{script}: {outcome} ({time.monotonic() - begun:.1f} s)", flush=True)
        if code:
            failed.append(script)
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(timeout=30)
        except subprocess.TimeoutExpired:
            server.kill()
            failed.append(f"the server of {script} did not shut down")
    if server.returncode != 0:
        failed.append(f"the server of {script} ended with {server.returncode}")
    return failed


def main():
    failed = [fault for script in sys.argv[1:] or SCRIPTS for fault in run(script)]
    sys.exit("failed: " + ", ".join(failed) if failed else 0)


if __name__ == "__main__":
    main()

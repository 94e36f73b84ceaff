"""Runs the client scripts of this folder against a server that it starts.

    LILY_BINARY=target/release/lily python tests/clients/smoke.py [SCRIPT ...]

The server serves the model that is compiled into the binary, or the one that LILY_MODEL names. A script whose client
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
# Their options; the load is a short one.
OPTIONS = {"load.py": ["--seconds", os.environ.get("LILY_LOAD_SECONDS", "25")]}


def start():
    """A server on a free port, and its address."""
    binary = os.environ.get("LILY_BINARY", "lily")
    server = subprocess.Popen([binary, "serve", "--port", "0", "--context", "2048", "--cache", "64"], stderr=subprocess.PIPE, text=True)
    lines = []
    for line in server.stderr:
        lines.append(line)
        found = re.search(r"listening on (http://\S+)", re.sub(r"\x1b\[[0-9;]*m", "", line))
        if found:
            return server, found.group(1)
    sys.exit("the server did not start:\n" + "".join(lines))


def command(script, server):
    program = ["node"] if script.endswith(".mjs") else [sys.executable]
    options = [*OPTIONS.get(script, []), "--pid", str(server.pid)] if script == "load.py" else []
    return [*program, str(HERE / script), *options]


def main():
    server, address = start()
    # What the server logs is not read here, and must not fill the pipe.
    threading.Thread(target=lambda: collections.deque(server.stderr, 0), daemon=True).start()
    failed = []
    try:
        for script in sys.argv[1:] or SCRIPTS:
            environment = {**os.environ, "LILY_URL": address}
            begun = time.monotonic()
            if script.endswith(".mjs") and not shutil.which("node"):
                print(f"skipped: no node to run {script}", flush=True)
                continue
            code = subprocess.run(command(script, server), env=environment, timeout=600).returncode
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
            failed.append("the server did not shut down")
    if server.returncode != 0:
        failed.append(f"the server ended with {server.returncode}")
    sys.exit("failed: " + ", ".join(failed) if failed else 0)


if __name__ == "__main__":
    main()

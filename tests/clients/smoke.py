"""Runs the client scripts of this folder against a server that it starts.

    LILY_BINARY=target/release/lily python tests/clients/smoke.py [SCRIPT ...]

The server serves the model that is compiled into the binary, or the one that LILY_MODEL names. A script whose client
package is missing prints "skipped" and succeeds. Exit status: 0 if every script succeeded.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = ["openai_chat.py", "openai_responses.py", "anthropic_messages.py", "openapi_fuzz.py"]


def start():
    """A server on a free port, and its address."""
    binary = os.environ.get("LILY_BINARY", "lily")
    server = subprocess.Popen([binary, "serve", "--port", "0", "--context", "2048"], stderr=subprocess.PIPE, text=True)
    lines = []
    for line in server.stderr:
        lines.append(line)
        found = re.search(r"listening on (http://\S+)", re.sub(r"\x1b\[[0-9;]*m", "", line))
        if found:
            return server, found.group(1)
    sys.exit("the server did not start:\n" + "".join(lines))


def main():
    server, address = start()
    failed = []
    try:
        for script in sys.argv[1:] or SCRIPTS:
            environment = {**os.environ, "LILY_URL": address}
            code = subprocess.run([sys.executable, str(HERE / script)], env=environment, timeout=600).returncode
            print(f"{script}: {'ok' if code == 0 else f'FAILED with {code}'}", flush=True)
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

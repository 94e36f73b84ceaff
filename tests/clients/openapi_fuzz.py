"""schemathesis against a running server (LILY_URL): requests made from its OpenAPI document, valid and not. No answer
may be a server error, and each must have the shape that the document gives."""

import importlib.util
import os
import subprocess
import sys

if importlib.util.find_spec("schemathesis") is None:
    print("skipped: no schemathesis package")
    sys.exit(0)

url = os.environ["LILY_URL"]
examples = os.environ.get("LILY_FUZZ_EXAMPLES", "10")
checks = "not_a_server_error,response_schema_conformance,content_type_conformance"
command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--checks", checks]
command += ["--phases", "examples,coverage,fuzzing", "--max-examples", examples]
command += ["--request-timeout", "300", "--no-color"]
run = subprocess.run(command, capture_output=True, text=True)
if run.returncode:
    sys.exit(run.stdout + run.stderr)
print("\n".join(line.strip() for line in run.stdout.splitlines() if "generated" in line and "passed" in line))

"""Runs the browser tests of this folder: all of them, or those that are named.

    LILY_BINARY=target/release/lily python tests/browser/run.py [NAME...]

Exit status: 0 if every test passed.
"""

import sys
import time
import traceback

from playwright.sync_api import sync_playwright

import chat_tests
import page_tests
import safety_tests
from support import Server, fresh_page, launch

MODULES = [chat_tests, page_tests, safety_tests]


def tests(names):
    for module in MODULES:
        for name, function in vars(module).items():
            if name.startswith("test_") and (not names or name.removeprefix("test_") in names):
                yield name.removeprefix("test_"), function


def main():
    chosen = list(tests(sys.argv[1:]))
    if not chosen:
        sys.exit("no test has that name")
    passed, failed = 0, []
    server = Server()
    try:
        with sync_playwright() as playwright:
            browser = launch(playwright)
            for name, function in chosen:
                begun = time.monotonic()
                try:
                    options = getattr(function, "options", {})
                    with fresh_page(browser, server, **options) as page:
                        function(page)
                    passed += 1
                    print(f"{name}: ok, {time.monotonic() - begun:.1f} s", flush=True)
                except Exception:
                    failed.append(name)
                    print(f"{name}: FAILED\n{traceback.format_exc(limit=-3)}", flush=True)
            browser.close()
    finally:
        server.end()
    print(f"{passed} passed, {len(failed)} failed", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

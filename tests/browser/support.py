"""A server, a browser and the page in it."""

import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager

BROWSERS = ["chromium", "chromium-browser", "google-chrome"]
PATIENCE = 20_000


class Server:
    """A server on a free port."""

    def __init__(self, *options):
        command = [os.environ.get("LILY_BINARY", "lily"), "serve", "--port", "0", "--context", "2048", *options]
        environment = {name: value for name, value in os.environ.items() if name not in ("LILY_MODEL", "LILY_API_KEY")}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            found = re.search(r"listening on (http://\S+)", line)
            if found:
                self.url = found.group(1)
                # The log goes on, and a full pipe would stop the server.
                drain = lambda: collections.deque(self.process.stderr, 0)
                threading.Thread(target=drain, daemon=True).start()
                return
        sys.exit("the server did not start:\n" + "".join(lines))

    def metric(self, name):
        with urllib.request.urlopen(self.url + "/metrics", timeout=10) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(name + " "):
                    return float(line.split()[1])
        raise KeyError(name)

    def end(self):
        if self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def launch(playwright):
    """The system's Chromium."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        sys.exit("there is no Chromium: apt-get install chromium")
    arguments = ["--disable-background-networking", "--disable-component-update", "--no-first-run"]
    # Chromium's own sandbox does not start as root.
    return playwright.chromium.launch(executable_path=path, args=arguments, chromium_sandbox=os.getuid() != 0)


class Page:
    """The page of a server, with what tests do on it."""

    def __init__(self, page, server):
        self.page, self.server = page, server
        self.requests, self.complaints, self.expected = [], [], []
        page.set_default_timeout(PATIENCE)
        page.on("request", lambda request: self.requests.append((request.method, request.url)))
        page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        page.on("console", self._console)

    def _console(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def expect_complaint(self, pattern):
        """Allows console errors of this kind, as Chromium writes them about refused requests."""
        self.expected.append(pattern)

    def check(self):
        foreign = [url for _, url in self.requests if not url.startswith(self.server.url + "/")]
        assert not foreign, f"other origins were asked: {foreign}"
        wrong = [text for text in self.complaints if not any(re.search(pattern, text) for pattern in self.expected)]
        assert not wrong, f"the console complains: {wrong}"

    def open(self, **settings):
        """Opens the page with these settings in place."""
        if settings:
            script = f"localStorage.setItem('lily.settings', {json.dumps(json.dumps(settings))})"
            self.page.add_init_script(f"if (!localStorage.getItem('lily.settings')) {script}")
        self.page.goto(self.server.url + "/")
        self.page.wait_for_selector("#status[data-state=ready]")
        return self

    def say(self, text, wait=True):
        self.page.fill("#prompt", text)
        self.page.press("#prompt", "Enter")
        if wait:
            return self.answered()

    def answered(self):
        """Waits for the end of the last answer and gives its element."""
        self.until("document.querySelector('#stop').hidden")
        answers = self.page.locator("article.assistant")
        return answers.nth(answers.count() - 1)

    def until(self, expression):
        """Waits for an expression to be true. Playwright's own way needs `eval` in the page, which the policy forbids."""
        until(lambda: self.page.evaluate(expression), PATIENCE / 1000)

    def content(self):
        return self.page.locator("article.assistant .markdown").last.inner_text()

    def script_answer(self, *deltas, finish="stop", error=None):
        """The next answers are made of these deltas."""
        lines = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        if error:
            lines.append({"error": {"message": error}})
        else:
            usage = {"prompt_tokens": 12, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5}}
            lines.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
            lines.append({"choices": [], "usage": usage})
        body = "".join(f"data: {json.dumps(line)}\n\n" for line in lines) + ("" if error else "data: [DONE]\n\n")
        self.page.route(
            "**/v1/chat/completions",
            lambda route: route.fulfill(status=200, content_type="text/event-stream", body=body),
        )

    def posts(self):
        return sum(1 for method, url in self.requests if method == "POST" and url.endswith("/v1/chat/completions"))


@contextmanager
def fresh_page(browser, server, **options):
    """A page in a profile of its own, checked at the end."""
    context = browser.new_context(viewport={"width": 1200, "height": 800}, **options)
    page = Page(context.new_page(), server)
    try:
        yield page
        page.check()
    except Exception:
        folder = os.environ.get("LILY_BROWSER_FAULTS")
        if folder:
            page.page.screenshot(path=os.path.join(folder, f"fault-{int(time.time() * 1000)}.png"))
        raise
    finally:
        context.close()


@contextmanager
def other_server(page, *options):
    """A fresh page on a server of its own."""
    server = Server(*options)
    try:
        with fresh_page(page.page.context.browser, server) as page:
            yield page
    finally:
        server.end()


def until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.05)

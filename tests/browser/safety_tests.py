"""Text of users, models and tools stays text."""

ATTACKS = [
    "<img src=x onerror=\"window.hacked=1\">",
    "<script>window.hacked=1</script>",
    "<svg onload=window.hacked=1>",
    "<iframe srcdoc='<script>parent.hacked=1</script>'></iframe>",
    "<a href=\"javascript:window.hacked=1\">click</a>",
    "[click](javascript:window.hacked=1)",
    "[click](JaVaScRiPt:window.hacked=1)",
    "[click](data:text/html,<script>window.hacked=1</script>)",
    "[click](vbscript:x)",
    "![pixel](https://evil.example/pixel.png)",
    "<javascript:window.hacked=1>",
    "`</code><img src=x onerror=window.hacked=1>`",
    "```\"><img src=x onerror=window.hacked=1>\n</code></pre><script>window.hacked=1</script>\n```",
    "| <img src=x onerror=window.hacked=1> |\n|---|\n| <script>window.hacked=1</script> |",
    "# <style>*{display:none}</style>",
    "https://example.org/\" onmouseover=\"window.hacked=1",
    "<form action=https://evil.example><input name=x></form>",
    "<link rel=stylesheet href=https://evil.example/x.css>",
]
ALL = "\n\n".join(ATTACKS)


def nothing_happened(page):
    assert page.page.evaluate("window.hacked") is None
    made = page.page.evaluate(
        "document.querySelectorAll('#log :is(img, script, svg, iframe, style, form:not(.call form), input, link, object)').length"
    )
    assert made == 0, "text became markup"
    links = page.page.locator("#log a").evaluate_all("nodes => nodes.map((node) => new URL(node.href).protocol)")
    assert set(links) <= {"http:", "https:", "mailto:"}, links
    handlers = page.page.evaluate(
        "[...document.querySelectorAll('#log *')].flatMap((node) => [...node.attributes]).filter((a) => a.name.startsWith('on')).length"
    )
    assert handlers == 0


def test_what_the_user_types_stays_text(page):
    page.script_answer({"content": "ok"})
    page.open()
    for text in ATTACKS:
        page.say(text)
    bubbles = page.page.locator("article.user .bubble").all_inner_texts()
    assert bubbles == ATTACKS
    nothing_happened(page)
    page.page.reload()
    page.page.wait_for_selector("article.user")
    nothing_happened(page)


def test_what_the_model_says_stays_text(page):
    page.script_answer(
        {"reasoning_content": ALL},
        *({"content": ALL[at : at + 7]} for at in range(0, len(ALL), 7)),
        {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": ATTACKS[0], "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ATTACKS[1]}}]},
        finish="tool_calls",
    )
    page.open()
    answer = page.say("Hi")
    nothing_happened(page)
    assert answer.locator(".thought").text_content() == ALL
    assert answer.locator(".call header code").inner_text() == ATTACKS[0]
    assert answer.locator(".call .arguments").inner_text() == ATTACKS[1]
    for text in ATTACKS[:4]:
        assert text in page.content(), text
    # A picture is a link that nobody has followed.
    assert answer.locator("a", has_text="pixel").get_attribute("href") == "https://evil.example/pixel.png"
    answer.locator(".call textarea").fill(ATTACKS[0])
    answer.locator(".call textarea").press("Enter")
    page.answered()
    nothing_happened(page)


def test_what_the_server_says_stays_text(page):
    page.script_answer({"content": "so far"}, error=ATTACKS[0])
    page.open()
    answer = page.say("Hi")
    assert answer.locator(".error").inner_text() == ATTACKS[0]
    assert page.content() == "so far"
    nothing_happened(page)


def test_the_policy_holds(page):
    page.expect_complaint(r"Content Security Policy|TrustedHTML|This document requires|violates the following")
    page.open()
    outcome = page.page.evaluate(
        """async () => {
            const tried = {};
            try { document.createElement('div').innerHTML = '<b>x</b>'; tried.markup = 'done'; } catch { tried.markup = 'refused'; }
            try { await fetch('https://evil.example/'); tried.fetch = 'done'; } catch { tried.fetch = 'refused'; }
            const image = new Image();
            tried.image = await new Promise((end) => {
                image.onload = () => end('done');
                image.onerror = () => end('refused');
                image.src = 'https://evil.example/x.png';
            });
            return tried;
        }"""
    )
    assert outcome == {"markup": "refused", "fetch": "refused", "image": "refused"}, outcome
    # Chromium reports what the policy has stopped as a request that was made; none has left.
    page.requests = [pair for pair in page.requests if not pair[1].startswith("https://evil.example/")]

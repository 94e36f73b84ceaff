"""Conversations with nano."""

import json

from support import other_server, until

PLAIN = {"temperature": "0", "thinking": "off"}
# Some hundred tokens, of a backend that takes seconds for them.
LONG = "Count from 1 to 1000."
SLOW = ("--backend", "reference")


def test_an_answer_streams_in(page):
    page.open(**PLAIN)
    page.page.evaluate(
        """() => {
            window.lengths = new Set();
            new MutationObserver(() => {
                const node = [...document.querySelectorAll('article.assistant .markdown')].at(-1);
                if (node) window.lengths.add(node.textContent.length);
            }).observe(document.querySelector('#log'), { subtree: true, childList: true, characterData: true });
        }"""
    )
    answer = page.say(LONG)
    assert page.page.locator("article.user .bubble").inner_text() == LONG
    assert page.content().startswith("1, 2, 3, 4, 5")
    assert page.page.evaluate("window.lengths.size") >= 3, "the answer came in one piece"
    figures = answer.locator(".figures").inner_text()
    for words in ["tok/s", "first token", "tokens", "cached"]:
        assert words in figures, figures
    assert "tokens of context" in page.page.evaluate("document.querySelector('#footer').dataset.context")
    # The conversation goes on, from the cache.
    answer = page.say("Hi")
    assert page.content() == "Hello! How can I help you today?"
    cached = int(answer.locator(".figures").inner_text().split(", ")[-1].split()[0])
    assert cached > 0
    assert page.page.locator("#announce").inner_text() == page.content()


def test_stop_ends_the_generation_on_the_server(page):
    with other_server(page, *SLOW) as page:
        page.open(**PLAIN)
        for way in ["key", "button"]:
            before = page.server.metric("lily_cancelled_total")
            page.say(LONG, wait=False)
            page.until("[...document.querySelectorAll('article.assistant .markdown')].at(-1)?.textContent.length > 20")
            if way == "key":
                page.page.keyboard.press("Escape")
            else:
                page.page.click("#stop")
            answer = page.answered()
            assert answer.locator(".note").inner_text() == "Stopped."
            until(lambda: page.server.metric("lily_running") == 0)
            assert page.server.metric("lily_cancelled_total") == before + 1
        # What there was stays, and the conversation goes on.
        assert page.content().startswith("1, 2, 3")
        assert page.page.evaluate("document.activeElement.id") == "prompt"


def test_an_answer_that_a_reload_cut_off_is_stopped(page):
    with other_server(page, *SLOW) as page:
        page.open(**PLAIN)
        page.say(LONG, wait=False)
        page.until("document.querySelector('article.assistant .markdown')?.textContent.length > 20")
        page.page.reload()
        page.page.wait_for_selector("#status[data-state=ready]")
        assert page.page.locator("article.assistant .note").inner_text() == "Stopped."
        assert page.content().startswith("1, 2, 3")
        until(lambda: page.server.metric("lily_running") == 0)


def test_regenerate_answers_anew(page):
    page.open(**PLAIN, system="You are a helpful assistant.")
    page.say("Who are you?")
    first = page.content()
    page.page.locator("article.assistant .again").click()
    answer = page.answered()
    assert page.posts() == 2
    assert page.page.locator("article.assistant").count() == 1
    assert page.content() == first and "lily-nano" in first
    prompt, cached = answer.locator(".figures").inner_text().split("prompt ")[1].split(", ")
    assert int(cached.split()[0]) == int(prompt) - 1, f"all of the prompt but its last token was kept: {prompt} {cached}"


def test_thinking_is_shown_apart(page):
    page.open(temperature="0", thinking="on")
    answer = page.say("What is 12 + 30?")
    summary = answer.locator(".thinking summary")
    assert summary.inner_text().startswith("Thought for")
    assert not answer.locator(".thought").is_visible()
    summary.click()
    assert answer.locator(".thought").is_visible() and answer.locator(".thought").inner_text().strip()
    assert "42" in page.content() and "think" not in page.content()


def test_a_tool_is_called_and_its_result_used(page):
    page.open(**PLAIN)
    page.page.click("#open-settings")
    page.page.click("#tools-example")
    assert "get_weather" in page.page.locator("#tools-note").inner_text()
    answer = page.say("What is the weather in Paris right now?")
    call = answer.locator(".call")
    assert call.locator("header code").inner_text() == "get_weather"
    assert json.loads(call.locator(".arguments").inner_text()) == {"city": "Paris"}
    field = call.locator("textarea")
    assert field.evaluate("node => node === document.activeElement")
    field.fill('{"city": "Paris", "temperature_c": 21, "condition": "sunny"}')
    field.press("Enter")
    page.until("document.querySelectorAll('article.assistant').length === 2")
    page.answered()
    assert "21" in page.content() and "sunny" in page.content(), page.content()
    assert call.locator(".result").is_visible() and not call.locator("form").is_visible()


def test_parameters_reach_the_server(page):
    page.open()
    page.page.click("#open-settings")
    values = {"temperature": 0.5, "top_p": 0.9, "top_k": 30, "max_tokens": 3, "seed": 7}
    for name, value in values.items():
        page.page.fill(f"[name={name}]", str(value))
    page.page.fill("[name=system]", "Be brief.")
    page.page.select_option("[name=thinking]", "off")
    with page.page.expect_request("**/v1/chat/completions") as request:
        answer = page.say("Tell me a short story.")
    sent = request.value.post_data_json
    assert {name: sent[name] for name in values} == values
    assert sent["enable_thinking"] is False and sent["messages"][0] == {"role": "system", "content": "Be brief."}
    assert "Cut" in answer.locator(".note").inner_text() and " 3 tokens" in answer.locator(".figures").inner_text()


def test_settings_that_cannot_be_read_keep_the_message(page):
    page.open(**PLAIN, tools="[{")
    page.say("Hi", wait=False)
    assert "not JSON" in page.page.locator("#toast").inner_text()
    assert page.page.locator("#settings").is_visible() and page.page.locator("#tools-note.wrong").is_visible()
    assert page.page.locator("article").count() == 0 and page.page.input_value("#prompt") == "Hi"
    page.page.fill("[name=tools]", '{"name": "get_weather", "parameters": {"type": "object", "properties": {}}}')
    with page.page.expect_request("**/v1/chat/completions") as request:
        page.page.press("#prompt", "Enter")
    page.answered()
    assert request.value.post_data_json["tools"][0]["function"]["name"] == "get_weather"


def test_the_server_s_own_words_are_shown(page):
    page.expect_complaint(r"status of 400")
    page.open(temperature="3", thinking="off")
    answer = page.say("Hi")
    assert "temperature" in answer.locator(".error").inner_text()
    assert answer.locator(".again").inner_text() == "Try again"
    page.page.click("#open-settings")
    page.page.fill("[name=temperature]", "0")
    answer.locator(".again").click()
    page.answered()
    assert page.content() == "Hello! How can I help you today?"


def test_a_key_is_asked_for_and_kept_for_the_tab(page):
    with other_server(page, "--api-key", "open sesame") as page:
        page.expect_complaint(r"status of 401")
        page.open(**PLAIN)
        assert page.page.locator("#key-banner").is_visible()
        page.page.fill("#key", "wrong")
        page.page.press("#key", "Enter")
        answer = page.say("Hi")
        assert "API key" in answer.locator(".error").inner_text()
        page.page.fill("#key", "open sesame")
        page.page.press("#key", "Enter")
        page.until("document.querySelector('article.assistant .markdown').textContent !== ''")
        page.answered()
        assert page.content() == "Hello! How can I help you today?"
        assert page.page.locator("#key-banner").is_hidden()
        kept = page.page.evaluate("[JSON.stringify(localStorage), JSON.stringify(sessionStorage)]")
        assert "sesame" not in kept[0] and "sesame" in kept[1]


def test_a_server_that_goes_away_is_told(page):
    with other_server(page) as page:
        page.expect_complaint(r"ERR_(CONNECTION_REFUSED|CONNECTION_RESET|EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING)")
        page.open(**PLAIN)
        page.say("Hi")
        page.server.end()
        answer = page.say("Hi")
        assert "cannot be reached" in answer.locator(".error").inner_text()
        page.page.wait_for_selector("#status[data-state=gone]")
        assert page.page.locator("article").count() == 4, "nothing is lost"

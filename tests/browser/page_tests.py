"""The page itself: looks, keys, what it keeps, what it makes of Markdown."""

PLAIN = {"temperature": "0", "thinking": "off"}

MARKDOWN = """# Title

Some **bold**, *italic* and `inline <b>` text with a [link](https://example.org/a_(b)) and 2 * 3 * 4 = snake_case_word.

1. one
   - nested
   - more
2. two

> quoted

| a | b |
|---|--:|
| 1 | `x` |

```rust
fn main() { println!("<hi>"); }
```

Last ~~line~~"""


def brightness(page):
    rgb = page.page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)")
    return sum(rgb) / 3


def test_light_and_dark(page):
    page.open()
    assert brightness(page) > 200
    page.page.emulate_media(color_scheme="dark")
    assert brightness(page) < 60, "the system's theme is followed"
    switch = page.page.locator("#theme")
    switch.click()
    assert brightness(page) > 200 and "light" in switch.get_attribute("aria-label")
    page.page.reload()
    assert brightness(page) > 200, "the choice is kept"
    switch.click()
    page.page.emulate_media(color_scheme="light")
    assert brightness(page) < 60 and "dark" in switch.get_attribute("aria-label")
    switch.click()
    assert brightness(page) > 200 and "system" in switch.get_attribute("aria-label")


def test_keys(page):
    page.open(**PLAIN)
    keys = page.page.keyboard
    assert page.page.evaluate("document.activeElement.id") == "prompt"
    keys.type("one")
    keys.press("Shift+Enter")
    keys.type("two")
    assert page.page.input_value("#prompt") == "one\ntwo" and page.page.locator("article").count() == 0
    page.page.fill("#prompt", "   ")
    keys.press("Enter")
    assert page.page.locator("article").count() == 0, "blanks are no message"
    # From the top, every control is reached and shows that it is.
    page.page.evaluate("document.activeElement.blur()")
    seen = []
    for _ in range(12):
        keys.press("Tab")
        seen.append(page.page.evaluate("document.activeElement.id || document.activeElement.textContent"))
        if page.page.evaluate("document.activeElement !== document.body"):
            style = page.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert style != "none", seen
    for name in ["theme", "open-settings", "What are you?", "prompt", "send"]:
        assert name in seen, seen
    page.page.focus("#open-settings")
    keys.press("Enter")
    assert page.page.locator("#settings").is_visible()
    assert page.page.get_attribute("#open-settings", "aria-expanded") == "true"
    keys.press("Escape")
    assert page.page.locator("#settings").is_hidden()
    assert page.page.evaluate("document.activeElement.id") == "open-settings"
    # Whoever types anywhere means the message.
    page.page.evaluate("document.activeElement.blur()")
    page.page.fill("#prompt", "")
    page.page.evaluate("document.activeElement.blur()")
    keys.type("Hi")
    keys.press("Enter")
    page.answered()
    assert page.content() == "Hello! How can I help you today?"


def test_a_reload_keeps_everything_and_clear_clears(page):
    page.open(**PLAIN, system="Be kind.")
    page.say("Hi")
    page.page.reload()
    page.page.wait_for_selector("#status[data-state=ready]")
    assert page.content() == "Hello! How can I help you today?"
    page.page.click("#open-settings")
    assert page.page.input_value("[name=system]") == "Be kind."
    page.page.click("#new-chat")
    assert page.page.locator("article").count() == 0 and page.page.locator("#welcome").is_visible()
    page.page.click("#toast button")
    assert page.page.locator("article").count() == 2
    page.page.click("#forget")
    assert page.page.locator("article").count() == 0
    page.page.reload()
    assert page.page.locator("article").count() == 0


def test_a_small_screen(page):
    page.page.set_viewport_size({"width": 360, "height": 640})
    page.script_answer({"content": MARKDOWN + "\n\n" + "x" * 300})
    page.open(**PLAIN)
    page.say("Hi")
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.page.evaluate("document.querySelector('#log').scrollWidth") <= 360
    box = page.page.locator("#send").bounding_box()
    assert box["x"] + box["width"] <= 360 and box["y"] + box["height"] <= 640
    page.page.click("#open-settings")
    assert page.page.locator("#settings").bounding_box()["width"] == 360


def test_markdown(page):
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.script_answer(*({"content": letter} for letter in MARKDOWN))
    page.open()
    answer = page.say("Hi").locator(".markdown")

    def texts(selector):
        return answer.locator(selector).all_inner_texts()

    assert texts("h3") == ["Title"]
    assert texts("strong") == ["bold"] and texts("em") == ["italic"] and texts("s") == ["line"]
    assert texts("p > code") == ["inline <b>"] and texts("blockquote") == ["quoted"]
    assert "2 * 3 * 4 = snake_case_word" in answer.inner_text()
    assert answer.locator("ol > li").count() == 2 and texts("ol ul li") == ["nested", "more"]
    assert texts("th") == ["a", "b"] and answer.locator("td.right").count() == 1
    link = answer.locator("a")
    assert link.get_attribute("href") == "https://example.org/a_(b)"
    assert "noopener" in link.get_attribute("rel")
    block = answer.locator(".code-block")
    assert block.locator("figcaption span").inner_text() == "rust"
    assert block.locator("pre").inner_text() == 'fn main() { println!("<hi>"); }'
    block.locator("button").click()
    assert page.page.evaluate("navigator.clipboard.readText()") == 'fn main() { println!("<hi>"); }'


def test_markdown_is_the_same_in_pieces_and_takes_linear_time(page):
    page.open()
    page.page.evaluate(
        """async (text) => {
            const { Markdown } = await import('/web/markdown.js');
            const whole = document.createElement('div');
            new Markdown(whole).update(text);
            const grown = document.createElement('div');
            const markdown = new Markdown(grown);
            for (let end = 0; end <= text.length; end += 1) markdown.update(text.slice(0, end));
            if (grown.innerHTML !== whole.innerHTML) throw new Error(`${grown.innerHTML} is not ${whole.innerHTML}`);
            const unit = ['*', '**a ', '_', '`', '``a', '[', '[a](', '\\\\', '> ', '- ', '1. a\\n\\n', '|', '~~', '<http://',
                '```\\n', '# ', '\\n', '    ', 'https://', '![', '***a ', '|-', '***', '- a\\n\\n\\n'];
            for (const piece of unit) {
                const long = piece.repeat(100000 / piece.length);
                const begin = performance.now();
                new Markdown(document.createElement('div')).update(long + 'x');
                const took = performance.now() - begin;
                if (took > 2000) throw new Error(`${JSON.stringify(piece)} takes ${took} ms`);
            }
        }""",
        MARKDOWN,
    )

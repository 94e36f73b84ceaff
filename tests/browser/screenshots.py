"""Takes the pictures of the page in a real conversation with nano.

    LILY_BINARY=target/release/lily python tests/browser/screenshots.py docs/images
"""

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from support import Server, fresh_page, launch


def converse(page):
    page.open(temperature="0")
    answer = page.say("Hi! What are you?")
    answer.locator(".thinking summary").click()
    page.page.click("#open-settings")
    page.page.click("#tools-example")
    page.page.click("#close-settings")
    answer = page.say("What is the weather in Paris right now?")
    field = answer.locator(".call textarea")
    field.fill('{"city": "Paris", "temperature_c": 21, "condition": "sunny"}')
    field.press("Enter")
    page.until("document.querySelectorAll('article.assistant').length === 3")
    page.answered()
    page.page.focus("#prompt")
    page.page.wait_for_timeout(300)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    server = Server()
    try:
        with sync_playwright() as playwright:
            browser = launch(playwright)
            for theme in ["light", "dark"]:
                with fresh_page(browser, server, color_scheme=theme) as page:
                    page.page.set_viewport_size({"width": 1000, "height": 1000})
                    converse(page)
                    page.page.screenshot(path=str(folder / f"web-{theme}.png"))
            browser.close()
    finally:
        server.end()


if __name__ == "__main__":
    main()

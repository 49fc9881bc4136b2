"""Tests of how many clicks lead from an empty home page to the first streamed word."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from storyengine.tests.browsing import browser as browser
from storyengine.tests.browsing import open_page
from storyengine.tests.running import run_program
from testing.fake_server import start_fake_server

pytestmark = [pytest.mark.browser, pytest.mark.processes]

MOST_CLICKS, MOST_WITH_A_HOST = 3, 5
# The script counts the clicks of a person over all pages of the window.
COUNT = """addEventListener("click", (event) => {
  if (event.isTrusted) sessionStorage.clicks = Number(sessionStorage.clicks ?? 0) + 1;
}, true)"""


@pytest.fixture(params=["127.0.0.1", "127.1"])
def home(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    """Yield the home page of a program without chapters.

    The second address of the model server is another name of the machine itself. The program takes
    it for a host beyond the machine, which has to be allowed first.
    """
    with start_fake_server(first_token_ms=20, tokens_per_second=20) as model:
        environment = {
            "STORYENGINE_LLM": "openai",
            "OPENAI_BASE_URL": model.base_url.replace("127.0.0.1", request.param),
            "OPENAI_API_KEY": "unused",
            "STORYENGINE_CONTEXT_WINDOW": "128000",
            "STORYENGINE_MAX_OUTPUT": "16000",
            **{f"STORYENGINE_MODEL_AGENT_{number}": f"agent-{number}" for number in range(10)},
        }
        with run_program(environment) as program:
            context = browser.new_context(base_url=program.url)
            context.add_init_script(COUNT)
            page = open_page(context)
            page.goto("/")
            yield page
            context.close()


def test_the_first_word_comes_after_few_clicks(home: Page) -> None:
    home.locator(".starter").first.click()
    home.wait_for_url("**/play")
    asks_first = home.get_by_role("link", name="See what would be sent")
    has_host = asks_first.count() > 0
    if has_host:
        asks_first.first.click()
        home.get_by_role("button", name="Allow").click()
        # The consent leads on to where one was.
        home.wait_for_url("**/play")
    home.get_by_role("button", name="Send this").click()
    expect(home.locator("#reply-text")).not_to_be_empty()
    clicks = home.evaluate("Number(sessionStorage.clicks)")
    assert clicks <= (MOST_WITH_A_HOST if has_host else MOST_CLICKS)

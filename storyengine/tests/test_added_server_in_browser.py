"""Tests in a browser that a server is added on the page Models, chosen, tested, and writes a reply,
although the environment names a server that does not answer."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from storyengine.tests.browsing import browser as browser
from storyengine.tests.browsing import open_page
from storyengine.tests.running import run_program
from testing.fake_server import FakeServer, start_fake_server
from testing.program import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.processes]


@pytest.fixture(scope="module")
def model() -> Iterator[FakeServer]:
    with start_fake_server(first_token_ms=20, tokens_per_second=40) as running:
        yield running


@pytest.fixture(scope="module")
def page(browser: Browser, model: FakeServer) -> Iterator[Page]:
    """Yield a page of a program whose characters use a server that was added on the page Models."""
    # Nothing listens at the port 9.
    environment = {"STORYENGINE_LLM": "openai", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    with run_program(environment) as program:
        context = browser.new_context(base_url=program.url)
        page = open_page(context)
        add_and_choose(page, model.base_url)
        yield page
        context.close()


def add_and_choose(page: Page, address: str) -> None:
    page.goto("/models/")
    page.get_by_text("Another address").click()
    page.get_by_label("Name", exact=True).fill("Loopback")
    page.get_by_label("Address", exact=True).fill(address)
    page.get_by_role("button", name="Add the server").click()
    expect(page.get_by_role("heading", name="Loopback")).to_be_visible()
    page.get_by_label("Server of Characters").select_option("Loopback")
    page.get_by_label("Model of Characters").fill("agent-1")
    page.get_by_role("button", name="Use for Characters").click()
    expect(page.get_by_text("Chosen here.")).to_be_visible()


def begin_starter(page: Page) -> str:
    """Begin a chapter that is in play at once, and return the start of its addresses."""
    page.goto("/")
    # Once there is a story, the starters are folded.
    folded = page.locator(".more-starters summary")
    if folded.count():
        folded.click()
    page.locator(".starter").first.click()
    page.wait_for_url("**/play")
    return page.url.removesuffix("/play")


def expect_reply_of(page: Page, model: FakeServer, name: str) -> None:
    """Send the prompt, and see that the reply is streamed and that this model wrote it."""
    made = len(model.calls)
    page.get_by_role("button", name="Send").first.click()
    # Some words are there before the reply has ended.
    expect(page.locator("#reply-text")).not_to_be_empty()
    expect(page.locator("#reply-text")).to_have_count(0)
    wait_until(lambda: len(model.calls) > made, "a call of the model", seconds=30)
    assert [one["model"] for one in model.calls[made:]] == [name]


def test_the_server_answers_a_test_and_writes_a_reply(page: Page, model: FakeServer) -> None:
    page.goto("/models/")
    made = len(model.calls)
    page.get_by_role("button", name="Test Characters").click()
    expect(page.get_by_role("status").filter(has_text="Works.")).to_be_visible()
    wait_until(lambda: len(model.calls) > made, "the test of the model", seconds=30)
    begin_starter(page)
    expect_reply_of(page, model, "agent-1")


def test_a_chapters_own_model_is_kept_by_the_enter_key_and_writes_its_reply(
    page: Page, model: FakeServer
) -> None:
    chapter = begin_starter(page)
    page.goto(f"{chapter}/models")
    field = page.get_by_label("Model of Characters")
    field.fill("own-agent-1")
    field.press("Enter")
    expect(page.get_by_text("Set for this chapter.")).to_be_visible()
    # A second Enter takes nothing back.
    with page.expect_navigation():
        field.press("Enter")
    expect(field).to_have_value("own-agent-1")
    # The first field is that of all agents.
    temperature = page.get_by_label("Temperature").nth(1)
    expect(temperature).to_be_visible()
    temperature.fill("0.4")
    page.get_by_role("button", name="Use for Characters").click()
    expect(temperature).to_have_value("0.4")
    page.goto(f"{chapter}/play")
    expect_reply_of(page, model, "own-agent-1")

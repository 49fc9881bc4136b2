"""Tests in a browser that a server is added on the page Models, chosen, tested, and writes a reply,
although the environment names a server that does not answer."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from bench.fake_server import FakeServer, start_fake_server
from bench.program import wait_until
from storyengine.tests.browsing import browser as browser
from storyengine.tests.browsing import open_page
from storyengine.tests.running import run_program

pytestmark = [pytest.mark.browser, pytest.mark.processes]


@pytest.fixture(scope="module")
def model() -> Iterator[FakeServer]:
    with start_fake_server(first_token_ms=20, tokens_per_second=40) as running:
        yield running


@pytest.fixture(scope="module")
def page(browser: Browser, model: FakeServer) -> Iterator[Page]:
    # Nothing listens at the port 9.
    environment = {"STORYENGINE_LLM": "openai", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    with run_program(environment) as program:
        context = browser.new_context(base_url=program.url)
        yield open_page(context)
        context.close()


def test_a_reply_comes_from_a_server_that_was_added_on_the_page(
    page: Page, model: FakeServer
) -> None:
    page.goto("/models/")
    page.get_by_text("Another address").click()
    page.get_by_label("Name", exact=True).fill("Loopback")
    page.get_by_label("Address", exact=True).fill(model.base_url)
    page.get_by_role("button", name="Add the server").click()
    expect(page.get_by_role("heading", name="Loopback")).to_be_visible()

    page.get_by_label("Server of Characters").select_option("Loopback")
    page.get_by_label("Model of Characters").fill("agent-1")
    page.get_by_role("button", name="Use for Characters").click()
    expect(page.get_by_text("Chosen here.")).to_be_visible()
    page.get_by_role("button", name="Test Characters").click()
    expect(page.get_by_role("status").filter(has_text="Works.")).to_be_visible()
    expect_calls(model, "agent-1")

    page.goto("/")
    page.locator(".starter").first.click()
    page.wait_for_url("**/play")
    page.get_by_role("button", name="Send this").click()
    # Some words are there before the reply has ended.
    expect(page.locator("#reply-text")).not_to_be_empty()
    expect(page.locator("#reply-text")).to_have_count(0)
    expect(page.get_by_role("alert")).to_have_text([""] * page.get_by_role("alert").count())
    expect_calls(model, "agent-1", "agent-1")


def test_a_chapters_own_model_is_kept_by_the_enter_key_and_writes_its_reply(
    page: Page, model: FakeServer
) -> None:
    page.goto("/")
    page.get_by_role("link", name="Continue").first.click()
    page.wait_for_url("**/play")
    chapter = page.url.removesuffix("/play")
    page.goto(f"{chapter}/models")
    field = page.get_by_label("Model of Characters")
    field.fill("own-agent-1")
    field.press("Enter")
    expect(page.get_by_text("Set for this chapter.")).to_be_visible()
    # A second Enter takes nothing back.
    field.press("Enter")
    expect(field).to_have_value("own-agent-1")
    page.get_by_text("How it writes").first.click()
    expect(page.get_by_label("Temperature").first).to_be_hidden()
    page.get_by_text("How it writes").first.click()
    page.get_by_label("Temperature").first.fill("0.4")
    page.get_by_role("button", name="Use for Characters").click()
    expect(page.get_by_label("Temperature").first).to_have_value("0.4")

    page.goto(f"{chapter}/play")
    page.locator("#prompt-text").fill("What now?")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#reply-text")).not_to_be_empty()
    expect(page.locator("#reply-text")).to_have_count(0)
    expect_calls(model, "agent-1", "agent-1", "own-agent-1")


def expect_calls(model: FakeServer, *names: str) -> None:
    """Wait until the server has recorded exactly the calls of these models."""
    wait_until(lambda: len(model.calls) >= len(names), "calls of the model", seconds=30)
    assert [one["model"] for one in model.calls] == list(names)

"""A test in a real browser that plays a chapter of the running program from its setup to its
download."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from storyengine.tests.browsing import SCREENSHOTS, open_page
from storyengine.tests.browsing import browser as browser
from storyengine.tests.running import ScriptedProgram, run_scripted_program

# No other browser test runs with PostgreSQL and Redis too.
pytestmark = [pytest.mark.browser, pytest.mark.processes, pytest.mark.servers]

# Speeds of the model in tokens a second. At FAST the test never has to wait. At HELD a reply lasts
# two minutes, unless the test sets a higher speed.
FAST, HELD = 1_000, 0.5
WIDTHS = {"1280": (1280, 900), "390": (390, 844)}
WORLD = "A harbour at the edge of the ice.\nDread."
WARNING = (
    "Warning, resetting the chapter will delete all cells from the Story Engine, please make sure "
    "you have saved any and all character and setting information before you reset."
)


@pytest.fixture(scope="module")
def program(browser: Browser) -> Iterator[ScriptedProgram]:
    with run_scripted_program(first_token_ms=50, tokens_per_second=FAST) as running:
        yield running


@pytest.fixture
def page(browser: Browser, program: ScriptedProgram) -> Iterator[Page]:
    """Yield a page. The test fails if a script of the page raises an error or a resource is
    refused."""
    context = browser.new_context(base_url=program.url, viewport={"width": 1280, "height": 900})
    page = open_page(context)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "console",
        lambda message: problems.append(message.text) if message.type == "error" else None,
    )
    yield page
    context.close()
    assert without_abandoned(problems) == []


def without_abandoned(problems: list[str]) -> list[str]:
    """Return the problems without those of requests that the browser gave up because the page was
    left. htmx tells of such a request twice: as one that ended, and as one that was aborted."""
    left: list[str] = []
    for problem in problems:
        if problem.startswith("htmx:sendAbort") and left and left[-1].startswith("htmx:afterReq"):
            left.pop()
        else:
            left.append(problem)
    return left


def photograph(page: Page, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for width, (across, down) in WIDTHS.items():
        page.set_viewport_size({"width": across, "height": down})
        page.screenshot(path=SCREENSHOTS / f"{name}-{width}.png", full_page=True)
        overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert overflow <= 0, f"{name} is {overflow} pixels too wide on a {width}-pixel screen"
    page.set_viewport_size({"width": 1280, "height": 900})


def send(page: Page, text: str) -> None:
    box = page.get_by_label("Your prompt")
    box.fill(text)
    box.press("Enter")


def expect_turn(page: Page, number: int, text: str) -> None:
    """Wait until the transcript shows this prompt, and until the next prompt can be sent."""
    expect(page.locator("#transcript")).to_contain_text(f"{number}) {text}")
    expect(page.locator("[data-send]")).to_be_visible()
    expect(page.locator("#running")).to_have_count(0)
    expect(page.get_by_label("Your prompt")).to_have_value("")


def expect_panel(page: Page, slot: int) -> None:
    expect(page.locator(f"#panel-{slot}")).to_be_checked()


def set_up(page: Page) -> None:
    page.goto("/")
    page.get_by_role("link", name="Start your first chapter").click()
    page.get_by_role("button", name="Begin").first.click()
    page.get_by_label("World, kind of story, tone").fill(WORLD)
    page.get_by_label("This chapter, this place").fill("Night. The lighthouse is dark.")
    page.get_by_label("Agents in this chapter").select_option("3")
    page.get_by_role("radio", name="2 Agent Orange").check()
    page.get_by_label("Name of agent 2").fill("Kara Venn")
    page.get_by_label("Identity of agent 2").fill("A ferrywoman of forty. Dry humour.")
    expect(page.get_by_text("2 Kara Venn")).to_be_visible()
    expect(page.locator("#saved-state")).to_have_text("saved")
    expect(page.locator("output[for=world-text]")).to_have_text("40/5,000")
    page.reload()
    expect(page.get_by_label("World, kind of story, tone")).to_have_value(WORLD)
    photograph(page, "tab1")


def lock(page: Page) -> None:
    page.get_by_role("link", name="Play", exact=False).first.click()
    page.get_by_role("button", name="Lock and play").click()
    expect(page.get_by_label("Your prompt")).to_be_visible()
    # The page's scripts must be loaded first. Without them, Enter would begin a new line.
    page.wait_for_load_state()
    expect(page.locator(".fraction")).to_have_text("0/60,000 characters")
    expect_panel(page, 1)


def play_until_memory(page: Page, program: ScriptedProgram) -> None:
    """Play seven prompts. Among them are an automatic and a manual change of the character, an
    error with a retry, and a stop."""
    for number, slot_after in ((1, 2), (2, 3), (3, 1)):
        send(page, f"Beat {number}.")
        expect_turn(page, number, f"Beat {number}.")
        expect_panel(page, slot_after)
    expect(page.locator("#transcript")).to_contain_text("Kara Venn: ")

    page.get_by_role("radio", name="3 Agent Yellow").check()
    send(page, "A jump to the third.")
    expect_turn(page, 4, "A jump to the third.")
    expect_panel(page, 1)

    program.model.queue_faults("401", agent=1)
    send(page, "A beat that fails.")
    expect(page.locator("#broken")).to_contain_text("A beat that fails.")
    page.reload()
    expect(page.locator("#broken")).to_contain_text("A beat that fails.")
    page.get_by_role("button", name="Retry").click()
    expect_turn(page, 5, "A beat that fails.")

    program.model.timing.tokens_per_second = HELD
    send(page, "A beat that is stopped.")
    expect(page.locator("#reply-text")).not_to_be_empty()
    page.get_by_role("button", name="Stop").click()
    keep = page.get_by_role("button", name="Keep this text")
    expect(keep).to_be_visible()
    # The speed stays low until the stop, because otherwise the whole reply could arrive before it.
    program.model.timing.tokens_per_second = FAST
    keep.click()
    expect_turn(page, 6, "A beat that is stopped.")

    expect(page.locator(".boundary")).to_have_count(0)
    send(page, "The seventh.")
    expect_turn(page, 7, "The seventh.")
    expect(page.locator(".boundary")).to_have_text("-------------")


def reload_in_the_middle_of_a_reply(page: Page, program: ScriptedProgram) -> None:
    program.model.timing.tokens_per_second = HELD
    send(page, "The eighth.")
    expect(page.locator("#reply-text")).not_to_be_empty()
    page.get_by_label("Your prompt").fill("Typed ahead")
    page.reload()
    expect(page.get_by_label("Your prompt")).to_have_value("Typed ahead")
    expect(page.locator("#reply-text")).not_to_be_empty()
    photograph(page, "tab2")
    program.model.timing.tokens_per_second = FAST
    expect(page.locator("#running")).to_have_count(0)
    expect(page.locator("#transcript")).to_contain_text("8) The eighth.")
    expect(page.get_by_label("Your prompt")).to_have_value("Typed ahead")


def end_and_build(page: Page, program: ScriptedProgram) -> None:
    page.get_by_role("button", name="End Chapter").click()
    page.get_by_role("dialog").get_by_role("button", name="End Chapter").click()
    expect(page.get_by_role("button", name="Reopen chapter")).to_be_visible()
    page.get_by_role("link", name="Chapter", exact=False).last.click()
    # htmx logs an error if the next step replaces a request that has no answer yet. So the test
    # waits for the answer to this request.
    expect(page.locator("#build-estimate")).to_contain_text("out")
    page.get_by_label("Narrator").fill("Third person, past tense. Long silences.")
    page.get_by_label("Target length").fill("2500")
    expect(page.locator("#saved-state")).to_have_text("saved")
    program.model.timing.tokens_per_second = 50
    page.get_by_role("button", name="Build Narrative").click()
    expect(page.locator("progress.build-progress")).to_be_visible()
    expect(page.locator(".prose")).not_to_be_empty()
    program.model.timing.tokens_per_second = FAST
    expect(page.get_by_role("button", name="Download Chapter")).to_be_enabled()
    photograph(page, "tab3")
    page.get_by_role("radio", name="Text").check()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download Chapter").click()
    assert download.value.suggested_filename.endswith(".txt")
    saved = Path(download.value.path()).read_text(encoding="utf-8")
    assert saved.startswith(page.locator(".title-field").input_value())
    prose = page.locator(".told-text").all_inner_texts()
    assert saved.strip().endswith("\n\n".join(prose).strip())


def reset(page: Page) -> None:
    page.get_by_role("link", name="World", exact=False).first.click()
    expect(page.get_by_label("World, kind of story, tone")).to_have_attribute("readonly", "")
    photograph(page, "tab1-locked")
    before = page.url
    page.get_by_role("button", name="Reset Chapter").click()
    expect(page.get_by_role("dialog")).to_contain_text(WARNING)
    page.get_by_role("button", name="Cancel").click()
    assert page.url == before
    page.get_by_role("button", name="Reset Chapter").click()
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_label("World, kind of story, tone")).to_have_value("")
    assert page.url != before


@pytest.mark.each_run_on_files
def test_a_chapter_from_setup_to_download(page: Page, program: ScriptedProgram) -> None:
    set_up(page)
    lock(page)
    tab3 = open_page(page.context)
    tab3.goto(page.url.replace("/play", "/chapter"))
    expect(tab3.locator("#memory")).to_contain_text("World and chapter")
    play_until_memory(page, program)
    # This tab shows the new memory without a reload or a click.
    expect(tab3.locator("#memory")).to_contain_text("Prompts 1")
    tab3.close()
    reload_in_the_middle_of_a_reply(page, program)
    end_and_build(page, program)
    reset(page)

"""What the pages' scripts promise, tried in a real browser against the running program."""

import re
import shutil
from collections.abc import Iterator
from typing import cast

import pytest
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from bench.chapter_client import ChapterClient
from bench.session_data import setup_of, synthetic_session
from storyengine.tests.running import ScriptedProgram, run_scripted_program

pytestmark = [pytest.mark.browser, pytest.mark.processes]

# Tokens a second: what nobody waits for, and what a test can do something beside.
FAST, READABLE = 400, 25

READ_SELECTION = """() => {
  const range = document.createRange();
  range.selectNodeContents(document.getElementById("transcript"));
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  return getSelection().toString();
}"""

# And wait until the page has heard of it, as it has long before a person can do the next thing.
SCROLL_UP = """element => new Promise(resolve => {
  element.addEventListener("scroll", resolve, { once: true });
  element.scrollTop = 40;
})"""

AT_END = """() => {
  const shown = document.getElementById("transcript");
  return shown.scrollHeight - shown.scrollTop - shown.clientHeight < 5;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine: the pages' scripts are not tried")
    with sync_playwright() as playwright:
        # Root, as in a container, cannot use Chromium's sandbox; only our own pages are opened.
        chromium = playwright.chromium.launch(
            executable_path=found,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def program(browser: Browser) -> Iterator[ScriptedProgram]:
    with run_scripted_program(first_token_ms=20, tokens_per_second=FAST) as running:
        yield running


@pytest.fixture
def page(browser: Browser, program: ScriptedProgram) -> Iterator[Page]:
    program.model.clear_faults()
    program.model.timing.tokens_per_second = FAST
    context = browser.new_context(base_url=program.url, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(15_000)
    yield page
    context.close()


@pytest.fixture
def draft(program: ScriptedProgram) -> ChapterClient:
    return ChapterClient(program.server)


@pytest.fixture
def chapter(program: ScriptedProgram) -> ChapterClient:
    client = ChapterClient(program.server)
    client.save_setup(setup_of(synthetic_session(10)))
    client.lock(seconds=30)
    return client


def open_world(page: Page, chapter: ChapterClient) -> None:
    page.goto(f"/chapters/{chapter.session_id}/world")


def open_play(page: Page, chapter: ChapterClient) -> None:
    page.goto(f"/chapters/{chapter.session_id}/play")


def expect_idle(page: Page) -> None:
    expect(page.locator("[data-send]")).to_be_visible()
    expect(page.locator("#running")).to_have_count(0)


def world_text(chapter: ChapterClient) -> str:
    return cast(str, chapter.read()["tab1"]["world_text"])


class TestTab1:
    def test_the_cap_counts_code_points_and_nothing_over_it_gets_in(
        self, page: Page, draft: ChapterClient
    ) -> None:
        open_world(page, draft)
        world, count = page.locator("#world-text"), page.locator("output[for=world-text]")
        world.fill("😀" * 4998)
        expect(count).to_have_text("4,998/5,000")
        world.press("Control+End")
        world.press("Enter")
        page.keyboard.insert_text("é")
        expect(count).to_have_text("5,000/5,000")
        page.keyboard.type("x")
        page.keyboard.insert_text("y")
        expect(count).to_have_text("5,000/5,000")
        expect(page.locator("#world-text + .refusal")).to_contain_text("1 too many")
        assert world.input_value().endswith("😀\né")

    def test_leaving_at_once_loses_nothing(self, page: Page, draft: ChapterClient) -> None:
        open_world(page, draft)
        page.locator("#world-text").fill("Typed and left.")
        page.get_by_role("link", name="3 Chapter").click()
        page.wait_for_url("**/chapter")
        assert world_text(draft) == "Typed and left."

    def test_what_is_typed_before_the_scripts_come_is_saved(
        self, page: Page, draft: ChapterClient
    ) -> None:
        held: list[Route] = []

        def hold(route: Route) -> None:
            held.append(route)

        page.route("**/htmx-2*.js", hold)
        page.goto(f"/chapters/{draft.session_id}/world", wait_until="commit")
        page.locator("#world-text").fill("An early word.")
        held[0].continue_()
        expect(page.locator("output[for=world-text]")).to_have_text("14/5,000")
        expect(page.locator("#saved-state")).to_have_text("saved")
        assert world_text(draft) == "An early word."

    def test_what_could_not_be_saved_says_so_and_is_tried_again(
        self, page: Page, draft: ChapterClient
    ) -> None:
        open_world(page, draft)
        page.route("**/world/save", lambda route: route.abort())
        page.locator("#world-text").fill("Through a bad line.")
        expect(page.locator("#saved-state")).to_have_text("not saved")
        expect(page.locator("#world-text + .refusal")).to_contain_text("Nothing typed is lost")
        page.unroute("**/world/save")
        expect(page.locator("#saved-state")).to_have_text("saved", timeout=15_000)
        assert world_text(draft) == "Through a bad line."

    def test_fewer_agents_hide_panels_and_more_bring_them_back(
        self, page: Page, draft: ChapterClient
    ) -> None:
        open_world(page, draft)
        page.get_by_role("radio", name="3 Agent Yellow").check()
        page.locator("#identity-3").fill("A child.")
        page.locator("#agent-count").select_option("1")
        expect(page.locator("#panel-3")).to_be_hidden()
        expect(page.locator("#panel-1")).to_be_visible()
        expect(page.get_by_role("radio", name="3 Agent Yellow")).to_be_hidden()
        page.locator("#agent-count").select_option("7")
        page.get_by_role("radio", name="3 Agent Yellow").check()
        expect(page.locator("#identity-3")).to_have_value("A child.")

    def test_the_panel_that_was_looked_at_last_is_shown_again(
        self, page: Page, draft: ChapterClient
    ) -> None:
        open_world(page, draft)
        page.get_by_role("radio", name="2 Agent Orange").check()
        page.reload()
        expect(page.locator("#panel-2")).to_be_visible()
        expect(page.locator("#panel-1")).to_be_hidden()


class TestPrompt:
    def test_enter_sends_and_shift_enter_breaks_the_line(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        open_play(page, chapter)
        box = page.locator("#prompt-text")
        box.fill("One.")
        box.press("Shift+Enter")
        box.press_sequentially("Two.")
        # An input method's Enter chooses a word.
        box.dispatch_event("keydown", {"key": "Enter", "isComposing": True})
        expect(box).to_have_value("One.\nTwo.")
        box.press("Enter")
        expect(page.locator("#transcript")).to_contain_text("1) One.\nTwo.")
        expect(box).to_have_value("")
        expect_idle(page)
        expect(box).to_be_focused()

    def test_unsent_words_survive_a_reload_and_sent_ones_do_not_come_back(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        open_play(page, chapter)
        box = page.locator("#prompt-text")
        box.fill("Not sent yet.")
        page.reload()
        expect(box).to_have_value("Not sent yet.")
        box.press("Enter")
        expect_idle(page)
        page.reload()
        expect(box).to_have_value("")

    def test_words_that_could_not_be_sent_stay_and_count_once(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        def lose_the_answer(route: Route) -> None:
            route.fetch()
            route.abort()

        open_play(page, chapter)
        page.route("**/play/prompt", lose_the_answer)
        box = page.locator("#prompt-text")
        box.fill("Sent twice.")
        box.press("Enter")
        expect(page.locator("#prompt-text + .refusal")).to_contain_text("does not answer")
        expect(box).to_have_value("Sent twice.")
        page.unroute("**/play/prompt")
        page.locator("[data-send]").click()
        expect(box).to_have_value("")
        expect_idle(page)
        assert chapter.read()["prompt_index"] == 1

    def test_the_words_of_a_broken_turn_can_be_put_back(
        self, page: Page, program: ScriptedProgram, chapter: ChapterClient
    ) -> None:
        program.model.queue_faults("401", agent=1)
        open_play(page, chapter)
        box = page.locator("#prompt-text")
        box.fill("A beat that fails.")
        box.press("Enter")
        expect(page.locator("#broken")).to_be_visible()
        box.fill("Typed since.")
        page.get_by_text("Put the words back").click()
        expect(box).to_have_value("A beat that fails.\n\nTyped since.")
        expect(page.locator("#panel-1")).to_be_checked()

    def test_a_panel_chosen_while_a_reply_is_written_stays_chosen(
        self, page: Page, program: ScriptedProgram, chapter: ChapterClient
    ) -> None:
        program.model.timing.tokens_per_second = READABLE
        open_play(page, chapter)
        page.locator("#prompt-text").fill("Slowly.")
        page.locator("#prompt-text").press("Enter")
        expect(page.locator("#reply-text")).not_to_be_empty()
        expect(page.locator("#panel-2")).to_be_checked()
        page.locator("#panel-3").check()
        expect_idle_later(page)
        expect(page.locator("#panel-3")).to_be_checked()
        expect(page.locator("#prompt-text")).to_have_attribute(
            "placeholder", f"What happens in front of {name_of(page, 3)}?"
        )

    def test_a_look_at_the_prompt_opens_beside_it_and_leaves_the_words_to_be_sent(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        open_play(page, chapter)
        box = page.locator("#prompt-text")
        box.fill("The door opens.")
        with page.context.expect_page() as opened:
            # Not every browser moves the focus to a button that is clicked.
            page.get_by_role("button", name="What would it see?").evaluate("one => one.click()")
        expect(opened.value.locator(".as-sent").last).to_contain_text("The door opens.")
        expect(opened.value.get_by_role("link", name="Back to play")).to_be_visible()
        opened.value.close()
        expect(box).to_have_value("The door opens.")
        box.press("Enter")
        expect(page.locator("#transcript")).to_contain_text("1) The door opens.")
        expect(box).to_have_value("")
        expect_idle(page)


class TestTranscript:
    def test_a_copy_is_the_plain_text_of_the_download(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        chapter.prompt(1, "First.\n\n\n\n\n\nAfter blank lines.")
        for number in range(2, 9):
            chapter.prompt(number % 3 + 1, f"Beat <{number}> & more.")
        chapter.wait_for_memory(7, seconds=30)
        open_play(page, chapter)
        copied = page.evaluate(READ_SELECTION)
        saved = page.request.get(f"/chapters/{chapter.session_id}/downloads/transcript").text()
        assert copied.strip() == saved.strip()
        assert "\n\n-------------\n\n8) Beat <8> & more." in copied

    def test_only_a_reader_at_the_end_is_taken_along(
        self, page: Page, program: ScriptedProgram, chapter: ChapterClient
    ) -> None:
        for number in range(1, 7):
            chapter.prompt(1, f"Beat {number}. " + "The tide turns. " * 40)
        open_play(page, chapter)
        transcript = page.locator("#transcript")
        assert distance_from_end(page) < 5

        page.locator("#prompt-text").fill("Follow.")
        page.locator("#prompt-text").press("Enter")
        expect_idle(page)
        assert distance_from_end(page) < 5

        program.model.timing.tokens_per_second = READABLE
        page.locator("#panel-1").check()
        page.locator("#prompt-text").fill("Stay.")
        page.locator("#prompt-text").press("Enter")
        expect(page.locator("#reply-text")).not_to_be_empty()
        transcript.evaluate("element => { element.scrollTop = 40; }")
        expect_idle_later(page)
        assert transcript.evaluate("element => element.scrollTop") == 40

    def test_a_window_that_changes_leaves_the_reader_at_the_end(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        for number in range(1, 4):
            chapter.prompt(1, f"Beat {number}. " + "The tide turns. " * 40)
        open_play(page, chapter)
        for width, height in ((1280, 500), (390, 844), (390, 400), (1280, 900)):
            page.set_viewport_size({"width": width, "height": height})
            page.wait_for_function(AT_END)

        page.locator("#transcript").evaluate(SCROLL_UP)
        page.set_viewport_size({"width": 1280, "height": 600})
        assert distance_from_end(page) > 100


class TestPlayArea:
    @pytest.mark.parametrize(("width", "height"), [(1280, 900), (1366, 768), (390, 844)])
    def test_all_of_it_fits_into_the_window(
        self, page: Page, chapter: ChapterClient, width: int, height: int
    ) -> None:
        chapter.prompt(1, "Beat. " + "The tide turns. " * 200)
        page.set_viewport_size({"width": width, "height": height})
        open_play(page, chapter)
        expect(page.locator(".button-end")).to_be_in_viewport(ratio=1)
        page.locator("#prompt-text").fill("A line.\n" * 4)
        page.locator(".notices").evaluate("element => { element.textContent = 'A notice.'; }")
        expect(page.locator(".button-end")).to_be_in_viewport(ratio=1)
        assert page.evaluate("document.documentElement.scrollHeight") == height

    def test_in_a_window_that_is_too_small_the_page_scrolls(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        chapter.prompt(1, "Beat. " + "The tide turns. " * 200)
        page.set_viewport_size({"width": 390, "height": 400})
        open_play(page, chapter)
        assert page.locator("#transcript").evaluate("element => element.clientHeight") > 180
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        expect(page.locator("#prompt-text")).to_be_in_viewport(ratio=1)
        expect(page.locator(".button-end")).to_be_in_viewport(ratio=1)

    def test_panels_that_do_not_fit_fade_where_there_are_more(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        page.set_viewport_size({"width": 390, "height": 844})
        open_play(page, chapter)
        row = page.locator("#prompt-panels")
        expect(row).to_have_css("--fade-start", "0px")
        expect(row).to_have_css("--fade-end", "40px")
        page.locator("#panel-7").check()
        expect(row).to_have_css("--fade-start", "40px")
        expect(row).to_have_css("--fade-end", "0px")

    def test_a_wait_for_the_first_word_is_counted_for_the_eye_only(
        self, page: Page, program: ScriptedProgram, chapter: ChapterClient
    ) -> None:
        program.model.queue_faults("hang", agent=1)
        open_play(page, chapter)
        page.locator("#prompt-text").fill("Think about this.")
        page.locator("#prompt-text").press("Enter")
        waited = page.locator(".reply-wait .waited")
        expect(waited).to_have_text(re.compile(r"^\d+ s$"))
        expect(waited).to_have_attribute("aria-hidden", "true")
        page.get_by_role("button", name="Stop").click()
        expect(page.locator("#broken")).to_be_visible()
        expect(waited).to_have_count(0)


class TestMemory:
    def test_the_newest_block_is_seen_first_and_a_reader_stays(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        for number in range(1, 8):
            chapter.prompt(1, f"Beat {number}.")
        chapter.wait_for_memory(7, seconds=30)
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto(f"/chapters/{chapter.session_id}/chapter")
        expect(page.get_by_role("heading", name="Prompts 1-7")).to_be_in_viewport()
        expect(page.get_by_role("heading", name="World and chapter")).not_to_be_in_viewport()

        blocks = page.locator("#memory-blocks")
        blocks.evaluate("element => { element.scrollTop = 0; }")
        chapter.prompt(1, "Beat 8.")
        expect(page.locator("#meter")).to_contain_text("8 prompts", timeout=20_000)
        assert blocks.evaluate("element => element.scrollTop") == 0

    def test_the_panel_that_was_chosen_stays_where_it_was_when_memory_grows(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        rule = f"/api/session/{chapter.session_id}/canon-correction"
        for number in range(40):
            page.request.post(rule, data={"canon": f"Fact number {number}."})
        page.goto(f"/chapters/{chapter.session_id}/chapter")
        now, blocks = page.locator("#memory-now"), page.locator("#memory-blocks")
        expect(now).to_be_hidden()
        page.get_by_role("radio", name="Now").check()
        expect(blocks).to_be_hidden()
        now.evaluate("element => { element.scrollTop = 200; }")
        page.request.post(rule, data={"canon": "Ice bears weight."})
        expect(now).to_contain_text("Ice bears weight.", timeout=20_000)
        expect(now).to_be_visible()
        expect(blocks).to_be_hidden()
        assert now.evaluate("element => element.scrollTop") == 200

    def test_an_item_is_corrected_from_the_now_view(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        page.goto(f"/chapters/{chapter.session_id}/chapter?show=now")
        item = page.locator("#memory-now li").first
        old = item.locator(".now-text").inner_text()
        item.get_by_role("link", name="Correct").click()
        expect(page.locator("#canon-replaces")).to_have_value(old)
        page.locator("#canon-canon").fill("It is otherwise.")
        page.get_by_role("button", name="Correct the canon").click()
        expect(page.locator("#memory-now")).to_be_visible()
        expect(page.locator("#memory-now")).to_contain_text("It is otherwise.")


class TestEstimate:
    def test_it_follows_the_target_length(self, page: Page, chapter: ChapterClient) -> None:
        chapter.prompt(1, "The stairs are wet.")
        chapter.end(seconds=30)
        page.goto(f"/chapters/{chapter.session_id}/chapter")
        expect(page.locator("#build-estimate")).to_contain_text("4,000 out")
        for length, out in (("5000", "8,000 out"), ("1000", "1,600 out")):
            page.fill("#target-words", length)
            expect(page.locator("#build-estimate")).to_contain_text(out)


def expect_idle_later(page: Page) -> None:
    expect(page.locator("#running")).to_have_count(0, timeout=60_000)


def name_of(page: Page, slot: int) -> str:
    return page.locator(f"#panel-{slot}").get_attribute("data-name") or ""


def distance_from_end(page: Page) -> float:
    return cast(
        float,
        page.locator("#transcript").evaluate(
            "element => element.scrollHeight - element.scrollTop - element.clientHeight"
        ),
    )

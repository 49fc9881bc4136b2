"""Tests of the scripts of Tab 1 and of the colours of all tabs, in a real browser."""

import re
from typing import Any, cast

import pytest
from playwright.sync_api import Dialog, FloatRect, Locator, Page, Route, expect

from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import chapter as chapter
from storyengine.tabs.tests.in_browser import draft as draft
from storyengine.tabs.tests.in_browser import open_world
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tabs.tests.in_browser import program as program
from storyengine.tests.browsing import open_page
from storyengine.tests.running import ScriptedProgram
from testing.chapter_client import ChapterClient
from testing.http_calls import call
from testing.refusals import ANOTHER_WINDOW, IS_LOCKED

pytestmark = [pytest.mark.browser, pytest.mark.processes]

BLACK, WHITE = "rgb(0, 0, 0)", "rgb(255, 255, 255)"
RED, ORANGE, YELLOW = "rgb(255, 107, 99)", "rgb(255, 160, 77)", "rgb(255, 224, 102)"


COUNT_REQUESTS = """() => {
  window.requestsSent = 0;
  document.addEventListener("htmx:beforeRequest", () => { window.requestsSent += 1; });
}"""


def save_of(route: Route, chapter: ChapterClient) -> str:
    """Return the address to which the page saves Tab 1, but with the id of this chapter."""
    return re.sub(r"(?<=/chapters/)[^/]+", chapter.session_id, route.request.url)


def box_of(element: Locator) -> FloatRect:
    box = element.bounding_box()
    assert box is not None
    return box


def world_text(chapter: ChapterClient) -> str:
    return cast(str, chapter.read()["tab1"]["world_text"])


class TestTab1:
    def test_what_is_too_long_gets_in_is_counted_and_is_saved_once_the_surplus_is_gone(
        self, page: Page, draft: ChapterClient
    ) -> None:
        open_world(page, draft)
        world, count = page.locator("#world-text"), page.locator("output[for=world-text]")
        said, state = page.locator("#world-text + .refusal"), page.locator("#saved-state")
        fitting = "😀" * 4998 + "\né"
        world.fill(fitting)
        expect(count).to_have_text("5,000/5,000")
        expect(state).to_have_text("saved")
        world.press("Control+End")
        page.keyboard.insert_text("Und 😀 darüber.")
        expect(world).to_have_value(fitting + "Und 😀 darüber.")
        expect(count).to_have_text("5,014/5,000")
        expect(said).to_contain_text("14 characters too many: Und 😀 darüber.")
        expect(world).to_have_attribute("aria-invalid", "true")
        expect(world).to_have_accessible_description(re.compile("14 characters too many"))
        expect(state).to_have_text("not saved")
        assert world_text(draft) == fitting

        said.get_by_role("button", name="Select them").press("Enter")
        expect(world).to_be_focused()
        page.keyboard.press("Delete")
        expect(world).to_have_value(fitting)
        expect(said).to_be_empty()
        expect(world).not_to_have_attribute("aria-invalid", "true")
        expect(state).to_have_text("saved")

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
        expect(page.locator("#saved-state")).to_be_empty()
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
        expect(page.locator("#saved-state")).to_have_text("saved")
        assert world_text(draft) == "Through a bad line."

    def test_what_a_lock_elsewhere_refused_is_not_tried_again_and_keeps_nobody(
        self, page: Page, chapter: ChapterClient, draft: ChapterClient
    ) -> None:
        page.clock.install()
        open_world(page, draft)
        # The save is sent to another chapter, which is locked. The page behaves as if its own
        # chapter had been locked after it was opened.
        page.route("**/world/save", lambda route: route.continue_(url=save_of(route, chapter)))
        page.evaluate(COUNT_REQUESTS)
        page.locator("#world-text").fill("Too late.")
        expect(page.locator("#world-text + .refusal")).to_contain_text(IS_LOCKED)
        expect(page.locator("#saved-state")).to_have_text("not saved")
        page.clock.fast_forward(30_000)
        assert page.evaluate("window.requestsSent") == 1
        expect(page.locator("#world-text")).to_have_value("Too late.")
        asked: list[str] = []

        def leave(dialog: Dialog) -> None:
            asked.append(dialog.type)
            dialog.accept()

        page.on("dialog", leave)
        page.get_by_role("link", name="3 Chapter").click()
        page.wait_for_url("**/chapter")
        assert asked == ["beforeunload"]

    def test_a_lock_that_is_refused_says_so_over_its_buttons(
        self, page: Page, draft: ChapterClient
    ) -> None:
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 844})
            open_world(page, draft)
            # The page has a text, as after a change in another window, and the program has none.
            page.locator("#world-text").evaluate("one => { one.value = 'A harbour town.'; }")
            page.get_by_role("link", name="Start chapter").click()
            dialog = page.locator("#lock-dialog")
            dialog.get_by_role("button", name="Lock and play").click()
            refusal = dialog.locator(".message-error")
            expect(refusal).to_contain_text("both empty")
            said = box_of(refusal)
            cancel, lock = (
                box_of(dialog.get_by_role("button", name=name)) for name in ("Not yet", "Lock")
            )
            assert said["y"] + said["height"] <= min(cancel["y"], lock["y"])
            assert cancel["y"] == pytest.approx(lock["y"], abs=1)

    @pytest.mark.parametrize("leaves_by", ["the dialog", "a link"])
    def test_what_keeps_the_chapter_from_starting_is_brought_into_view(
        self, page: Page, draft: ChapterClient, leaves_by: str
    ) -> None:
        page.set_viewport_size({"width": 390, "height": 600})
        open_world(page, draft)
        page.get_by_role("radio", name="2 Agent Orange").check()
        name = page.locator("#name-2")
        name.fill("GM")
        page.get_by_role("radio", name="1 Agent Red").check()
        page.locator("#world-text").fill("A harbour town.")
        if leaves_by == "a link":
            page.get_by_role("link", name="3 Chapter").click()
        else:
            page.get_by_role("link", name="Start chapter").click()
            page.locator("#lock-dialog").get_by_role("button", name="Lock and play").click()
        expect(page.locator("#lock-dialog")).to_be_hidden()
        expect(name).to_be_focused()
        expect(name).to_be_in_viewport()
        why = page.locator("#panel-2 .panel-head + .refusal")
        expect(why).to_contain_text("“GM” cannot be the name of agent 2")
        expect(why).to_be_in_viewport()
        expect(name).to_have_value("GM")

        name.fill("Tom")
        page.get_by_role("link", name="Start chapter").click()
        page.locator("#lock-dialog").get_by_role("button", name="Lock and play").click()
        page.wait_for_url("**/play")

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


class TestLockedTab1:
    def test_the_text_under_the_veil_can_be_selected_and_copied(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        open_world(page, chapter)
        world = page.locator("#world-text")
        veil = "field => getComputedStyle(field.closest('.cell'), '::after').backgroundColor"
        assert world.evaluate(veil) == "rgba(128, 132, 140, 0.38)"
        box = world.bounding_box()
        assert box is not None
        # A half-transparent layer lies over the locked text. The user must still be able to select
        # the text with the mouse.
        page.mouse.move(box["x"] + 1, box["y"] + 10)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] - 6, box["y"] + 40, steps=5)
        page.mouse.up()
        page.keyboard.press("Control+C")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert len(copied) > 40
        assert world_text(chapter).startswith(copied)


def line_of(page: Page, chapter: ChapterClient) -> Locator:
    """Return the chapter's line on the home page."""
    link = page.locator(f"a[href*='{chapter.session_id}']")
    return page.locator(".chapter-line").filter(has=link)


class TestLibrary:
    def test_on_a_narrow_screen_the_title_field_fits(
        self, page: Page, draft: ChapterClient
    ) -> None:
        page.set_viewport_size({"width": 390, "height": 844})
        page.goto("/")
        line_of(page, draft).locator(".more summary").click()
        expect(page.get_by_label("Title of the chapter").first).to_be_in_viewport(ratio=1)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0

    def test_what_is_deleted_can_be_brought_back_at_once(
        self, page: Page, draft: ChapterClient
    ) -> None:
        page.goto("/")
        line = line_of(page, draft)
        line.locator(".more summary").click()
        line.get_by_role("button", name="Delete").click()
        expect(line).to_be_hidden()
        page.get_by_role("status").get_by_role("button", name="Bring back").click()
        expect(line).to_be_visible()

    def test_a_new_title_can_be_given_up(self, page: Page, draft: ChapterClient) -> None:
        page.goto("/")
        line = line_of(page, draft)
        more, title = line.locator(".more summary"), line.get_by_label("Title of the chapter")
        more.click()
        before = title.input_value()
        title.fill("Another title")
        page.keyboard.press("Escape")
        expect(title).to_be_hidden()
        expect(title).to_have_value(before)
        expect(more).to_be_focused()


@pytest.fixture
def windows(page: Page, draft: ChapterClient) -> tuple[Page, Page]:
    """Return two windows that show Tab 1 of the same chapter."""
    second = open_page(page.context)
    for window in (page, second):
        open_world(window, draft)
    return page, second


def expect_saved(*windows: Page) -> None:
    for window in windows:
        expect(window.locator("#saved-state")).to_have_text("saved")


def tab1(chapter: ChapterClient) -> dict[str, Any]:
    return cast(dict[str, Any], chapter.read()["tab1"])


class TestTwoWindows:
    """Tests of Tab 1 in two open windows, while a program also changes the texts of Tab 1."""

    def test_no_window_takes_back_what_it_has_not_seen(
        self, windows: tuple[Page, Page], draft: ChapterClient, program: ScriptedProgram
    ) -> None:
        first, second = windows
        first.locator("#world-text").fill("The first window's world.")
        second.locator("#chapter-text").fill("The second window's chapter.")
        expect_saved(first, second)
        setup = {"agent_names": {"2": "Kara"}, "agent_identity_text_by_slot": {"2": "A priest."}}
        answer = call(program.server, "PUT", f"/api/session/{draft.session_id}/tab1", setup)
        assert answer.status == 200
        # Neither window shows what the other window and the program have saved.
        first.locator("#identity-1").fill("A ferrywoman.")
        second.locator("#name-1").fill("Mara")
        second.locator("#agent-count").select_option("5")
        expect_saved(first, second)

        saved = tab1(draft)
        assert saved["world_text"] == "The first window's world."
        assert saved["chapter_text"] == "The second window's chapter."
        identities = saved["agent_identity_text_by_slot"]
        assert (identities["1"], identities["2"]) == ("A ferrywoman.", "A priest.")
        chapter = draft.read()
        assert (chapter["agent_names"]["1"], chapter["agent_names"]["2"]) == ("Mara", "Kara")
        assert chapter["selected_agent_slots"] == [1, 2, 3, 4, 5]

    def test_the_later_one_is_told_before_it_overwrites(
        self, windows: tuple[Page, Page], draft: ChapterClient
    ) -> None:
        first, second = windows
        first.locator("#world-text").fill("Written first.")
        expect_saved(first)
        box = second.locator("#world-text")
        box.fill("Written last.")
        told = second.locator("#world-text + .refusal")
        expect(told).to_contain_text(ANOTHER_WINDOW)
        expect(told.locator(".other-words")).to_have_text("Written first.")
        expect(second.locator("#saved-state")).to_have_text("not saved")
        assert tab1(draft)["world_text"] == "Written first."
        # Whoever types on is told again, and nothing is lost.
        box.press_sequentially(" And on.")
        expect(box).to_have_value("Written last. And on.")
        expect(told).to_contain_text(ANOTHER_WINDOW)
        assert tab1(draft)["world_text"] == "Written first."

        told.get_by_role("button", name="Save mine").click()
        expect_saved(second)
        expect(told).to_be_empty()
        assert tab1(draft)["world_text"] == "Written last. And on."
        # The window goes on as the one that wrote last.
        box.fill("Written at last.")
        expect_saved(second)
        assert tab1(draft)["world_text"] == "Written at last."

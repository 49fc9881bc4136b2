"""Tests in a real browser that no page runs a hostile text as a script.

Hundreds of hostile texts are put everywhere where the program takes a text. The pages are tried
with the header of the Content-Security-Policy and without it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from sessions.limits import AGENT_NAME_CHAR_LIMIT, TITLE_CHAR_LIMIT
from storyengine.tests.browsing import browser as browser
from storyengine.tests.browsing import open_page
from storyengine.tests.running import ScriptedProgram, run_scripted_program
from storyengine.tests.url_map import addresses
from storyengine.tests.xss_corpus import (
    HostileReplies,
    awkward_pieces,
    bundles,
    read_payloads,
    typed,
    with_payloads,
)
from testing import served_call
from testing.chapter_client import ChapterClient
from testing.http_calls import Server, call
from testing.session_data import Setup

pytestmark = [pytest.mark.browser, pytest.mark.processes]

POLICY = "content-security-policy"
RECORDS = [
    *(f"story_sessions/{kind}" for kind in ("event", "tab1inputs", "turn")),
    *("memory/memoryblock", "agents/llmartifact"),
]
# The script returns the elements and attributes that only a hostile text can have added.
FOREIGN_PARTS = """() => {
  if (document.contentType !== "text/html") return [];  // A browser's own view of plain text.
  const tags = "style,base,iframe,frame,object,embed,math,marquee,video,audio,track,applet,"
    + "script:not([src]),meta[http-equiv],animate,set,foreignObject,template";
  const found = [...document.querySelectorAll(tags)]
    .filter((one) => !(one.tagName === "SCRIPT" && one.type === "application/json"));
  for (const element of document.querySelectorAll("*")) {
    for (const { name, value } of element.attributes) {
      const isCode = /^on|^hx-on|^data-hx|^srcdoc$|^ping$|^v-|^x-|^ng-|^style$/i.test(name);
      const isAddress = /^(href|src|action|formaction|xlink:href|data|srcset|poster)$/i.test(name)
        || /^hx-(get|post|put|patch|delete|sse)/.test(name);
      if (isCode || (isAddress && new URL(value, location).origin !== location.origin)) {
        found.push(element);
      }
    }
  }
  return found.map((element) => element.outerHTML.slice(0, 200));
}"""


@dataclass
class Watch:
    """A record of all signs that a hostile text had an effect in the browser: scripts that ran,
    dialogs, refused requests, requests to other sites, errors, and foreign parts of a page."""

    origin: str
    has_policy: bool
    executed: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)

    @property
    def everything(self) -> list[str]:
        return [
            *self.executed,
            *self.dialogs,
            *self.refused,
            *self.foreign,
            *self.broken,
            *self.parts,
        ]

    def over(self, context: BrowserContext) -> Page:
        def run(source: dict[str, Any], *arguments: object) -> None:
            self.executed.append(f"{source['page'].url}: {arguments}")

        def see_request(request: Any) -> None:
            parts = urlsplit(request.url)
            if parts.scheme in ("http", "https", "ws") and parts.netloc != self.origin:
                self.foreign.append(request.url)

        context.expose_binding("__xss", run)
        context.on("request", see_request)
        page = open_page(context)
        page.on("dialog", self._dismiss)
        page.on("pageerror", lambda error: self.broken.append(f"{page.url}: {error}"))
        page.on("console", lambda said: self._listen(said.text))
        return page

    def _dismiss(self, dialog: Any) -> None:
        # A dialog of this kind asks whether to leave a page with unsaved words. Only the program's
        # own script can cause such a dialog, so it is no sign of a hostile text.
        if dialog.type != "beforeunload":
            self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _listen(self, said: str) -> None:
        if "Content Security Policy" in said:
            self.refused.append(said)

    def visit(self, page: Page, address: str) -> None:
        answer = page.goto(address, wait_until="domcontentloaded")
        assert answer is not None
        assert (POLICY in answer.headers) is self.has_policy, address
        self.parts += [f"{address}: {one}" for one in page.evaluate(FOREIGN_PARTS)]


def strip_policy(route: Route) -> None:
    if route.request.resource_type != "document":
        route.continue_()
        return
    response = route.fetch()
    kept = {name: value for name, value in response.headers.items() if name.lower() != POLICY}
    route.fulfill(response=response, headers=kept)


@dataclass(frozen=True)
class HostileProgram:
    program: ScriptedProgram
    replies: HostileReplies
    chapter: ChapterClient
    imported_id: str
    payloads: list[str]


@pytest.fixture(scope="module")
def hostile(browser: Browser) -> Iterator[HostileProgram]:
    payloads = read_payloads()
    replies = HostileReplies(payloads)

    def cut(own: Any, text: str) -> None:
        # Only the replies of characters are streamed to a page, so only these are cut into pieces.
        own.words = awkward_pieces(text) if 1 <= own.agent <= 7 else [text]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(served_call.ServedCall, "take_words", cut)
        with run_scripted_program(tokens_per_second=50_000) as program:
            patch.setattr(program.model, "replies", replies)
            _fill_library(program.server, payloads)
            chapter = _played(program.server, payloads)
            imported = _imported(program.server, payloads, chapter.session_id)
            yield HostileProgram(program, replies, chapter, imported, payloads)


def _fill_library(server: Server, payloads: list[str]) -> None:
    """Make chapters until each payload that is short enough has been the name of a character. Each
    chapter has up to seven names, and payloads in its title."""
    texts = [" ".join(typed(one).split()) for one in payloads]
    names = [one for one in texts if len(one) <= AGENT_NAME_CHAR_LIMIT]
    titles = bundles(texts, TITLE_CHAR_LIMIT)
    for at in range(0, len(names), 7):
        cast = names[at : at + 7]
        made = call(server, "POST", "/api/session", {"title": titles.pop()})
        body = {
            "agent_names": {str(slot): name for slot, name in enumerate(cast, 1)},
            "selected_agent_slots": list(range(1, len(cast) + 1)),
        }
        path = f"/api/session/{made.json()['session_id']}/tab1"
        assert call(server, "PUT", path, body).status == 200, cast


def _imported(server: Server, payloads: list[str], source: str) -> str:
    """Import the chapter's file with payloads in place of all texts, and with a draft and a failed
    reply.

    Return the id of the new chapter.
    """
    file = call(server, "GET", f"/api/session/{source}/export").json()
    chapter = file["chapter"]
    begun = chapter["created_at"]
    chapter["narrative_drafts"] = [
        {
            "narrative_agent_definition_text": "",
            "target_words": 500,
            "source_snapshot": {"max_prompt_index_used": 7, "memory_blocks_used": [0, 1]},
            "chapter_text": "",
            "created_at": begun,
            "attempt": chapter["turns"][6]["chosen"],
        }
    ]
    chapter["unanswered_attempts"] = [
        {
            **{"kind": "prompt", "status": "failed", "actor": 1, "turn": None, "witnesses": None},
            **{"words": "", "partial_text": "", "error": "", "submitted_at": begun},
        }
    ]
    made = call(server, "POST", "/api/session/import", with_payloads(file, payloads))
    assert made.status == 201, made.body[:500]
    return str(made.json()["session_id"])


def _setup(payloads: list[str]) -> Setup:
    texts = [typed(one) for one in payloads]
    bundled = [*bundles(texts, 4_900), "x", "x", "x"]
    names = [" ".join(one.split()) for one in texts if len(one) <= AGENT_NAME_CHAR_LIMIT]
    return Setup(
        world_text=bundled[0],
        chapter_text=bundled[1],
        identities={str(slot): text for slot, text in enumerate(bundled[2:9], 1)},
        names={str(slot): names[slot * 11] for slot in range(1, 8)},
    )


def _played(server: Server, payloads: list[str]) -> ChapterClient:
    """Return a chapter. All payloads are in its beats and in its memory, and its replies consist of
    payloads."""
    chapter = ChapterClient(server)
    path = f"/api/session/{chapter.session_id}"
    title = typed(payloads[0])
    assert call(server, "PATCH", path, {"title": title}).status == 200
    chapter.save_setup(_setup(payloads))
    chapter.lock(seconds=60)
    beats = bundles([typed(one) for one in payloads], 2_900)
    for number, beat in enumerate([*beats, *["Go on."] * 7][: max(7, len(beats))]):
        chapter.prompt(number % 7 + 1, beat)
    chapter.wait_for_memory(7, seconds=60)
    return chapter


def _stream_in(page: Page, watch: Watch, hostile: HostileProgram) -> None:
    """Let the browser show a streamed reply that contains all payloads."""
    watch.visit(page, f"/chapters/{hostile.chapter.session_id}/play")
    assert watch.everything == []
    hostile.program.model.timing.tokens_per_second = 1_000
    page.locator("#prompt-text").fill(typed(hostile.payloads[1]))
    page.locator("#prompt-form [data-send]").click()
    # When the reply is complete, the page announces it to screen readers.
    expect(page.locator("#announcement")).to_contain_text("__xss(", timeout=180_000)
    expect(page.locator("#running")).to_have_count(0)
    watch.parts += page.evaluate(FOREIGN_PARTS)


def _pages(context: BrowserContext, hostile: HostileProgram) -> list[str]:
    """Return the address of every page of the two chapters, the played one and the imported one."""
    server, played = hostile.program.server, hostile.chapter.session_id
    known = _known(server, played)
    imported = _known(server, hostile.imported_id)
    assert {"item", "key"} <= set(known)
    assert {"draft_id", "item"} <= set(imported)
    base = f"/chapters/{hostile.imported_id}"
    shown = [
        *(
            one
            for one in addresses(known)
            if not re.search(r"/admin/|/stream$|/logout$|/docs", one)
        ),
        f"/chapters/{played}/canon?item={known['item']}",
        f"/chapters/{played}/calls/prompts/1/try?layer=4",
        *(f"{base}/{tab}" for tab in ("play", "transcript", "world", "chapter", "delete/confirm")),
        f"{base}/canon?item={imported['item']}",
        f"{base}/chapter?draft=1&paragraph=1&prompt=1",
        f"{base}/drafts/{imported['draft_id']}/scenes/1",
        *_with_payloads_in_the_address(hostile.payloads, played),
    ]
    return [one for one in shown if _is_page(context, one)]


def _known(server: Server, chapter: str) -> dict[str, str]:
    """Return values for the parameters of addresses. They are taken from the links on Tab 3."""
    html = call(server, "GET", f"/chapters/{chapter}/chapter").body.decode()
    places = {
        "key": r"/questions/([\w-]+)",
        "draft_id": r"/downloads/drafts/([\w-]+)",
        "item": r"item=(\w+)",
    }
    found = {name: re.search(place, html) for name, place in places.items()}
    return {"session_id": chapter} | {name: one[1] for name, one in found.items() if one}


def _is_page(context: BrowserContext, address: str) -> bool:
    """Return whether the address leads to a page. If it does not, check that no browser will treat
    the answer as a page."""
    answer = context.request.get(address)
    kind = answer.headers.get("content-type", "").partition(";")[0]
    if kind == "text/html":
        # An address that only takes forms answers a GET request with an empty HTML body.
        return bool(answer.body())
    assert answer.headers["x-content-type-options"] == "nosniff", address
    assert kind in ("", "text/plain") or kind.endswith("json"), address
    return False


def _with_payloads_in_the_address(payloads: list[str], chapter: str) -> list[str]:
    """Return addresses with payloads as parameters. The answers repeat the parameters on the page,
    in a message or in a field."""
    text = quote("\n".join(bundles(payloads, 6_000)[0].split("\x00")))
    return [
        f"/login?next={text}",
        f"/no/such/page/{text}",
        f"/chapters/{chapter}/canon?item={text}",
        f"/chapters/{chapter}/chapter?draft={text}",
        f"/chapters/{chapter}/calls/prompts/1?call={text}",
        f"/consent/?chapter={text}",
        f"/api/session?limit={text}",
        f"/admin/story_sessions/event/?q={text}",
    ]


def _visit_records(page: Page, watch: Watch) -> int:
    """Visit the admin's list of each kind of record that has texts, and the newest record in it.
    Return the number of records visited."""
    records = 0
    for kind in RECORDS:
        watch.visit(page, f"/admin/{kind}/")
        record = page.locator("#result_list tbody th a").first
        if record.count():
            watch.visit(page, str(record.get_attribute("href")))
            records += 1
    return records


def test_there_are_three_hundred_of_them() -> None:
    payloads = read_payloads()
    assert len(set(payloads)) == len(payloads) >= 300


@pytest.mark.parametrize("has_policy", [True, False], ids=["with the policy", "without it"])
def test_the_watch_sees_what_runs(browser: Browser, has_policy: bool) -> None:
    """Check the detector itself. A page that contains the hostile texts unescaped must make it
    report a script that ran or was refused."""
    raw = [one for one in read_payloads() if re.match(r"<(img|svg)[ /]\S* ?on|<img src=x", one)]
    watch = Watch("page.example", has_policy)
    context = browser.new_context(base_url="http://page.example")
    headers = {POLICY: "default-src 'self'"} if has_policy else {}

    def answer(route: Route) -> None:
        body = "<!doctype html>" + "\n".join(raw) if route.request.url.endswith("/raw") else ""
        route.fulfill(content_type="text/html", body=body, headers=headers)

    context.route("**/*", answer)
    page = watch.over(context)
    page.goto("/raw")
    page.wait_for_function("document.readyState === 'complete'")
    watch.parts += page.evaluate(FOREIGN_PARTS)
    context.close()
    assert len(raw) > 15
    assert len(watch.parts) > 15
    if has_policy:
        assert len(watch.refused) > 10
        assert watch.executed == []
    else:
        assert len(watch.executed) > 10


def test_none_runs_anywhere(browser: Browser, hostile: HostileProgram) -> None:
    watches = {}
    contexts = {}
    origin = urlsplit(hostile.program.url).netloc
    hostile.replies.say_everything()
    for name in ("with the policy", "without it"):
        context = contexts[name] = browser.new_context(base_url=hostile.program.url)
        if name == "without it":
            context.route("**/*", strip_policy)
        watch = watches[name] = Watch(origin, has_policy=name == "with the policy")
        page = watch.over(context)
        _stream_in(page, watch, hostile)
    pages = _pages(contexts["with the policy"], hostile)
    assert len(pages) > 30
    for name, context in contexts.items():
        for address in pages:
            watches[name].visit(context.pages[0], address)
        if name == "without it":
            assert _visit_records(context.pages[0], watches[name]) == len(RECORDS)
        context.close()
    assert [found for watch in watches.values() for found in watch.everything] == []

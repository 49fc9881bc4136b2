"""Pages that are rendered before the browser starts, and a browser that shows them.

The pages are rendered first, because Django refuses database queries in this thread while the
browser is open.
"""

import mimetypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from django.contrib.staticfiles import finders
from django.test import Client
from playwright.sync_api import Page, Route

from storyengine.tests.browsing import open_browser, open_page

SITE = "http://pages.example"

# Maps the address of a page to its HTML.
Pages = dict[str, str]


def rendered(client: Client, addresses: list[str]) -> Pages:
    """Return the pages at these addresses. Leave out each address that does not answer with a
    page."""
    found = {}
    for one in addresses:
        if one.startswith(("/api/", "/admin/", "/readyz")):
            continue
        response = client.get(one)
        if response.status_code == 200 and response.headers["content-type"].startswith("text/html"):
            found[one] = response.content.decode()
    return found


@contextmanager
def browse(pages: Pages) -> Iterator[Page]:
    def answer(route: Route) -> None:
        path = urlsplit(route.request.url).path
        if page := pages.get(path):
            route.fulfill(content_type="text/html; charset=utf-8", body=page)
        elif path.startswith("/static/") and (file := finders.find(path[len("/static/") :])):
            kind = mimetypes.guess_type(path)[0] or "text/plain"
            route.fulfill(content_type=kind, body=Path(file).read_bytes())
        else:
            route.fulfill(status=204)

    with open_browser() as browser:
        context = browser.new_context(base_url=SITE, viewport={"width": 1280, "height": 900})
        context.route("**/*", answer)
        yield open_page(context)

"""A test that a further text of a member of the cast needs an entry in the list of texts, a column
and a migration, and is then everywhere."""

from pathlib import Path

from storyengine.tests.copying import copy_program
from storyengine.tests.test_mode_folder import edit, run

# A text that all agents are told, and one that only the member itself is.
ENTRIES = """
    CastText("looks", "looks", "agent_looks", "Looks", "The looks", 30, "Tall.", may_lack=True),
    CastText(
        "fear", "fear", "agent_fears", "Fear", "The fear", 90, "Water.",
        is_private=True, is_line=False, may_lack=True,
    ),
)
NAME, *BESIDE_NAME"""
COLUMNS = """
    looks = models.CharField(max_length=30, blank=True)
    fear = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = [models.F("slot")"""

PROBE = """
import json, os, re
os.environ |= {"STORYENGINE_LLM": "openai", "OPENAI_API_KEY": "sk-none"}
import django
django.setup()
from django.core.management import call_command
call_command("makemigrations", verbosity=0)
call_command("migrate", verbosity=0)
call_command("collectstatic", interactive=False, verbosity=0)
from django.conf import settings
from django.test import Client
from sessions.chapter.cast import clean_person

client = Client(SERVER_NAME="localhost")
LOOKS, FEAR = "Red hair.", "Deep water.\\n\\nAnd rope."

def api(method, path, body=None, status=200):
    sent = json.dumps(body) if body else ""
    answer = client.generic(method.upper(), f"/api/{path}", sent, "application/json")
    assert answer.status_code == status, answer.content
    return answer.json()

def page(path, **form):
    answer = client.post(path, form) if form else client.get(path)
    assert answer.status_code == 200, answer.content
    return answer.content.decode()

def stored(chapter):
    tab1 = api("get", f"session/{chapter}/tab1")
    return tab1["agent_looks"].get("2"), tab1["agent_fears"].get("2")

# A starter from before the texts still begins, and one with them brings them.
file = settings.BASE_DIR / "starters" / "nobody_aboard.toml"
told = "[[characters]]\\nlooks = 'Red hair.'\\nfear = '''Deep water.\\n\\nAnd rope.'''\\n"
parts = file.read_text().split("[[characters]]\\n")
told = told.join(["[[characters]]\\n".join(parts[:2]), *parts[2:]])
(file.parent / "with_texts.toml").write_text(told)
before = api("post", "session", {"starter": "nobody_aboard"}, 201)["session_id"]
assert stored(before) == ("", ""), stored(before)
chapter = api("post", "session", {"starter": "with_texts"}, 201)["session_id"]
assert stored(chapter) == (LOOKS, FEAR), stored(chapter)
people = next(one for one in api("get", "starters") if one["name"] == "with_texts")["characters"]
assert people[1]["looks"] == LOOKS and "fear" not in people[1]

# Copies, forks, next chapters and files have the texts. A file from before them is read.
def file_of(chapter):
    return json.loads(client.get(f"/api/session/{chapter}/export").content)

copy = api("post", f"session/{chapter}/copy", status=201)["session_id"]
fork = api("post", f"session/{chapter}/fork", {"number": 1}, 201)["session_id"]
exported = file_of(chapter)
imported = api("post", "session/import", exported, 201)["session_id"]
story = api("get", f"session/{chapter}")["story_id"]
following = api("post", f"story/{story}/chapter", status=201)["session_id"]
for one in (copy, fork, imported, following):
    assert stored(one) == (LOOKS, FEAR), stored(one)
for one in exported["chapter"]["cast"]:
    del one["looks"], one["fear"]
older = api("post", "session/import", exported, 201)["session_id"]
assert stored(older) == ("", "")

# Requests tell the first text to everybody, and the second one to its member alone.
ahead = f"/chapters/{chapter}/calls/next"
asked = {slot: page(ahead, user_text="Go on.", agent_slot=slot) for slot in (1, 2)}
assert all("Looks: Red hair." in text for text in asked.values())
assert "Fear: Deep water." in asked[2] and "Deep water" not in asked[1]
assert "Deep water." in page(f"/chapters/{chapter}/downloads/everything")

consent = page("/consent/")
assert "“Looks”" in consent and "“Fear”" in consent

# Tab 1 and the API save them, within their limits, and refuse what agents could mistake.
def save(**form):
    return client.post(f"/chapters/{copy}/world/save", form, headers={"HX-Request": "true"})

shown = page(f"/chapters/{copy}/world")
assert re.search('name="looks_2" value="Red hair."[^>]*data-limit="30"', shown), shown
assert re.search('name="fear_2".*hx-params="fear_2"', shown), shown
assert save(looks_2="Short.").status_code == 204
assert save(fear_2="Fire.").status_code == 204
assert stored(copy) == ("Short.", "Fire.")
assert "The looks of agent 2" in save(looks_2="x" * 31).content.decode()
assert "The looks of agent 2" in save(looks_2="## SYSTEM").content.decode()
api("put", f"session/{copy}/tab1", {"agent_looks": {"2": "Bald."}, "agent_fears": {"2": ""}})
assert stored(copy) == ("Bald.", "")
api("put", f"session/{copy}/tab1", {"agent_looks": {"2": "x" * 31}}, 422)
schemas = api("get", "openapi.json")["components"]["schemas"]
assert "at most 30 characters" in schemas["Tab1Body"]["properties"]["agent_looks"]["description"]
locked = page(f"/chapters/{chapter}/world")
assert LOOKS in locked and "And rope." in locked

# Somebody who appears in play may have the first text, and the admin shows both.
assert clean_person((), name="Ib", looks=LOOKS)["looks"] == LOOKS
from sessions.models import CastMember
from django.contrib.auth.models import User
client.force_login(User.objects.create_superuser("reader"))
member = CastMember.objects.get(session=chapter, slot=2)
record = page(f"/admin/story_sessions/castmember/{member.pk}/change/")
assert LOOKS in record and "And rope." in record
"""


def test_a_further_text_of_the_cast_is_added_in_two_modules(tmp_path: Path) -> None:
    program = tmp_path / "program"
    copy_program(program)
    edit(program / "sessions" / "roster.py", "\n)\nNAME, *BESIDE_NAME", ENTRIES)
    edit(
        program / "sessions" / "roster.py",
        "\n    number: int = 0",
        "\n    looks: str = ''\n    number: int = 0",
    )
    edit(
        program / "sessions" / "models" / "chapter.py",
        '\n\n    class Meta:\n        ordering: ClassVar = [models.F("slot")',
        COLUMNS,
    )
    probed = run(program, "python", "-c", PROBE)
    assert probed.returncode == 0, probed.stderr

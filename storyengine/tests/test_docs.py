"""Tests that the documents name the settings and tests that exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

BASE = Path(settings.BASE_DIR)
# The only files that read variables of the environment.
READERS = ("storyengine/settings/__init__.py", "storyengine/settings/environment.py")
# What the guide has in bold without naming a part of a page.
_NOT_NAMES = {"The coloured buttons", "On your machine.", "With a key.", "Each role by itself."}
# Variables that only compose reads, not the program.
NOT_READ_HERE = {"POSTGRES_PASSWORD", "PUBLISH_ON", "COMPOSE_PROJECT_NAME"}


def names_read_by_the_program() -> set[str]:
    source = "".join((BASE / name).read_text(encoding="utf-8") for name in READERS)
    names = set(re.findall(r'read_\w+\(\s*"([A-Z][A-Z_0-9]+)"', source))
    # The names STORYENGINE_MODEL_AGENT_0 to _9 are not in the source. The program makes them from
    # this prefix and the agent's number. The names of keys end in the name of a server.
    prefixes = {"STORYENGINE_MODEL_", "STORYENGINE_KEY_"}
    return names - prefixes | {"STORYENGINE_MODEL_AGENT_0", "STORYENGINE_KEY_OPENROUTER"}


def read(name: str) -> str:
    return (BASE / name).read_text(encoding="utf-8")


def names_in_rows(text: str) -> set[str]:
    """Return the variables in the first cells of the rows of all tables."""
    return {
        name
        for row in re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
        for name in re.findall(r"`([A-Z_0-9]+)`", row)
    }


def test_each_term_is_explained_once() -> None:
    terms = re.findall(r"^\| \*\*(.+?)\*\*", read("docs/terms.md"), re.MULTILINE)
    assert len(terms) > 50
    assert sorted(terms) == sorted(set(terms))


def test_every_variable_is_documented() -> None:
    documented = names_in_rows(read("docs/settings.md"))
    assert documented - {"STORYENGINE_MODEL_AGENT_9"} == names_read_by_the_program()


def test_every_variable_has_its_row_in_the_table_of_environments() -> None:
    text = read("docs/deployment.md")
    table = text[text.index("| variable | local") : text.index("## A server")]
    expected = names_read_by_the_program() | NOT_READ_HERE | {"STORYENGINE_MODEL_AGENT_9"}
    assert names_in_rows(table) == expected


def test_nothing_else_asks_the_environment() -> None:
    asking = re.compile(r"getenv|environ\.get\(|environ\[|read_(?:text|bool|int)\(\s*[\"']")
    sources = [
        path
        for package in ("agents", *settings.MODES, "memory", "sessions", "storyengine")
        for path in (BASE / package).rglob("*.py")
        if "tests" not in path.parts
    ]
    found = {
        str(path.relative_to(BASE))
        for path in sources
        if asking.search(path.read_text(encoding="utf-8"))
    }
    assert found == set(READERS)


def test_the_environment_that_is_recommended_leaves_nothing_to_say(tmp_path: Path) -> None:
    """The environment that docs/deployment.md recommends causes no warning at the start."""
    (heredoc,) = re.findall(
        r"^cat > \.env <<EOF\n(.*?)^EOF$", read("docs/deployment.md"), re.M | re.S
    )
    written = subprocess.run(  # noqa: S603
        ["sh", "-c", f"cat <<EOF\n{heredoc}EOF\n"],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    variables = dict(line.split("=", 1) for line in written.splitlines())
    assert all(variables.values())
    kept = {name: one for name, one in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    # These are the variables that compose.yaml adds. The broker is a folder, because the test has
    # no Redis.
    added = {"STORYENGINE_LLM": "openai", "STORYENGINE_DATA": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=BASE,
        env=kept | added | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "WARNINGS" not in run.stderr


def test_what_the_readme_names_for_play_is_on_the_pages() -> None:
    play = read("README.md").partition("**2 Play.**")[2].partition("**3 Chapter.**")[0]
    named = re.findall(r"\*\*(.+?)\*\*", play)
    files = [*BASE.glob("templates/**/*.html"), *BASE.glob("static/css/*.css")]
    pages = "".join(path.read_text(encoding="utf-8") for path in files).lower()
    assert len(named) == 11
    assert [one for one in named if one.lower() not in pages] == []


class TestPictures:
    """The pictures that README.md and docs/ show. `make pictures` takes them."""

    folder = BASE / "docs" / "images"
    documents = (BASE / "README.md", *sorted((BASE / "docs").glob("*.md")))

    def named(self) -> list[Path]:
        """Return the file of each picture that a document shows."""
        shown = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")
        return [
            (document.parent / place).resolve()
            for document in self.documents
            for alt, place in shown.findall(document.read_text(encoding="utf-8"))
            if alt.strip()
        ]

    def test_all_that_are_shown_are_there_and_all_that_are_there_are_shown(self) -> None:
        there = {path.resolve() for path in self.folder.iterdir()}
        assert set(self.named()) == there
        assert len(there) > 10

    def test_the_command_takes_all_of_them(self) -> None:
        source = (BASE / "testing" / "pictures.py").read_text(encoding="utf-8")
        taken = set(re.findall(r'_picture\(page, "([\w-]+)"', source))
        assert taken == {path.stem for path in self.folder.iterdir()}

    def test_they_are_small(self) -> None:
        assert sum(path.stat().st_size for path in self.folder.iterdir()) < 1_500_000


def test_the_guide_has_all_its_chapters_and_leads_to_pages_that_exist() -> None:
    text = read("docs/guide.md")
    places = [heading.lower() for heading in re.findall(r"^## (.+)$", text, re.MULTILINE)]
    anchors = {re.sub(r"[^\w -]", "", one).replace(" ", "-") for one in places}
    assert {link.removeprefix("#") for link in re.findall(r"\]\((#[\w-]+)\)", text)} <= anchors
    files = re.findall(r"\]\(([\w./-]+\.md)", text)
    assert files
    assert all((BASE / "docs" / one).exists() for one in files)


def test_what_the_guide_names_in_bold_is_on_the_pages() -> None:
    sources = [
        *(path for path in BASE.glob("templates/**/*.html")),
        *(
            path
            for folder in ("static/css", "storyengine/tabs", "storyengine/books", "memory")
            for path in (BASE / folder).rglob("*.*")
            if path.suffix in (".py", ".css")
        ),
        BASE / "sessions" / "reply_lengths.py",
        *(BASE / mode / "mode.py" for mode in settings.MODES),
    ]
    pages = " ".join(path.read_text(encoding="utf-8") for path in sources).lower()
    pages = re.sub(r"<[^>]+>", "", pages)
    named = set(re.findall(r"\*\*([^*]+)\*\*", read("docs/guide.md"))) - _NOT_NAMES
    assert [one for one in sorted(named) if one.lower() not in pages] == []


class TestNamesOfTheProgram:
    """The files, functions and classes that docs/ names. docs/performance.md also names files of
    earlier commits."""

    texts = {
        path.name: path.read_text(encoding="utf-8")
        for path in (BASE / "docs").glob("*.md")
        if path.name != "performance.md"
    }

    def test_each_file_that_they_name_is_there(self) -> None:
        named = {
            name
            for text in self.texts.values()
            for name in re.findall(r"`([\w.-]+/[\w./-]+\.(?:css|html|js|md|py|toml))`", text)
        }
        folders = ("", "agents", "sessions", "memory", "templates")
        missing = [one for one in named if not any((BASE / at / one).exists() for at in folders)]
        assert len(named) > 100
        assert missing == []

    def test_each_name_stands_in_the_file_beside_it(self) -> None:
        named = re.findall(r"`(\w+)`\s+in\s+`(\w+/[\w./-]+\.py)`", "".join(self.texts.values()))
        assert len(named) > 50
        for name, file in named:
            defined = rf"^\s*(?:(?:async )?def {name}\b|class {name}\b|{name}\b[^(.]*[:=])"
            assert re.search(defined, read(file), re.MULTILINE), (name, file)

    def test_each_page_that_they_lead_to_is_there(self) -> None:
        for page, text in self.texts.items():
            for file in re.findall(r"\]\(([\w./-]+\.md)", text):
                assert (BASE / "docs" / file).exists(), (page, file)


class TestSecurityDocument:
    text = read("docs/security.md")
    risks = text[text.index("| risk |") :].split("\n\n")[0].splitlines()[2:]

    def test_each_test_that_it_names_is_there(self) -> None:
        sources = {
            str(path.relative_to(BASE)): path.read_text(encoding="utf-8")
            for path in BASE.rglob("test_*.py")
            if "tests" in path.relative_to(BASE).parts
        }
        written = r"^ *(?:class|(?:async )?def) ((?:Test|test_)\w+)"
        known = set(re.findall(written, "".join(sources.values()), re.MULTILINE))
        assert set(re.findall(r"`((?:Test|test_)\w+)`", self.text)) <= known
        named = re.findall(r"`([\w/]*test_\w+\.py)`", self.text)
        assert len(named) > 20
        for name in named:
            assert [path for path in sources if path.endswith(name)], name

    @pytest.mark.parametrize("row", risks, ids=range(1, 11))
    def test_each_risk_has_a_test_of_its_own(self, row: str) -> None:
        shown_by = row.split("|")[3]
        assert re.findall(r"`(?:Test\w+|[\w/]*test_\w+\.py)`", shown_by)

    def test_all_ten_are_there(self) -> None:
        assert [row.split()[1] for row in self.risks] == [str(number) for number in range(1, 11)]

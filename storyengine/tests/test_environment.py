"""Tests of good and bad values of environment variables."""

import os
import subprocess
import sys
from pathlib import Path
from threading import Barrier, Thread

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from storyengine.settings import environment


def start(*, command: str = "check", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command of manage.py in a process of its own, with these environment variables."""
    return subprocess.run(  # noqa: S603
        [sys.executable, "manage.py", command],
        cwd=settings.BASE_DIR,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )


class TestBadValues:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("DEBUG", "maybe"),
            ("PORT", "abc"),
            ("PORT", "70000"),
            ("STORYENGINE_LLM", "oracle"),
            ("STORYENGINE_MEMORY_TOKENS", "many"),
            ("STORYENGINE_CHAPTER_BUDGET", "much"),
            ("STORYENGINE_CHAPTER_BUDGET", "NaN"),
            ("STORYENGINE_HSTS", "everywhere"),
            ("STORYENGINE_HOST", "story.example.org"),
            ("STORYENGINE_HOST", "0.0.0.0"),  # noqa: S104
            ("FORWARDED_ALLOW_IPS", "127.0.0.1, 172.16.0.1/12"),
            ("DATABASE_URL", "postgres://gm:hush-hush@localhost:port/x"),
            ("STORYENGINE_DATA", "/dev/null/story"),
        ],
    )
    def test_it_does_not_start_and_names_the_variable(self, name: str, value: str) -> None:
        run = start(**{name: value})
        assert run.returncode == 1
        assert name in run.stderr
        assert "Traceback" not in run.stderr
        assert "hush-hush" not in run.stderr + run.stdout


def answer_of(program: str, **variables: str) -> str:
    """Start Django in a process of its own, run this Python code there, and return the code's
    output."""
    unset = {"STORYENGINE_HTTPS": "", "STORYENGINE_HSTS": "", "STORYENGINE_PASSWORD": ""}
    run = subprocess.run(  # noqa: S603
        [sys.executable, "-c", f"import django; django.setup()\n{program}"],
        cwd=settings.BASE_DIR,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "storyengine.settings"} | unset | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip()


class TestHTTPS:
    """Tests of STORYENGINE_HTTPS, with requests that come through a proxy and with direct
    requests."""

    PROGRAM = """
from django.test import Client
client = Client(SERVER_NAME="localhost")
direct = client.get("/login")
print(direct.status_code, direct.get("Location"))
# As a proxy says that it was asked by HTTPS.
through_proxy = client.get("/login", headers={"X-Forwarded-Proto": "https"})
cookie = through_proxy.cookies["storyengine_csrf"]
print(through_proxy.status_code, through_proxy.wsgi_request.is_secure(), bool(cookie["secure"]))
"""

    def test_with_it_nothing_goes_unencrypted(self) -> None:
        told = answer_of(self.PROGRAM, STORYENGINE_HTTPS="true", STORYENGINE_PASSWORD="a password")
        assert told.splitlines() == ["301 https://localhost/login", "200 True True"]

    def test_without_it_a_visitor_s_own_header_counts_for_nothing(self) -> None:
        told = answer_of(self.PROGRAM, STORYENGINE_PASSWORD="a password")
        assert told.splitlines() == ["200 None", "200 False False"]


class TestHSTS:
    """Tests that the header Strict-Transport-Security promises only what the settings ask for.

    A browser keeps the promise for a year.
    """

    @pytest.mark.parametrize(
        ("variables", "header"),
        [
            ({"STORYENGINE_HSTS": "preload"}, "None"),
            (
                {"STORYENGINE_HTTPS": "true", "STORYENGINE_HSTS": "preload"},
                "max-age=31536000; includeSubDomains; preload",
            ),
        ],
    )
    def test_it_reaches_as_far_as_was_asked_for(
        self, variables: dict[str, str], header: str
    ) -> None:
        program = (
            "from django.test import Client\n"
            "answer = Client(SERVER_NAME='localhost').get('/healthz', secure=True)\n"
            "print(answer.get('Strict-Transport-Security'))"
        )
        assert answer_of(program, **variables) == header


class TestReaders:
    @pytest.mark.parametrize(("text", "value"), [("True", True), ("on", True), ("0", False)])
    def test_truth_has_several_spellings(
        self, monkeypatch: pytest.MonkeyPatch, text: str, value: bool
    ) -> None:
        monkeypatch.setenv("DEBUG", text)
        assert environment.read_bool("DEBUG") is value


class TestHost:
    @pytest.mark.parametrize(
        ("text", "host"),
        [
            ("", ""),
            ("localhost", "127.0.0.1"),
            ("[::1]", "::1"),
        ],
    )
    def test_this_machine_alone_needs_no_password(
        self, monkeypatch: pytest.MonkeyPatch, text: str, host: str
    ) -> None:
        monkeypatch.setenv("STORYENGINE_HOST", text)
        assert environment.read_host("STORYENGINE_HOST", has_password=False) == host

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "127.0.0.1"])  # noqa: S104
    def test_with_a_password_it_is_free(self, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
        monkeypatch.setenv("STORYENGINE_HOST", host)
        assert environment.read_host("STORYENGINE_HOST", has_password=True) == host

    def test_a_loopback_address_is_answered_under_its_own_name(self) -> None:
        program = "from django.conf import settings; print(settings.ALLOWED_HOSTS)"
        told = answer_of(program, STORYENGINE_HOST="127.0.0.2")
        assert "'127.0.0.2'" in told
        assert "'*'" not in told


class TestDatabase:
    def test_the_default_is_a_durable_sqlite_file(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.delenv("DATABASE_URL", raising=False)
        config = environment.read_database(tmp_path / "50% off+more")
        assert config["NAME"] == str(tmp_path / "50% off+more" / "storyengine.sqlite3")
        assert config["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
        assert "synchronous=FULL" in config["OPTIONS"]["init_command"]

    def test_a_url_leads_to_postgresql(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("DATABASE_URL", "postgres://gm:p%40ss@db:5433/story")
        config = environment.read_database(tmp_path)
        assert config["ENGINE"] == "storyengine.stack.postgresql"
        assert (config["PASSWORD"], config["HOST"], config["PORT"]) == ("p@ss", "db", 5433)


class TestSecretKey:
    @pytest.fixture(autouse=True)
    def _unset(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("SECRET_KEY", raising=False)

    def test_the_environment_s_wins(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("SECRET_KEY", "given")
        assert environment.read_secret_key(tmp_path) == "given"
        assert not list(tmp_path.iterdir())

    def test_a_made_one_is_kept_and_private(self, tmp_path: Path) -> None:
        key = environment.read_secret_key(tmp_path)
        assert len(key) >= 50
        assert environment.read_secret_key(tmp_path) == key
        assert [file.name for file in tmp_path.iterdir()] == ["secret-key"]
        assert (tmp_path / "secret-key").stat().st_mode & 0o777 == 0o600

    def test_processes_that_start_together_agree(self, tmp_path: Path) -> None:
        keys: list[str] = []
        barrier = Barrier(8)

        def read() -> None:
            barrier.wait()
            keys.append(environment.read_secret_key(tmp_path))

        threads = [Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(keys) == 8
        assert len(set(keys)) == 1

    def test_an_empty_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "secret-key").touch()
        with pytest.raises(ImproperlyConfigured, match="empty"):
            environment.read_secret_key(tmp_path)


class TestEnvFile:
    @pytest.fixture
    def env_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        # The file will add this variable to the environment. monkeypatch must know the variable, so
        # that it removes it after the test.
        monkeypatch.setenv("STORYENGINE_MODEL", "")
        monkeypatch.delenv("STORYENGINE_MODEL")
        path = tmp_path / ".env"
        path.write_text("STORYENGINE_MODEL='qwen3:8b'\nPORT=9000\n")
        return path

    def test_it_adds_what_is_not_set(self, env_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("PYTEST_VERSION")
        monkeypatch.setenv("PORT", "8001")
        environment.read_env_file(env_file)
        assert environment.read_text("STORYENGINE_MODEL") == "qwen3:8b"
        assert environment.read_number("PORT", 8000) == 8001

    @pytest.mark.parametrize(
        ("line", "value"),
        [
            ("=b", "b"),
            (" = b ", "b"),
            ("\t=\tb", "b"),
            ("=b # the cellar", "b"),
            ("=b\t# the cellar", "b"),
            ("=b#c", "b#c"),
            ("=#c", "#c"),
            ("= # nothing", ""),
            ("=", ""),
            ("='b # c' # d", "b # c"),
            ('="b # c"# d', "b # c"),
            ('="b \\"c\\""', 'b "c"'),
            ("=it's # fine", "it's"),
            ("=a=b c", "a=b c"),
            ("=b\x0c", "b"),
        ],
    )
    @pytest.mark.parametrize("before", ["", "export ", "  "])
    def test_a_line_is_read_as_people_write_it(
        self, env_file: Path, monkeypatch: pytest.MonkeyPatch, before: str, line: str, value: str
    ) -> None:
        monkeypatch.delenv("PYTEST_VERSION")
        env_file.write_text(f"# Mine\n\n{before}STORYENGINE_MODEL{line}\nPORT\n")
        environment.read_env_file(env_file)
        assert os.environ["STORYENGINE_MODEL"] == value

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
    @pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
    def test_the_first_line_is_read_whatever_editor_saved_it(
        self, env_file: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, line_break: str
    ) -> None:
        monkeypatch.delenv("PYTEST_VERSION")
        text = line_break.join(["STORYENGINE_MODEL=größer", "PORT=9000", ""])
        env_file.write_bytes(text.encode(encoding))
        environment.read_env_file(env_file)
        assert environment.read_text("STORYENGINE_MODEL") == "größer"

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("STORYENGINE_MODEL=b".encode("utf-16-le"), "save it as UTF-8"),
            (b"STORYENGINE_MODEL=gr\xf6\xdfer", "save it as UTF-8"),
            (b"\xff\xfeS", "save it as UTF-8"),
            (b"A=b\nSTORYENGINE_MODEL: hush-hush\n", "line 2: this is no setting"),
        ],
    )
    def test_a_file_that_cannot_be_read_is_refused_in_words(
        self, env_file: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, words: str
    ) -> None:
        monkeypatch.delenv("PYTEST_VERSION")
        env_file.write_bytes(content)
        with pytest.raises(ImproperlyConfigured, match=words) as caught:
            environment.read_env_file(env_file)
        assert "hush-hush" not in str(caught.value)
        assert environment.read_text("STORYENGINE_MODEL") == ""


def test_the_models_of_agents_are_read_by_what_stands_behind_their_prefix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {
        "STORYENGINE_MODEL": "all",
        "STORYENGINE_MODELS_FILE": "a file",
        "STORYENGINE_MODEL_AGENT_9": " writer ",
        "STORYENGINE_MODEL_AGENT_8": " ",
        "STORYENGINE_MODEL_EXPLORER_NARRATOR": "teller",
    }.items():
        monkeypatch.setenv(name, value)
    read = environment.read_those_of("STORYENGINE_MODEL_")
    assert read == {"AGENT_9": "writer", "EXPLORER_NARRATOR": "teller"}

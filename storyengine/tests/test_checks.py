"""Tests that the checks at the start report a bad configuration."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from unittest.mock import patch

import pytest
from django.core.checks import ERROR, INFO, WARNING, CheckMessage, run_checks
from pytest_django import Settings

from agents.calling.consent import grant
from agents.calling.servers.changing import add_server, choose_models
from storyengine.operations.checks import configuration, service_checks


@pytest.fixture(autouse=True)
def _good_configuration(settings: Settings) -> None:
    settings.DEBUG = False
    settings.PASSWORD = "correct horse battery staple"
    settings.API_TOKEN = "token-of-the-test"
    settings.HOST, settings.PROXIES = "", ["192.0.2.1"]
    settings.ALLOWED_HOSTS = ["story.example.org", *settings.LOOPBACK_HOSTS]
    settings.HTTPS = True
    for name in ("SSL_REDIRECT", "HSTS_SECONDS", "PROXY_SSL_HEADER"):
        setattr(settings, f"SECURE_{name}", True)
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True
    settings.SECRET_KEY_IS_GENERATED = False
    settings.LLM = "openai"
    settings.OPENAI_BASE_URL = "https://api.openai.com/v1"
    settings.OPENAI_API_KEY = "key"
    settings.MODEL = ""
    settings.MODEL_BY_AGENT = {}


def all_checks() -> list[CheckMessage]:
    return [
        *configuration.check_access(),
        *configuration.check_secrets(),
        *configuration.check_proxies(),
        *configuration.check_middleware(),
        *configuration.check_model(),
        *configuration.check_models_file(),
        *configuration.check_caps(),
        *configuration.check_memory(),
        *configuration.check_production(),
        *configuration.check_guards(),
    ]


def test_a_good_configuration_is_silent() -> None:
    assert all_checks() == []


@pytest.mark.parametrize(
    ("changes", "check_id"),
    [
        ({"DEBUG": True}, "storyengine.W001"),
        ({"API_TOKEN": ""}, "storyengine.I001"),
        ({"OPENAI_BASE_URL": "api.openai.com"}, "storyengine.E001"),
        ({"OPENAI_BASE_URL": "https://"}, "storyengine.E001"),
        ({"LLM": "embedded", "EMBEDDED_MODEL": "qwen-9000"}, "storyengine.E002"),
        ({"LLM": "embedded", "EMBEDDED_MODEL": "/no/such/model.gguf"}, "storyengine.E002"),
        ({"MODELS_FILE": "/no/such/models.toml"}, "storyengine.E004"),
        ({"OPENAI_API_KEY": ""}, "storyengine.W002"),
        ({"OPENAI_BASE_URL": "http://llm.example/v1", "MODEL": "x"}, "storyengine.W003"),
        ({"SECRET_KEY_IS_GENERATED": True}, "storyengine.W004"),
        ({"PASSWORD": "11-of-them-"}, "storyengine.W005"),
        ({"PASSWORD": "", "API_TOKEN": ""}, "storyengine.W017"),
        ({"API_TOKEN": "11-of-them-"}, "storyengine.W014"),
        ({"HTTPS": False}, "storyengine.W007"),
        ({"HTTPS": False, "HOST": "192.0.2.7"}, "storyengine.W007"),
        ({"HTTPS": False, "HOST": "127.0.0.1"}, "storyengine.W007"),
        ({"PROXIES": []}, "storyengine.W015"),
        ({"PROXIES": ["*"]}, "storyengine.W016"),
        ({"ALLOWED_HOSTS": ["*", "localhost"]}, "storyengine.W012"),
        ({"OPENAI_BASE_URL": "http://localhost:11434/v1"}, "storyengine.W006"),
        ({"CHAPTER_BUDGET": Decimal(1), "MODEL": "nobody-knows"}, "storyengine.W008"),
        ({"MEMORY_TOKENS": 999}, "storyengine.W019"),
        ({"CHAPTER_BUDGET": Decimal(1), "MODELS_FILE": "/no/such.toml"}, "storyengine.E004"),
    ],
)
def test_a_doubtful_one_is_named_with_a_way_out(
    settings: Settings, changes: dict[str, object], check_id: str
) -> None:
    for name, value in changes.items():
        setattr(settings, name, value)
    (message,) = all_checks()
    assert message.id == check_id
    assert message.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"PASSWORD": "", "API_TOKEN": ""},
        # At this address only programs of the same machine can connect, so HTTPS is not needed.
        {"HTTPS": False, "HOST": "127.0.0.1", "PROXIES": []},
        {"HTTPS": False, "HOST": "::1", "PROXIES": []},
        {"OPENAI_BASE_URL": "http://localhost:11434/v1", "OPENAI_API_KEY": "", "MODEL": "qwen3"},
        {"LLM": "embedded", "EMBEDDED_MODEL": "smollm2-135m", "OPENAI_API_KEY": ""},
        {"CHAPTER_BUDGET": Decimal(1)},
        {"CHAPTER_BUDGET": Decimal(1), "LLM": "embedded", "EMBEDDED_MODEL": "smollm2-135m"},
        {"CHAPTER_BUDGET": Decimal(1), "CHAPTER_TOKENS": 1, "MODEL": "nobody-knows"},
        {"CHAPTER_TOKENS": 1, "MODEL": "nobody-knows"},
    ],
)
def test_what_is_meant_so_is_not_remarked(settings: Settings, changes: dict[str, object]) -> None:
    for name, value in changes.items():
        setattr(settings, name, value)
    check: Callable[[], list[CheckMessage]]
    for check in (
        configuration.check_access,
        configuration.check_secrets,
        configuration.check_proxies,
        configuration.check_model,
        configuration.check_caps,
        configuration.check_memory,
    ):
        assert check() == []


@pytest.mark.parametrize(
    ("changes", "check_id"),
    [
        ({"PASSWORD": "11-of-them-"}, "storyengine.W005"),
        ({"HTTPS": False}, "storyengine.W007"),
        ({"API_TOKEN": "11-of-them-", "HOST": "::1"}, "storyengine.W014"),
        ({"PROXIES": ["*"]}, "storyengine.W016"),
    ],
)
def test_a_weak_guard_is_named_at_every_start(
    settings: Settings, changes: dict[str, object], check_id: str
) -> None:
    """Each weakness is reported once, even if the checks for a deployment run too."""
    for name, value in changes.items():
        setattr(settings, name, value)
    for is_deployment in (False, True):
        found = [
            *configuration.check_access(),
            *configuration.check_secrets(),
            *configuration.check_proxies(),
        ]
        found += configuration.check_production() if is_deployment else []
        assert [one.id for one in found] == [check_id]
    assert check_id in {one.id for one in run_checks(tags=["security"])}


@pytest.mark.parametrize(
    ("host", "is_held_back"),
    [("", True), ("0.0.0.0", False), ("127.0.0.1", False)],  # noqa: S104
)
def test_a_short_password_opens_to_this_machine_unless_a_host_is_chosen(
    settings: Settings, host: str, is_held_back: bool
) -> None:
    settings.PASSWORD, settings.HOST, settings.HTTPS = "11-of-them-", host, False
    [message] = configuration.check_secrets()
    hint = str(message.hint)
    assert ("listens on this machine alone" in hint) is is_held_back
    assert ("STORYENGINE_HOST=0.0.0.0" in hint) is is_held_back
    # The check warns of missing HTTPS only if the password would cross the network.
    is_beyond = host == "0.0.0.0"  # noqa: S104
    assert [one.id for one in configuration.check_access()] == ["storyengine.W007"] * is_beyond


class TestServers:
    @pytest.mark.parametrize(
        "changes",
        [
            {"WSGI_APPLICATION": "storyengine.wsgi.application"},
            {"MIDDLEWARE": [f"{__name__}.Synchronous"]},
        ],
    )
    def test_a_synchronous_one_is_named(
        self, settings: Settings, changes: dict[str, object]
    ) -> None:
        assert service_checks.check_server() == []
        for name, value in changes.items():
            setattr(settings, name, value)
        (message,) = service_checks.check_server()
        assert message.id in ("storyengine.W009", "storyengine.W010")
        assert message.hint

    @pytest.mark.django_db(transaction=True)
    def test_a_broker_that_does_not_answer_is_named_before_a_deployment(
        self, settings: Settings, tmp_path: Path
    ) -> None:
        settings.CELERY_BROKER_URL = "filesystem://localhost"
        settings.BROKER_FOLDER = tmp_path
        (tmp_path / "messages").mkdir()
        assert service_checks.check_broker() == []
        (tmp_path / "messages").rmdir()
        (message,) = service_checks.check_broker()
        assert (message.id, message.level) == ("storyengine.W011", WARNING)
        assert message.hint
        named = {one.id for one in run_checks(tags=["security"])}
        assert message.id not in named
        named = {one.id for one in run_checks(tags=["security"], include_deployment_checks=True)}
        assert message.id in named

    @pytest.mark.django_db(transaction=True)
    def test_a_host_that_nobody_has_allowed_is_told(self) -> None:
        (message,) = service_checks.check_consent()
        assert (message.id, message.level) == ("storyengine.I002", INFO)
        assert "api.openai.com" in message.msg
        assert message.hint
        grant("api.openai.com")
        assert service_checks.check_consent() == []

    @pytest.mark.django_db(transaction=True)
    def test_it_is_the_host_that_the_user_has_chosen(self) -> None:
        add_server("Mine", "https://models.example/v1")
        choose_models({"": ("mine", "m")})
        # The process that checks has read no choice yet.
        with patch("agents.calling.servers.choices._stored", {}):
            (message,) = service_checks.check_consent()
        assert "models.example" in message.msg

    @pytest.mark.django_db(transaction=True)
    def test_a_model_of_this_machine_needs_nobody_s_leave(self, settings: Settings) -> None:
        settings.LLM = "embedded"
        assert service_checks.check_consent() == []


class Synchronous:
    """A middleware without support for async code."""


class TestGuards:
    """Tests of settings that protect the program.

    Django's own checks do not report these settings, because they look for Django's middleware by
    name and the program has middleware of its own.
    """

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *((name, False) for name in (*configuration.ALWAYS, *configuration.WITH_HTTPS)),
            ("SECURE_HSTS_SECONDS", 0),
            ("SECURE_PROXY_SSL_HEADER", None),
            ("X_FRAME_OPTIONS", "SAMEORIGIN"),
        ],
    )
    def test_one_that_is_off_is_named(self, settings: Settings, name: str, value: object) -> None:
        setattr(settings, name, value)
        (message,) = all_checks()
        assert (message.id, message.level) == ("storyengine.W013", WARNING)
        assert message.msg.startswith(f"{name} is {value!r}: ")
        assert message.hint


@pytest.mark.parametrize("name", configuration.PROTECTION)
def test_a_protection_that_is_missing_is_an_error(settings: Settings, name: str) -> None:
    settings.MIDDLEWARE = [each for each in settings.MIDDLEWARE if each != name]
    (message,) = [one for one in run_checks(tags=["security"]) if not one.is_silenced()]
    assert (message.id, message.level) == ("storyengine.E003", ERROR)
    assert name in message.msg
    assert message.hint

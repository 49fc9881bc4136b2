"""Settings of Story Engine. Everything that differs between installations is in the environment.

docs/settings.md lists every variable; a test compares.
"""

import os
from pathlib import Path

from storyengine.settings.environment import (
    read_bool,
    read_choice,
    read_database,
    read_decimal,
    read_env_file,
    read_folder,
    read_int,
    read_list,
    read_secret_key,
    read_text,
)
from storyengine.settings.logs import read_log_handlers

BASE_DIR = Path(__file__).resolve().parent.parent.parent
read_env_file(BASE_DIR / ".env")
DATA_FOLDER = read_folder("STORYENGINE_DATA", BASE_DIR / "var")

DEBUG = read_bool("DEBUG")
SECRET_KEY = read_secret_key(DATA_FOLDER)
SECRET_KEY_IS_GENERATED = not read_text("SECRET_KEY")
# Honcho hands the other processes the hundreds above it.
PORT = read_int("PORT", 8000, minimum=1, maximum=65_000)

# The door: without a password the program serves this machine alone (see storyengine.access).
PASSWORD = read_text("STORYENGINE_PASSWORD")
API_TOKEN = read_text("STORYENGINE_API_TOKEN")
HTTPS = read_bool("STORYENGINE_HTTPS")
# How far the promise reaches that browsers keep for a year, whatever is on other host names.
HSTS = read_choice("STORYENGINE_HSTS", "host", ("host", "subdomains", "preload"))
LOOPBACK_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
# Loopback names stay allowed beside others, because health checks come from inside.
ALLOWED_HOSTS = [*(read_list("ALLOWED_HOSTS", "*") if PASSWORD else []), *LOOPBACK_HOSTS]
LOGIN_URL = "log-in"
LOGIN_REDIRECT_URL = "/"
SESSION_COOKIE_AGE = 30 * 24 * 3600
# Cookies of one host are shared by all its ports, and many a program on loopback is a Django one.
SESSION_COOKIE_NAME = "storyengine_session"
CSRF_COOKIE_NAME = "storyengine_csrf"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "ninja",
    "storyengine.access",
    "storyengine.pages",
    "sessions",
    "memory",
    "agents",
]

# All of it runs in the event loop (see storyengine.access.browser). CommonMiddleware is left out:
# its host check is in KnownHostMiddleware.
MIDDLEWARE = [
    "storyengine.access.headers.PolicyHeadersMiddleware",
    "storyengine.access.hosts.KnownHostMiddleware",
    "storyengine.access.api_door.ApiDoorMiddleware",
    "storyengine.access.browser.SecurityMiddleware",
    "storyengine.access.browser.SessionMiddleware",
    "storyengine.access.browser.CsrfViewMiddleware",
    "storyengine.access.door.DoorMiddleware",
    "storyengine.access.browser.MessageMiddleware",
    "storyengine.access.browser.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "storyengine.pages.refusals.RefusalMiddleware",
]
MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"
# These look for Django's own classes by name; storyengine.checks looks for those that stand in.
SILENCED_SYSTEM_CHECKS = ["security.W001", "security.W002", "security.W003"]

ROOT_URLCONF = "storyengine.urls"
ASGI_APPLICATION = "storyengine.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "storyengine.access.context_processors.door",
            ],
        },
    },
]

DATABASES = {"default": read_database(DATA_FOLDER)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Served pages name files by their content, collected before the start; tests and DEBUG take them
# from where they are written.
STATIC_IS_COLLECTED = not DEBUG and "PYTEST_VERSION" not in os.environ
_STATIC_STORAGE = "ManifestStaticFilesStorage" if STATIC_IS_COLLECTED else "StaticFilesStorage"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": f"django.contrib.staticfiles.storage.{_STATIC_STORAGE}"},
}

SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^healthz$"]
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS and HSTS != "host"
SECURE_HSTS_PRELOAD = HTTPS and HSTS == "preload"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = True
CSRF_COOKIE_HTTPONLY = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"
# The largest honest form: Tab 1 whole, nine texts of 5,000 code points, percent-encoded.
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000

# Celery only rings the bell (see docs/architecture.md): a job is a row in the database.
BROKER_FOLDER = DATA_FOLDER / "queue"
CELERY_BROKER_URL = read_text("CELERY_BROKER_URL", "filesystem://localhost")
if CELERY_BROKER_URL.startswith("filesystem://"):
    for _name in ("messages", "control"):
        (BROKER_FOLDER / _name).mkdir(parents=True, exist_ok=True)
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(BROKER_FOLDER / "messages"),
        "data_folder_out": str(BROKER_FOLDER / "messages"),
        "control_folder": str(BROKER_FOLDER / "control"),
        "polling_interval": 0.05,
    }
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BEAT_SCHEDULE = {
    "find-what-the-bell-missed": {"task": "agents.tasks.sweep", "schedule": 15.0},
}

# Models. Names of environment variables are the ones the README lists.
LLM = read_choice("STORYENGINE_LLM", "embedded", ("embedded", "openai"))
EMBEDDED_MODEL = read_text("STORYENGINE_EMBEDDED_MODEL", "qwen2.5-coder-1.5b")
OPENAI_BASE_URL = read_text("OPENAI_BASE_URL", "https://api.openai.com/v1")
OPENAI_API_KEY = read_text("OPENAI_API_KEY")
MODEL = read_text("STORYENGINE_MODEL")
MODEL_BY_AGENT = {n: read_text(f"STORYENGINE_MODEL_AGENT_{n}") for n in range(10)}
CONTEXT_WINDOW = read_int("STORYENGINE_CONTEXT_WINDOW", 0)
MAX_OUTPUT = read_int("STORYENGINE_MAX_OUTPUT", 0)
MODELS_FILE = read_text("STORYENGINE_MODELS_FILE")
CHAPTER_BUDGET = read_decimal("STORYENGINE_CHAPTER_BUDGET", "0")
CHAPTER_TOKENS = read_int("STORYENGINE_CHAPTER_TOKENS", 0)
CALLS_PER_MINUTE = read_int("STORYENGINE_CALLS_PER_MINUTE", 600, minimum=1)

_LOG_HANDLERS = read_log_handlers(DATA_FOLDER)
# What is logged names rows and errors, never the text of a story.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "storyengine.access.redaction.RedactingFormatter",
            "format": "%(levelname)s %(name)s: %(message)s",
        },
        "dated": {
            "()": "storyengine.access.redaction.RedactingFormatter",
            "format": "%(asctime)s %(levelname)s %(name)s: %(message)s",
        },
    },
    "handlers": _LOG_HANDLERS,
    "root": {"handlers": list(_LOG_HANDLERS), "level": "INFO"},
    "loggers": {
        # Without handlers of its own, so that a line is written once.
        "django": {"handlers": [], "level": "INFO"},
        # A refusal is an answer; only what broke is logged.
        "django.request": {"level": "ERROR"},
        "uvicorn": {"level": "WARNING"},
        "celery": {"level": "WARNING"},
        # These libraries log addresses and, at DEBUG, bodies: prompt text must not reach a log.
        "httpx2": {"level": "WARNING"},
        "openai": {"level": "WARNING"},
        "httpcore2": {"level": "WARNING"},
    },
}

"""The settings of Story Engine. Everything that differs between installations is set by environment
variables.

docs/settings.md lists these variables, and a test compares its list with the settings.
"""

import os
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from kombu import Exchange, Queue

from agents.llm.providers.base_urls import mended
from storyengine.settings.environment import (
    read_bool,
    read_choice,
    read_database,
    read_direct_database,
    read_env_file,
    read_folder,
    read_host,
    read_list,
    read_networks,
    read_number,
    read_secret_key,
    read_text,
    read_those_of,
    worker_threads,
)
from storyengine.settings.logs import read_log_handlers
from storyengine.settings.private_files import keep_files_private

BASE_DIR = Path(__file__).resolve().parent.parent.parent
read_env_file(BASE_DIR / ".env")
DATA_FOLDER = read_folder("STORYENGINE_DATA", BASE_DIR / "var")
# The folder of backups. The first backup creates it.
BACKUPS_FOLDER = Path(read_text("STORYENGINE_BACKUPS", str(DATA_FOLDER / "backups"))).expanduser()
BACKUP_DAYS = read_number("STORYENGINE_BACKUP_DAYS", 14, minimum=7)

DEBUG = read_bool("DEBUG")
SECRET_KEY = read_secret_key(DATA_FOLDER)
SECRET_KEY_IS_GENERATED = not read_text("SECRET_KEY")
# honcho adds 100 to the port for each further process, so the limit leaves room above the port.
PORT = read_number("PORT", 8000, minimum=1, maximum=65_000)

# Without a password the program listens only on this machine (see storyengine.access).
PASSWORD = read_text("STORYENGINE_PASSWORD")
API_TOKEN = read_text("STORYENGINE_API_TOKEN")
HOST = read_host("STORYENGINE_HOST", has_password=bool(PASSWORD))
# The proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted. uvicorn gets this list,
# because by itself it would trust every program on this machine if the variable is not set.
PROXIES = read_networks("FORWARDED_ALLOW_IPS")
HTTPS = read_bool("STORYENGINE_HTTPS")
# After a visit to one of these hosts, a browser uses only HTTPS for it for a year. "host" means
# this host alone. "subdomains" adds the subdomains of this host. "preload" also lets this rule be
# shipped with browsers.
HSTS = read_choice("STORYENGINE_HSTS", "host", ("host", "subdomains", "preload"))
LOOPBACK_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
if HOST.startswith("127.") and HOST not in LOOPBACK_HOSTS:
    LOOPBACK_HOSTS.append(HOST)
# Loopback names are always allowed, because health checks on this machine use them.
ALLOWED_HOSTS = [*(read_list("ALLOWED_HOSTS", "*") if PASSWORD else []), *LOOPBACK_HOSTS]
LOGIN_URL = "log-in"
LOGIN_REDIRECT_URL = "/"
# The first backend refuses a visitor who has guessed too often. It comes first, because the second
# one hashes the password, which is slow.
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "storyengine.access.game_master.PasswordBackend",
]
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = timedelta(minutes=5)
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_RESET_ON_SUCCESS = True
# Failures are counted by user name and address. Tokens have a user name of their own, so that they
# are counted separately from passwords (see storyengine.access.api_access).
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_CLIENT_IP_CALLABLE = "storyengine.access.visitors.counted_address"
# Axes stores only the number of failed logins. The log has everything else about them.
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = False
SESSION_COOKIE_AGE = 30 * 24 * 3600
# The cookies have names of their own, because all ports of a host share their cookies, and another
# Django program may run on loopback.
SESSION_COOKIE_NAME = "storyengine_session"
CSRF_COOKIE_NAME = "storyengine_csrf"

# The installed modes. Each of these apps declares a mode in its `mode.py` (see
# docs/modes.md).
MODES = ["gamemaster", "explorer"]
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "axes",
    "django_htmx",
    "ninja",
    "storyengine.access",
    "storyengine.backups",
    "storyengine.exchange",
    "storyengine.operations",
    "storyengine.web",
    "sessions",
    "memory",
    "agents",
    *MODES,
]

# All middleware runs in the event loop (see storyengine.access.middleware). CommonMiddleware is
# left out, because KnownHostMiddleware checks the host.
MIDDLEWARE = [
    "storyengine.access.requests.RequestLogMiddleware",
    "storyengine.access.middleware.CompressionMiddleware",
    "storyengine.access.middleware.PolicyHeadersMiddleware",
    "storyengine.access.middleware.KnownHostMiddleware",
    "storyengine.access.api_access.ApiAccessMiddleware",
    "storyengine.access.middleware.SecurityMiddleware",
    "storyengine.access.middleware.SessionMiddleware",
    "storyengine.access.middleware.CsrfViewMiddleware",
    "storyengine.access.login_gate.LoginMiddleware",
    "storyengine.access.middleware.MessageMiddleware",
    "storyengine.access.middleware.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "storyengine.web.refusals.RefusalMiddleware",
]
MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"
# These checks of Django look for Django's own classes by name. The program uses other classes
# instead, and storyengine.operations.checks.configuration looks for those other classes.
SILENCED_SYSTEM_CHECKS = [
    *("security.W001", "security.W002", "security.W003"),
    # This check looks for AxesMiddleware. The program does not use AxesMiddleware, because the
    # login page itself says that there were too many tries.
    "axes.W002",
]

ROOT_URLCONF = "storyengine.urls"
ASGI_APPLICATION = "storyengine.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["storyengine.web.templatetags.story_texts"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "storyengine.access.context_processors.account",
            ],
        },
    },
]

DATABASES = {"default": read_database(DATA_FOLDER)}
# The database settings that let backups connect without pgbouncer, or None.
DIRECT_DATABASE = read_direct_database()
keep_files_private(DATA_FOLDER, DATABASES["default"])
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
# When the image is built, root collects the static files. These permissions let other users of the
# system read the files.
FILE_UPLOAD_DIRECTORY_PERMISSIONS = 0o755
# Whether static files are served from STATIC_ROOT, where a file's name depends on its content, and
# a compressed copy lies beside each file. Tests and DEBUG serve them from the source folders.
STATIC_IS_COLLECTED = not DEBUG and "PYTEST_VERSION" not in os.environ
_STATIC_STORAGE = (
    "storyengine.web.static_storage.CompressedStorage"
    if STATIC_IS_COLLECTED
    else "django.contrib.staticfiles.storage.StaticFilesStorage"
)
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": _STATIC_STORAGE},
}

SECURE_SSL_REDIRECT = HTTPS
# Monitoring programs ask these addresses without the proxy, and therefore without HTTPS.
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
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
# The limit in bytes of a form. The largest form is that of an edited reply, with 1,000,000 code
# points of up to four bytes. storyengine.access.body_limit refuses larger bodies before Django
# reads them, and sets a lower limit for all other forms.
DATA_UPLOAD_MAX_MEMORY_SIZE = 4_100_000
# Without scripts, a form of Tab 1 has all values of a scenario: at most 100 people with up to 60
# values each, and 100 places.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 10_000

# A job takes at most this many seconds. The longest job is a narration of 5,000 words, which a
# small model on a slow machine may write for nearly an hour. Celery only sends notices of jobs,
# which are rows in the database (see docs/flows.md).
LONGEST_JOB_SECONDS = 2 * 3600
BROKER_FOLDER = DATA_FOLDER / "queue"
CELERY_BROKER_URL = read_text("CELERY_BROKER_URL", "filesystem://localhost")
if CELERY_BROKER_URL.startswith("filesystem://"):
    for _name in ("messages", "control"):
        (BROKER_FOLDER / _name).mkdir(parents=True, exist_ok=True)
    CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, object] = {
        "data_folder_in": str(BROKER_FOLDER / "messages"),
        "data_folder_out": str(BROKER_FOLDER / "messages"),
        "control_folder": str(BROKER_FOLDER / "control"),
        "polling_interval": 0.05,
    }
else:
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        # Redis delivers an unacknowledged message again after this many seconds. Every job takes
        # less time, but a busy worker runs several jobs within one task. Even if a job gets two
        # notices, its work is done only once.
        "visibility_timeout": 2 * LONGEST_JOB_SECONDS,
        # A page waits for a hanging Redis at most this many seconds, at each try and at each new
        # connection. A worker's longest query gets its answer after one second, so this limit does
        # not interrupt the query.
        "socket_connect_timeout": 3,
        "socket_timeout": 3,
        "socket_keepalive": True,
        "health_check_interval": 30,
        # A worker takes a message of the first queue that has one.
        "queue_order_strategy": "priority",
    }
# One queue for each class of work (see agents.models.Job.Queue), the most urgent first. A worker
# takes messages of all queues, unless Celery's option -Q names some.
CELERY_TASK_QUEUES = [
    Queue(_name, Exchange("jobs"), routing_key=_name) for _name in ("person", "memory", "long")
]
# The queue of tasks that are not jobs.
CELERY_TASK_DEFAULT_QUEUE = "memory"
# The result of a task is not stored, because the job's row has it.
CELERY_RESULT_BACKEND = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
# These limits work only in a pool of processes. The Procfile starts a pool of threads, in which
# Celery cannot end a task. So agents.running.work itself ends a job after LONGEST_JOB_SECONDS.
CELERY_TASK_SOFT_TIME_LIMIT = LONGEST_JOB_SECONDS + 60
CELERY_TASK_TIME_LIMIT = LONGEST_JOB_SECONDS + 120
# A notice is sent at most twice, because a page waits until it is sent. The sweep replaces a notice
# that is lost.
CELERY_TASK_PUBLISH_RETRY_POLICY = {
    "max_retries": 1,
    "interval_start": 0.1,
    "interval_step": 0.2,
    "interval_max": 0.5,
}
# The threads of a worker mostly wait for models. Each thread does one job at a time.
CELERY_WORKER_CONCURRENCY = worker_threads()
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A worker tries to connect without end. By default it would end after 100 tries, and no program
# would start it again.
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BEAT_SCHEDULE = {
    # The seconds between two calls of the task. The task itself makes at most one backup a day (see
    # storyengine.backups).
    "back-up-daily": {"task": "storyengine.backups.tasks.back_up_daily", "schedule": 600.0},
}

# The settings of models. docs/settings.md describes their environment variables.
LLM = read_choice("STORYENGINE_LLM", "embedded", ("embedded", "openai"))
EMBEDDED_MODEL = read_text("STORYENGINE_EMBEDDED_MODEL", "qwen2.5-coder-1.5b")
OPENAI_BASE_URL = mended(read_text("OPENAI_BASE_URL", "https://api.openai.com/v1"))
OPENAI_API_KEY = read_text("OPENAI_API_KEY")
# The keys of servers that the user has added. A key of the mapping is the end of a variable's name,
# such as OPENROUTER.
SERVER_KEYS = read_those_of("STORYENGINE_KEY_")
MODEL = read_text("STORYENGINE_MODEL")
# The models of single agents. A key is the end of a variable's name, such as AGENT_8 or
# EXPLORER_NARRATOR.
MODEL_BY_AGENT = read_those_of("STORYENGINE_MODEL_")
CONTEXT_WINDOW = read_number("STORYENGINE_CONTEXT_WINDOW", 0)
MAX_OUTPUT = read_number("STORYENGINE_MAX_OUTPUT", 0)
MODELS_FILE = read_text("STORYENGINE_MODELS_FILE")
CHAPTER_BUDGET = read_number("STORYENGINE_CHAPTER_BUDGET", Decimal(0))
CHAPTER_TOKENS = read_number("STORYENGINE_CHAPTER_TOKENS", 0)
MEMORY_TOKENS = read_number("STORYENGINE_MEMORY_TOKENS", 16_000, minimum=1)
CALLS_PER_MINUTE = read_number("STORYENGINE_CALLS_PER_MINUTE", 600, minimum=1)
CHAPTER_CALLS_PER_MINUTE = read_number("STORYENGINE_CHAPTER_CALLS_PER_MINUTE", 300, minimum=1)

# With a password, the program runs on a server, where other programs read its log. Without a
# password, a person reads the log.
LOG_FORMAT = read_choice("STORYENGINE_LOG_FORMAT", "json" if PASSWORD else "text", ("json", "text"))
_LOG_HANDLERS = read_log_handlers(
    DATA_FOLDER,
    LOG_FORMAT,
    debug=DEBUG,
    has_files=read_bool("STORYENGINE_LOG_FILES", default=True),
)
# The log has the ids of rows and the classes of errors, and never text of a story.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {
            "()": "storyengine.access.log_format.TextFormatter",
            "format": "%(levelname)s %(name)s: %(message)s",
        },
        "json": {"()": "storyengine.access.log_format.JsonFormatter"},
    },
    "filters": {
        "leave_out_requests": {"()": "storyengine.access.log_format.LeaveOutRequests"},
        "only_bugs": {"()": "storyengine.access.log_format.OnlyBugs"},
        "once_a_minute": {"()": "storyengine.access.log_format.OnceAMinute"},
    },
    "handlers": _LOG_HANDLERS,
    "root": {"handlers": list(_LOG_HANDLERS), "level": "INFO"},
    "loggers": {
        # Django's logger gets no handlers, because the root logger's handlers already write its
        # lines.
        "django": {"handlers": [], "level": "INFO"},
        # Only bugs are logged, because refusals are ordinary answers.
        "django.request": {"level": "ERROR", "filters": ["only_bugs"]},
        "uvicorn": {"level": "WARNING"},
        # uvicorn warns of each request that it refuses, and any visitor can send many such
        # requests. So the filter drops repeated warnings.
        "uvicorn.error": {"filters": ["once_a_minute"]},
        # The ordinary lines of axes are left out, because storyengine.access logs each failed try
        # in fewer words.
        "axes": {"level": "ERROR"},
        "celery": {"level": "WARNING"},
        # Only warnings of these libraries are logged. Their other lines have the addresses of
        # requests, and at the level DEBUG also bodies with text of a story.
        "httpx2": {"level": "WARNING"},
        "openai": {"level": "WARNING"},
        "httpcore2": {"level": "WARNING"},
    },
}

# Story Engine's commands. `make` alone lists them.

# The first Python that is new enough; `make run PYTHON=...` names another one.
PYTHON = $(shell for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$candidate && break; done)

# Everything runs as the command of .venv, also what honcho starts from the Procfile.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export PYTHONUNBUFFERED = 1
# Compiled modules are kept. Otherwise each process would compile the program anew when it starts, and
# a test of the whole program starts several processes.
unexport PYTHONDONTWRITEBYTECODE

PIP_INSTALL = python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement
LOCK = python -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command "make lock" --output-file

# What a shell has set for the program must not change what is tested.
TEST_ENVIRONMENT = env -u ALLOWED_HOSTS -u DEBUG -u FORWARDED_ALLOW_IPS -u PORT -u SECRET_KEY \
	$(addprefix -u ,$(filter-out STORYENGINE_DATA STORYENGINE_TEST_%,$(filter STORYENGINE_% OPENAI_%,$(.VARIABLES))))

# What an installation that other machines reach sets (see docs/settings.md). The check asks the broker,
# and a machine that only tests has no Redis: the broker is the default one, a folder.
PRODUCTION_ENVIRONMENT = env DEBUG=false STORYENGINE_HTTPS=true STORYENGINE_HSTS=preload ALLOWED_HOSTS=story.example.org FORWARDED_ALLOW_IPS=127.0.0.1 \
	STORYENGINE_PASSWORD="$$(python -c 'import secrets; print(secrets.token_hex(16))')" \
	STORYENGINE_API_TOKEN="$$(python -c 'import secrets; print(secrets.token_hex(16))')" \
	SECRET_KEY="$$(python -c 'import secrets; print(secrets.token_urlsafe(50))')" \
	STORYENGINE_LLM=openai OPENAI_BASE_URL= OPENAI_API_KEY=none \
	DATABASE_URL=postgres://storyengine:none@localhost/storyengine CELERY_BROKER_URL=

.PHONY: help run test check lint bench chaos pictures lock clean

help: ## list these commands
	@echo "Story Engine"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

run: .venv/installed staticfiles/staticfiles.json ## start the program; Ctrl-C stops it
	@arguments=$$(python manage.py prepare) && exec python -m storyengine.stack.processes $$arguments

test: .venv/installed-dev ## run the tests of each change; needs no server
	@# A test that hangs ends its process (pyproject.toml). The run then ends as well: pytest-xdist may wait
	@# for ever for the other tests of a process that it has replaced.
	@$(TEST_ENVIRONMENT) python -m pytest --numprocesses=4 --dist=loadfile --no-loadscope-reorder --max-worker-restart=0 $(PYTEST)

check: .venv/installed-dev ## lint, types, import contracts, migrations, licences, production settings, beside them the tests
	@# Types take a minute of one core. Where one of the two fails, the other runs to its end.
	@$(MAKE) --no-print-directory --jobs=2 lint test || { echo "make check failed, see Error above." >&2; exit 1; }

lint: .venv/installed-dev ## the same without the tests
	ruff check
	ruff format --check
	mypy .
	lint-imports
	python manage.py makemigrations --check --dry-run
	python -m storyengine.tests.licences
	@echo "manage.py check --deploy, with production settings"
	@$(PRODUCTION_ENVIRONMENT) python manage.py check --deploy --fail-level WARNING

bench: .venv/installed staticfiles/staticfiles.json ## measure; DATA=file replays a recorded session, LOAD=1 [SERVERS=1] how much it carries, SCALE=1 several processes, FOLD=1 if prompts tell the truth, EXPLORATIONS=1 what an exploration costs, PROMPT=1 what one prompt runs through, EMBEDDED_MEMORY=1, EMBEDDED_REPLIES=1 and EMBEDDED_WORLDS=1 how well the embedded model writes
	@python -m $(firstword $(if $(LOAD),bench.load) $(if $(SCALE),bench.load.scale) $(if $(FOLD),bench.fold) $(if $(EXPLORATIONS),bench.explorations) $(if $(PROMPT),bench.one_prompt) \
		$(if $(EMBEDDED_MEMORY),bench.embedded.memory) $(if $(EMBEDDED_REPLIES),bench.embedded.replies) \
		$(if $(EMBEDDED_WORLDS),bench.embedded.worlds) bench) \
		$(if $(DATA),--data $(DATA)) \
		$(if $(LOAD),$(if $(SERVERS),--servers) $(if $(PARTS),--parts $(PARTS))) \
		$(if $(FOLD),$(if $(TURNS),--turns $(TURNS)) $(if $(SEED),--seed $(SEED)))

chaos: .venv/installed staticfiles/staticfiles.json ## break what can break while chapters are played; FAULTS, SEED, MINUTES, SERVERS=1 [CLOCK=15]
	@python -m chaos --faults $(or $(FAULTS),1000) --seed $(or $(SEED),7) --minutes $(or $(MINUTES),45) $(if $(SERVERS),--servers) \
		$(if $(CLOCK),--clock-ahead $(CLOCK))

pictures: .venv/installed-dev ## take the pictures of README.md and docs/guide.md anew; needs Chromium
	@python -m testing.pictures

lock: .venv/installed-dev ## write the hashes of what requirements*.txt name, for every platform
	$(LOCK) requirements.lock requirements.txt
	$(LOCK) requirements-dev.lock requirements-dev.txt

clean: ## remove what was installed and built here; chapters stay
	rm -rf .venv staticfiles .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

# A stamp, so that a later start installs nothing; without its Python the stamp is worth nothing.
$(shell test -x .venv/bin/python || rm -f .venv/installed .venv/installed-dev)

.venv/installed: requirements.lock
	@test -n "$(PYTHON)" || { echo "Story Engine needs Python 3.11 or newer, and found none." \
	"Install it, or name it: make run PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "Story Engine needs Python 3.11 or newer; $(PYTHON) is not." >&2; exit 1; }
	@echo "Installing what Story Engine needs into .venv. This happens once and takes about a minute."
	@.venv/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	@$(PIP_INSTALL) requirements.lock
	@touch $@

.venv/installed-dev: .venv/installed requirements-dev.lock
	@echo "Installing what the tests and checks need into .venv."
	@# Compiled when it is imported: much of it never is.
	@$(PIP_INSTALL) requirements-dev.lock --no-compile
	@touch $@

# Style sheets and scripts under names made from their content, for caches to keep.
staticfiles/staticfiles.json: .venv/installed $(shell find static */static -type f)
	@DEBUG=false python manage.py collectstatic --no-input --verbosity 0

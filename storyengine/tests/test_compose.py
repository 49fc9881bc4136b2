"""Tests of the services in compose.yaml: their restarts, health checks, limits and rights."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

from storyengine.tests.compose_file import COMPOSE, SERVICES

BASE = Path(settings.BASE_DIR)
DOCKERFILE = (BASE / "Dockerfile").read_text(encoding="utf-8")
WORKFLOW = BASE / ".github/workflows/ci.yml"

PASSWORD = "STORYENGINE_PASSWORD"
REFUSED_WITHOUT = r"\$\{STORYENGINE_PASSWORD:\?[^}]+\}"

each_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)


def test_more_web_processes_and_workers_can_be_started() -> None:
    """A name or a port that is given can be had by one container alone."""
    for name in ("web", "worker"):
        assert not {"container_name", "hostname", "ports"} & set(SERVICES[name])
        assert SERVICES[name]["environment"]["STORYENGINE_LOG_FILES"] == "false"


@each_service
def test_what_ends_is_started_again_and_what_hangs_is_seen(service: dict[str, Any]) -> None:
    if service["restart"] == "no":
        # The service `prepare` runs once. The other services start only after it has succeeded.
        assert service is SERVICES["prepare"]
        return
    assert service["restart"] == "unless-stopped"
    check = service["healthcheck"]
    assert {"test", "interval", "timeout", "retries"} <= set(check)
    # Docker runs the first health check after `start_interval`. Without this field, it waits for
    # `interval`.
    assert check.get("start_interval", check["interval"]) in ("5s", "10s")


@each_service
def test_it_can_write_to_its_data_only_and_get_no_other_rights(service: dict[str, Any]) -> None:
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    # A service without `user` is built from the Dockerfile, which names the user.
    assert service.get("user", "") != "root"
    assert "user" in service or "build" in service
    # Every mount is a named volume. So no service can reach a folder of the host.
    volumes = {mount.partition(":")[0] for mount in service.get("volumes", [])}
    assert volumes <= set(COMPOSE["volumes"])


@each_service
def test_it_cannot_take_the_whole_machine(service: dict[str, Any]) -> None:
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert service["pids_limit"] > 0


@each_service
def test_nothing_is_published_beyond_this_machine_unasked(service: dict[str, Any]) -> None:
    for port in service.get("ports", []):
        assert port.startswith("${PUBLISH_ON:-127.0.0.1}:")


def words_in(document: Any) -> Iterator[str]:
    """Yield every value of the parsed file. In these values compose replaces variables."""
    if isinstance(document, dict):
        document = document.values()
    elif not isinstance(document, list):
        yield str(document)
        return
    for part in document:
        yield from words_in(part)


@each_service
def test_none_of_the_program_starts_without_a_password(service: dict[str, Any]) -> None:
    """compose refuses to start if a variable that is written as `${NAME:?...}` is unset or
    empty."""
    given = service.get("environment", {}).get(PASSWORD)
    if "build" in service:
        assert re.fullmatch(REFUSED_WITHOUT, str(given))
    else:
        assert given is None


def test_no_password_stands_in_for_one_that_is_not_set() -> None:
    used = [words for words in words_in(COMPOSE) if PASSWORD in words]
    assert used
    assert [words for words in used if not re.fullmatch(REFUSED_WITHOUT, words)] == []
    assert PASSWORD not in DOCKERFILE


def test_only_what_serves_pages_is_published() -> None:
    published = {name for name, service in SERVICES.items() if "ports" in service}
    assert published == {"proxy", "alone", "embedded"}
    for name in ("web", "alone", "embedded"):
        # The file sets this address itself. If the host's environment could change it, the program
        # might listen where Docker cannot reach it.
        assert SERVICES[name]["environment"]["STORYENGINE_HOST"] == "0.0.0.0"  # noqa: S104


def test_the_backup_lies_where_it_is_looked_for() -> None:
    backup = SERVICES["backup"]
    assert backup["command"] == "python manage.py backup --daily"
    for name in ("backup", "prepare"):
        assert "backups:/backups" in SERVICES[name]["volumes"]
        assert SERVICES[name]["environment"]["STORYENGINE_BACKUPS"] == "/backups"
    assert "find /backups -name 'storyengine-*.dump'" in backup["healthcheck"]["test"][1]
    # The folder in the image has this owner, and Docker gives a new volume the same owner.
    assert re.search(r"--owner=storyengine .* /backups\b", DOCKERFILE)


def test_the_programs_that_back_up_are_of_the_servers_version() -> None:
    """pg_dump must not be older than the server, because it refuses a newer one. It must not be
    newer either, because the server could not read its backups."""
    (server,) = re.findall(r"^postgres:(\d+)\.\d+-alpine@", SERVICES["postgres"]["image"])
    (client,) = re.findall(r"postgresql-client-(\d+)", DOCKERFILE)
    assert client == server


def images_named() -> list[str]:
    """Return the images that compose.yaml, the Dockerfile and the workflow of CI name.

    The program's own image is left out. It has no digest before it is built.
    """
    ours = {service["image"] for service in SERVICES.values() if "build" in service}
    files = [path.read_text(encoding="utf-8") for path in (BASE / "compose.yaml", WORKFLOW)]
    named = re.findall(r"^\s*(?:- )?(?:image|container): *(\S.*)$", "\n".join(files), re.MULTILINE)
    stages = re.findall(r"^FROM (\S+)(?: AS \w+)?$", DOCKERFILE, re.MULTILINE)
    assert len(stages) == DOCKERFILE.count("FROM ")
    return [one for one in (*named, *stages) if one not in ours]


def test_every_image_is_pinned_by_digest_beside_its_readable_tag() -> None:
    images = images_named()
    kinds = {one.partition(":")[0] for one in images}
    assert kinds == {"python", "postgres", "redis", "nginx"}
    for one in images:
        assert re.fullmatch(r"[a-z]+:\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}", one), one


def test_every_action_is_pinned_by_commit_beside_its_readable_tag() -> None:
    used = re.findall(r"uses: *(.+)", WORKFLOW.read_text(encoding="utf-8"))
    assert len(used) > 5
    for one in used:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one), one


ONCE_A_WEEK = "github.event_name == 'schedule'"


class TestWorkflow:
    text = WORKFLOW.read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)

    def test_pull_requests_are_checked_as_everywhere_else(self) -> None:
        # The key is True, because YAML 1.1 reads the key `on` as this value.
        assert "pull_request" in self.workflow[True]
        assert {"run": ".ci/run"} in self.workflow["jobs"]["checks"]["steps"]

    def test_whatever_runs_the_suite_has_a_small_disk_to_fill(self) -> None:
        jobs = [
            job
            for job in self.workflow["jobs"].values()
            if any(step.get("run") == ".ci/run" for step in job["steps"])
        ]
        assert len(jobs) == 2
        for job in jobs:
            folder = job["env"]["STORYENGINE_TEST_DISK"]
            assert f"--tmpfs {folder}:size=12m" in job["container"]["options"]
        # Where no disk can be filled, the tests of a full disk are skipped. The script warns of
        # this at its beginning and at its end.
        script = (BASE / ".ci/run").read_text(encoding="utf-8").splitlines()
        assert script.count("say_what_is_not_tried") == 2
        assert script[-1] == "say_what_is_not_tried"

    def test_what_is_installed_is_audited_and_no_failure_of_that_is_hidden(self) -> None:
        (step,) = [
            step
            for job in self.workflow["jobs"].values()
            for step in job["steps"]
            if "pip-audit" in step.get("run", "")
        ]
        words = step["run"].split()
        # With `--strict` the job also fails if pip-audit cannot look up a package.
        assert "--strict" in words
        assert {"requirements.lock", "requirements-dev.lock"} <= set(words)
        assert not {"||", ";", "true", "--ignore-vuln"} & set(words)
        assert "continue-on-error" not in self.text

    def test_every_failure_and_a_thousand_faults_are_tried_once_a_week_on_both_databases(
        self,
    ) -> None:
        # The key is True, because YAML 1.1 reads the key `on` as this value.
        [schedule] = self.workflow[True]["schedule"]
        assert re.fullmatch(r"\d+ \d+ \* \* \d", schedule["cron"])
        failures, chaos = (self.workflow["jobs"][name] for name in ("every-failure", "chaos"))
        assert failures["if"] == chaos["if"] == ONCE_A_WEEK
        assert {"run": ".ci/run", "env": {"STORYENGINE_TEST_STRIDE": "1"}} in failures["steps"]
        # The script does not overwrite a stride that the environment gives.
        script = (BASE / ".ci/run").read_text(encoding="utf-8")
        strides = re.findall(r"^export STORYENGINE_TEST_STRIDE=(.*)$", script, re.MULTILINE)
        assert strides == ['"${STORYENGINE_TEST_STRIDE:-40}"']
        command = chaos["steps"][-1]["run"]
        assert command.startswith("make chaos ")
        assert "FAULTS" not in command
        assert command.endswith(" ${{ matrix.form }}")
        assert chaos["strategy"]["matrix"]["form"] == ["", "SERVERS=1", "SERVERS=1 CLOCK=15"]

    def test_it_may_only_read(self) -> None:
        assert self.workflow["permissions"] == {"contents": "read"}


class TestDeploymentDocument:
    text = (BASE / "docs/deployment.md").read_text(encoding="utf-8")

    def test_it_names_every_variable_that_compose_asks_for(self) -> None:
        compose = (BASE / "compose.yaml").read_text(encoding="utf-8")
        asked = set(re.findall(r"\$\{([A-Z_]+)", compose))
        assert {name for name in asked if f"`{name}`" not in self.text} == set()

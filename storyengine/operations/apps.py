from importlib import import_module

from django.apps import AppConfig


class OperationsConfig(AppConfig):
    name = "storyengine.operations"
    label = "operations"

    def ready(self) -> None:
        for name in ("configuration", "process_checks", "service_checks"):
            import_module(f"storyengine.operations.checks.{name}")

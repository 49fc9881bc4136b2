from importlib import import_module

from django.apps import AppConfig


class AccessConfig(AppConfig):
    name = "storyengine.access"
    label = "access"

    def ready(self) -> None:
        for name in ("checks", "stack.service_checks", "stack.process_checks"):
            import_module(f"storyengine.{name}")

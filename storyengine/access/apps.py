from importlib import import_module

from django.apps import AppConfig


class AccessConfig(AppConfig):
    name = "storyengine.access"
    label = "access"

    def ready(self) -> None:
        for name in ("storyengine.checks", "storyengine.stack.service_checks"):
            import_module(name)

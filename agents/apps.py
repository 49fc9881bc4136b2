from importlib import import_module

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "agents"
    verbose_name = "Agents and model calls"

    def ready(self) -> None:
        # A flow declares its kinds of job when it is imported.
        for flow in (
            "beginning.locking",
            "remembering.summarizing",
            "telling.rebuilding",
            "replies.going_on",
        ):
            import_module(f"agents.flows.{flow}")
        # The modes are loaded after the flows, so that no mode can take the name of one of the
        # engine's own kinds of job. The module modes.checks reports faults in the modes'
        # declarations.
        import_module("agents.modes.checks")
        import_module("agents.modes.registry").all_modes()

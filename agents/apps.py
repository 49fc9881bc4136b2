from importlib import import_module

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "agents"
    verbose_name = "Agents and model calls"

    def ready(self) -> None:
        # A flow declares its kinds of job when it is imported.
        for flow in ("locking", "summarizing", "rebuilding", "going_on"):
            import_module(f"agents.flows.{flow}")
        # The modes are loaded after the flows, so that no mode can take the name of one of the
        # engine's own kinds of job. The module mode_checks reports faults in the modes'
        # declarations.
        import_module("agents.mode_checks")
        import_module("agents.modes").all_modes()

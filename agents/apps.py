from importlib import import_module

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "agents"
    verbose_name = "Agents and model calls"

    def ready(self) -> None:
        # When a flow is imported, it declares its kinds of job.
        for flow in ("locking", "summarizing", "narrating", "going_on"):
            import_module(f"agents.flows.{flow}")
        # The modes are loaded last, after the engine's own kinds. A check reports faults in their
        # declarations.
        import_module("agents.mode_checks")
        import_module("agents.modes").all_modes()

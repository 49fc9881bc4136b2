import signal
import threading
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from agents.calling.servers.choices import runs_embedded
from agents.llm.embedded.supervisor import Supervisor


class Command(BaseCommand):
    help = "Fetch the embedded model, run it on loopback, and start it again when it dies."
    # The command `prepare` has already run the checks for all processes.
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        stopping = threading.Event()
        for sign in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sign, lambda *_: stopping.set())
        if not runs_embedded():
            self.stdout.write(
                "STORYENGINE_LLM is not embedded and no agent uses the embedded model, so no model "
                "is run here."
            )
            stopping.wait()
            return
        Supervisor(settings.EMBEDDED_MODEL, stopping).run()

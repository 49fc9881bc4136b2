from typing import Any

from celery.utils.nodenames import default_nodename
from django.core.management.base import BaseCommand, CommandError

from agents.running.heartbeats import DEAD_AFTER, is_alive, since_heartbeat_of


class Command(BaseCommand):
    help = "Succeed if the worker of this machine, or of this container, lives."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        name = default_nodename("")
        if not is_alive(since_heartbeat_of(name)):
            seconds = round(DEAD_AFTER.total_seconds())
            raise CommandError(f"{name} has shown no sign of life for {seconds} seconds.")

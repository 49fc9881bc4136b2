from django.apps import AppConfig
from django.db.backends.signals import connection_created


class MemoryConfig(AppConfig):
    name = "memory"
    verbose_name = "Memory and drafts"

    def ready(self) -> None:
        from memory.shelf.plain_texts import give_sqlite_the_spelling

        connection_created.connect(give_sqlite_the_spelling)

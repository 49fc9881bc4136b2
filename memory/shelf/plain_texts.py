"""Lets both databases look for a word in the plain spelling of texts: `text__spells="zoe"`.

SQLite is given the function of sessions.language.spelling. PostgreSQL has a function of its own,
which migration 0002 makes of the same pattern and letters, because indexes of PostgreSQL store the
results. A change of the plain spelling needs a migration that makes the function and the indexes
anew.
"""

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CharField, Lookup, TextField

from sessions.language.spelling import plain_spelling


@CharField.register_lookup
@TextField.register_lookup
class Spells(Lookup):
    """The lookup whether the plain spelling of a field contains the plain spelling of a word."""

    lookup_name = "spells"

    def get_prep_lookup(self) -> str:
        return plain_spelling(self.rhs)

    def as_sql(self, compiler: Any, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        field, params = self.process_lhs(compiler, connection)
        return f"plain_spelling({field}) LIKE %s", (*params, self._pattern(connection))

    def as_sqlite(
        self, compiler: Any, connection: BaseDatabaseWrapper
    ) -> tuple[str, tuple[Any, ...]]:
        # For ASCII, LIKE ignores case by itself, and takes half the time of a call of Python.
        field, params = self.process_lhs(compiler, connection)
        has = (
            f"CASE WHEN length({field}) = length(CAST({field} AS BLOB))"
            f" THEN {field} LIKE %s ESCAPE '\\' ELSE spells({field}, %s) END"
        )
        read = (*params, *params, *params)
        return has, (*read, self._pattern(connection), *params, self.rhs)

    def _pattern(self, connection: BaseDatabaseWrapper) -> str:
        return f"%{connection.ops.prep_for_like_query(self.rhs)}%"


def give_sqlite_the_spelling(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Let a new connection to SQLite call the function that makes the plain spelling."""
    if connection.vendor == "sqlite":
        connection.connection.create_function("spells", 2, _spells, deterministic=True)


def _spells(text: str, word: str) -> bool:
    return word in plain_spelling(text)

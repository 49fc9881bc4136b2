"""Django's PostgreSQL backend, with a pool that loses no request when the server restarts."""

import select
from typing import Any

from django.db.backends.postgresql import base
from psycopg import Connection, OperationalError
from psycopg_pool import ConnectionPool


class DatabaseWrapper(base.DatabaseWrapper):
    """A wrapper that never gives out a connection that the server has closed.

    If it meets such a connection, it has the pool check the others. CONN_HEALTH_CHECKS would do
    less: the pool would query the server before each use, discard dead connections one at a time,
    and double its wait before each next one. With a pool of eight, the first request after a
    restart would fail after half a minute.
    """

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        while self.pool and is_dead(connection):
            self.pool.putconn(connection)
            # The other connections of the pool have most likely been closed too, so they are
            # checked.
            self.pool.check()
            connection = super().get_new_connection(conn_params)
        return connection

    def is_usable(self) -> bool:
        """Return whether the connection is alive. This makes no query.

        agents.running.database keeps connections, and calls this before each piece of work. Django
        calls it only if it would otherwise close the connection.
        """
        return self.connection is not None and not is_dead(self.connection)


def is_dead(connection: Connection[Any]) -> bool:
    """Return whether the server has closed this idle connection.

    A living idle connection has nothing to read, except for a notice now and then.
    """
    if connection.closed:
        return True
    socket = select.poll()
    socket.register(connection.fileno(), select.POLLIN)
    if not socket.poll(0):
        return False
    try:
        ConnectionPool.check_connection(connection)
    except OperationalError:
        return True
    return False

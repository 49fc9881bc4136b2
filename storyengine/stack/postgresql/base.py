"""Django's PostgreSQL backend, with a pool that loses no request when the server restarts."""

import select
from typing import Any

from django.db.backends.postgresql import base
from psycopg import Connection, OperationalError
from psycopg_pool import ConnectionPool


class DatabaseWrapper(base.DatabaseWrapper):
    """A database wrapper that never returns a connection that the server has closed.

    When the wrapper finds such a connection, it makes the pool check all others. With Django's
    CONN_HEALTH_CHECKS, the pool would ask the server before each use, discard dead connections one
    by one, and double its wait after each of them. With a pool of eight, the first request after a
    restart would then fail after half a minute.
    """

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        while self.pool and is_dead(connection):
            self.pool.putconn(connection)
            # All connections of the pool are checked, because the server has probably closed the
            # others too.
            self.pool.check()
            connection = super().get_new_connection(conn_params)
        return connection

    def is_usable(self) -> bool:
        """Return whether the connection is alive. This takes no query.

        agents.running.database keeps connections open, and calls this method before each piece of
        work. Django itself calls it only before it would close a connection.
        """
        return self.connection is not None and not is_dead(self.connection)


def is_dead(connection: Connection[Any]) -> bool:
    """Return whether the server has closed this idle connection.

    An idle connection that is alive rarely has anything to read. If there is something to read, the
    server is asked.
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

"""Django's PostgreSQL, with a pool of connections that a restart of the server costs no request."""

import select
from typing import Any

from django.db.backends.postgresql import base
from psycopg import Connection, OperationalError
from psycopg_pool import ConnectionPool


class DatabaseWrapper(base.DatabaseWrapper):
    """Hands out no connection that the server has closed, and asks the server only on suspicion.

    CONN_HEALTH_CHECKS would have the pool ask before each use. Of dead connections it then throws
    away one at a time and waits twice as long before each next one, so that a pool of eight fails
    the first request after a restart, half a minute later.
    """

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        while self.pool and is_dead(connection):
            self.pool.putconn(connection)
            # Whatever else lies in the pool has most likely died with it.
            self.pool.check()
            connection = super().get_new_connection(conn_params)
        return connection

    def is_usable(self) -> bool:
        """No query is made: agents.running.database, which keeps connections, asks before all work.

        Django asks only where it would throw the connection away otherwise.
        """
        return self.connection is not None and not is_dead(self.connection)


def is_dead(connection: Connection[Any]) -> bool:
    """Whether the server has ended this connection, which nobody uses.

    One that lives and was asked nothing has nothing to read, but for a notice now and then.
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

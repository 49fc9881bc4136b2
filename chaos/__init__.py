"""Plays chapters while it causes faults, such as killed processes and servers. The same seed causes
the same faults."""

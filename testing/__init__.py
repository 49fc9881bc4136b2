"""Runs the whole program for tests, chaos and measurements: the scripted model server, the
processes, the clients, and the data of sessions. The program itself imports nothing of it."""

"""Faults as a repeatable program: chapters are played while everything around them breaks."""

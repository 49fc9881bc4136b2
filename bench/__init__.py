"""The benchmarks of Story Engine."""

"""A way to play in a folder of its own, which test_mode_folder.py copies into a copy of the
program."""

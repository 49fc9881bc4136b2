"""A way to play that is a folder of its own. test_mode_folder.py copies it into a program."""

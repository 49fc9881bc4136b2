"""A way to play as a folder of its own; test_mode_folder.py copies it beside the program."""

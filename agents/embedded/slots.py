"""How the embedded server shares its time between calls."""

# Two calls at a time: a reply need not wait for a running summary.
SLOTS = 2
# llama.cpp reads prompts in the order of their slots. Memory and prose are written in the last one
# and characters get the first that is free, so that a reply does not wait until a summary's prompt
# is read.
BACKGROUND_SLOT = SLOTS - 1

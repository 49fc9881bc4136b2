"""How the embedded server shares its time between calls."""

# Two calls at a time: a reply need not wait for a running summary.
SLOTS = 2
# llama.cpp reads prompts in the order of their slots. What nobody waits for is written in the last
# one, so that a reply beside it is in the first and need not wait until a summary's prompt is read.
BACKGROUND_SLOT = SLOTS - 1

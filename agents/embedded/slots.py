"""The slots of the embedded server, each of which serves one call at a time."""

# With two slots a reply need not wait for a running summary.
SLOTS = 2
# llama.cpp processes prompts in the order of their slots. Background calls use the last slot, so
# that a reply uses the first and need not wait until a summary's prompt is processed.
BACKGROUND_SLOT = SLOTS - 1

"""The slots of the embedded server, each of which serves one call at a time."""

# The number of slots. With two slots, a reply need not wait for a summary that is being written.
SLOTS = 2
# The slot for background calls. llama.cpp reads requests in the order of their slots. So a reply,
# which uses the first slot, need not wait until a summary's request is read.
BACKGROUND_SLOT = SLOTS - 1

"""The slots of the embedded server. Each slot serves one call at a time."""

# The number of slots. With two slots, a reply need not wait for a summary that is being written.
SLOTS = 2
# The slot for background calls, such as summaries. It is the last slot, because llama.cpp reads
# requests in the order of their slots. So the request of a reply, in the first slot, is read before
# the request of a summary.
BACKGROUND_SLOT = SLOTS - 1

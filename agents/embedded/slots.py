"""The slots of the embedded server, each of which serves one call at a time."""

# With two slots a reply need not wait for a running summary.
SLOTS = 2
# llama.cpp reads requests in the order of their slots. Background calls use the last slot, so that
# a reply uses the first and need not wait until a summary's request is read.
BACKGROUND_SLOT = SLOTS - 1

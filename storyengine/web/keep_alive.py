"""The keep-alive of server-sent events. It keeps proxies from closing a stream that has no text."""

# The seconds between two comments. Few proxies close a silent stream within half a minute.
KEEP_ALIVE_SECONDS = 15.0
# The text is a comment, which readers of server-sent events ignore.
KEEP_ALIVE = ": waiting\n\n"

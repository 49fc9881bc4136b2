"""The keep-alive of server-sent events. Because of it, proxies keep a stream open that has no
text."""

# Few proxies close a silent stream within half a minute.
KEEP_ALIVE_SECONDS = 15.0
# The text is a comment, which readers of server-sent events ignore.
KEEP_ALIVE = ": waiting\n\n"

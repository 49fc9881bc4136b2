"""The keep-alive of server-sent events, by which proxies keep a stream open without text."""

# Few proxies close a silent stream within half a minute.
KEEP_ALIVE_SECONDS = 15.0
# This is a comment, which readers of server-sent events ignore.
KEEP_ALIVE = ": waiting\n\n"

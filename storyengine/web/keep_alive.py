"""The keep-alive of server-sent events: a comment that is sent while a stream has no text."""

# The seconds between two comments. Some proxies close a stream if nothing was sent for half a
# minute.
KEEP_ALIVE_SECONDS = 15.0
# A line that begins with a colon is a comment, which clients ignore.
KEEP_ALIVE = ": waiting\n\n"

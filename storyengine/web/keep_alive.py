"""What server-sent events say now and then, also while no text comes, so that proxies keep them."""

# Few proxies give up on a silent stream before half a minute.
KEEP_ALIVE_SECONDS = 15.0
# A comment: whoever reads the events passes it over.
KEEP_ALIVE = ": waiting\n\n"

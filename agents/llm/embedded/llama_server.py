"""The process that runs llama.cpp on loopback until its standard input closes.

`agents.llm.embedded.server` starts this process. The process reads one line of JSON from its
standard input, and writes one line of JSON to its standard output. It does not import Django,
because it only runs the model.
"""

import json
import os
import signal
import sys

import xllamacpp

from agents.llm.embedded.slots import SLOTS

# The number of tokens that one slot holds: a request together with its answer.
CONTEXT_PER_SLOT = 8192
# The size in MiB of llama.cpp's cache for requests that no slot holds any longer. At 28 KB a token,
# the cache holds about a dozen requests of 3,000 tokens.
CACHE_MIB = 1024
# llama.cpp reads a request in batches of this many tokens. The number is small, because during a
# batch the other slot writes nothing and a stopped call still occupies its slot.
BATCH = 128
# Only errors are logged, because other messages of llama.cpp may contain words of requests.
LOG_ERRORS = 1


def start(model_file: str, model_name: str, access_key: str) -> xllamacpp.Server:
    """Load the model and serve it on a free port of loopback."""
    params = xllamacpp.CommonParams()
    params.model.path = model_file
    params.model_alias = {model_name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [access_key]
    # Web pages have other origins, so browsers do not let them read answers, even with the key.
    params.cors_origins = "null"
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = LOG_ERRORS
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * CONTEXT_PER_SLOT
    params.cache_ram_mib = CACHE_MIB
    params.n_batch = params.n_ubatch = BATCH
    # Checkpoints of a half-read request are for models whose cache cannot be cut back to any place.
    # The known models need none, and a server with checkpoints was seen to read a request for ever,
    # which blocks the other slot too.
    params.n_ctx_checkpoints = 0
    return xllamacpp.Server(params)


def main() -> None:
    # Ctrl-C reaches every process of the terminal, but only the parent may end this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        server = start(**json.loads(sys.stdin.readline()))
    except RuntimeError as error:
        # llama.cpp has already logged why it cannot serve the model.
        sys.exit(f"llama.cpp: {error}")
    os.write(answers, json.dumps({"address": server.listening_address}).encode() + b"\n")
    # Wait until the parent closes standard input. When the parent ends, the system closes it.
    sys.stdin.read()
    # End the process at once, because a normal exit would wait for running replies.
    os._exit(0)


if __name__ == "__main__":
    main()

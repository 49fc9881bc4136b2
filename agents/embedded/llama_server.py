"""The process that holds the model: llama.cpp on loopback, until its standard input closes.

`agents.embedded.server` starts it, writes one line of JSON to its standard input and reads one from
its standard output. It imports no Django: it holds the model and nothing else.
"""

import json
import os
import signal
import sys

import xllamacpp

from agents.embedded.slots import SLOTS

# Tokens that each slot can hold, prompt and answer together.
CONTEXT_PER_SLOT = 8192
# Prompts that are not in a slot now, read already: at 28 KB a token about a dozen of 3,000.
CACHE_MIB = 1024
# Tokens of prompts that are read in one go. While one is read nothing else happens: the other call
# gets no word, and a call that was stopped holds its slot.
BATCH = 128
# Errors only: what llama.cpp logs beyond them may hold words of prompts.
LOG_ERRORS = 1


def start(model_file: str, model_name: str, access_key: str) -> xllamacpp.Server:
    """Load the model and serve it on a free port of loopback."""
    params = xllamacpp.CommonParams()
    params.model.path = model_file
    params.model_alias = {model_name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [access_key]
    # An origin that no page has: web pages may not read answers, even if they knew the key.
    params.cors_origins = "null"
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = LOG_ERRORS
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * CONTEXT_PER_SLOT
    params.cache_ram_mib = CACHE_MIB
    params.n_batch = params.n_ubatch = BATCH
    return xllamacpp.Server(params)


def main() -> None:
    # Ctrl-C reaches every process of the terminal; this one ends when its parent wants it to.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        server = start(**json.loads(sys.stdin.readline()))
    except RuntimeError as error:
        # llama.cpp has said why.
        sys.exit(f"llama.cpp: {error}")
    os.write(answers, json.dumps({"address": server.listening_address}).encode() + b"\n")
    # Closed by the parent, also by its death.
    sys.stdin.read()
    # An orderly end would wait for running replies.
    os._exit(0)


if __name__ == "__main__":
    main()

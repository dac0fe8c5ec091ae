"""What the picker remembers from one request to the next, and the plugins that keep it.

Nothing here reads a clock: the time is the cycle's, or the end of a response. Everything is bounded, and forgets an
endpoint that left the pool.

    hashing        prompts as chains of block hashes
    prefix         where the beginning of a prompt is cached: the slots and the index that fills them
    approximate    an index from what was sent
"""

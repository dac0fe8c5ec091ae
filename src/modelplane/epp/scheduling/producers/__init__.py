"""Plugins that keep state from one request to the next, and that state.

Nothing here reads a clock: the time is the cycle's, or the end of a response. Everything is bounded, and state
of an endpoint that left the pool is dropped.

    hashing            prompts as chains of block hashes
    prefix             where the beginning of a prompt is cached: the slots, and the index that fills them
    approximate        the prefix index from what was sent
    approx_producer    its plugin
    kv_events          KV events of engines, decoded from the wire
    precise            the prefix index from KV events
    precise_producer   its plugin
    in_flight          requests and tokens in flight
    no_hit_lru         turns for requests whose prompt no endpoint has cached
    no_hit_tokens      the same, fair in tokens
    sessions           sessions and their endpoints
    regression         a line learned one sample at a time
    latency            predictions of an endpoint's times, learned as it serves
    types              the plugin types

Slots that others read:

    PREFIX, PREFIXES   a `PrefixMatch`; read with `prefix_of`
    TOKENS             the prompts in tokens of the server's own tokenizer
    LATENCY            a `Prediction` or None for each endpoint of the cycle
    SESSION            the request's session
"""

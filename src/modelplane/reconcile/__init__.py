"""The level-based loop: a keyed queue, back-off, a breaker, and the interfaces of store and clock that it needs."""

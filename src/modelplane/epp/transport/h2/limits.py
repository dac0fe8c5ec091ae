"""Limits of the HTTP/2 server."""

import msgspec


class H2Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The peer is a proxy with many clients: limits on load are generous, limits on useless frames are strict."""

    streams: int = 20_000
    frame_bytes: int = 65_536
    message_bytes: int = 33 << 20
    header_list_bytes: int = 16_384
    header_block_bytes: int = 32_768
    stream_window: int = 4 << 20
    connection_window: int = 64 << 20
    unsent_bytes: int = 8 << 20
    """The limit of one stream's output; above it nothing more is read for it until its peer reads."""
    resets: int = 20_000
    """Streams that the peer may give up at once; a tenth of them comes back every second."""
    no_op_frames: int = 10_000
    """Frames without effect (pings, empty data, priorities, settings) at once; a tenth comes back every second."""
    begin_s: float = 10.0
    """For the preface and settings of a new connection."""
    stall_s: float = 30.0
    """Within which a frame that began must be whole, a header block must end, and written bytes must be taken."""

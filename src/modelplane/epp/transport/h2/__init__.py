"""A gRPC server on asyncio, as small as one method allows: HTTP/2 by RFC 9113, read and written here.

huffman, hpack   header blocks
frames           numbers of the RFC, how frames are written
reader           the preface, and frames that come in pieces
opening          what a header block asks for
limits           what is accepted of a peer
stream           messages in frames, as windows allow
connection       the rules, without IO
control          the rules of frames that carry no call
usual            calls as nearly all of them are, in one go
server           the same over sockets and TLS

Blocks that are written are constant, so nothing here codes headers.
"""

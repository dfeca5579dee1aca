"""Tools of other programs, which a model may ask for: servers of the Model Context Protocol, and what they may do.

Nothing is imported of the protocol's package, and nothing is started, before a conversation uses a server.
"""

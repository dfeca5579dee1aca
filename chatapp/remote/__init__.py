"""Models on other people's servers, and on one's own others: the engine's contract over HTTP.

- `address.py`     what a server is called, and whether it is this machine
- `remotes.py`     the servers that the user gave names to, and their keys
- `connection.py`  requests, and streams that can be left at any time
- `protocol.py`    what one needs of a protocol; `openai.py`, `ollama.py` and `kserve.py` are those there are
- `reading.py`     what they say as JSON, which may be anything
- `engine.py`      the engine: requests from options, deltas from what arrives, times by this machine's clock
- `opening.py`     finds out what a server speaks, and opens a model of it
"""

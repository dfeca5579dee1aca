"""Models on other servers: the engine's contract over HTTP.

- `address.py`     a server's name and URL, and whether it is this machine
- `remotes.py`     the saved servers and their keys
- `connection.py`  requests, and streams that can be closed at any time
- `protocol.py`    what the engine needs of a protocol; `openai.py`, `ollama.py` and `kserve.py` implement it
- `reading.py`     careful access to the JSON that servers send
- `engine.py`      the engine: requests from options, deltas from events, timings by the local clock
- `opening.py`     detects a server's protocol and opens one of its models
"""

"""The server: other programs' protocols in front of the models of one user.

A request passes these modules, in this order:

- `connections.py`  the socket: bytes become requests, patience with slow ones is limited
- `guard.py`        who may ask: Host, Origin, CORS, keys, before anything is read
- `app.py`          finds the endpoint, reads its body, watches for the client to leave, and forms what is refused
- a protocol        `openai.py`, `anthropic.py`, `ollama.py`, `llamacpp.py`, `kserve.py`: shapes only; each has a
                    `PROTOCOL` with its endpoints, the pydantic model of each body, and the form of its errors
- `service.py`      what all protocols draw on: `Service.answer` gives a `Stream` of the engine's deltas
- `queue.py`        places, shared out fairly; `loaded.py` models, opened on demand within a budget of memory
- `response_store.py` responses that later requests go on from
- `drawing.py`      the thread that draws the engine's generator; closing the stream closes it

`start.py` runs it all until it is told to end. A new protocol is a module with a `PROTOCOL`, and its line in `app.py`.
"""

"""The server: other programs' protocols in front of one user's models.

A request passes these modules, in this order:

- `connections.py`  the socket: parses HTTP, and drops slow or surplus connections
- `guard.py`        access control: Host, Origin, CORS, keys, before the body is read
- `app.py`          finds the endpoint, reads its body, watches for the client to leave, and forms errors
- a protocol        `openai.py`, `anthropic.py`, `ollama.py`, `llamacpp.py`, `kserve.py`: shapes only; each has a
                    `PROTOCOL` with its endpoints, the pydantic model of each body, and the form of its errors
- `service.py`      shared by all protocols: `Service.answer` gives a `Stream` of the engine's deltas
- `queue.py`        places, shared fairly; `loaded.py` models, opened on demand within a memory budget
- `response_store.py` responses that later requests continue
- `drawing.py`      the thread that runs the engine's generator; closing the stream closes it

`start.py` runs everything until told to end. A new protocol is a module with a `PROTOCOL`, and its line in `app.py`.
"""

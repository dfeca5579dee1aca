"""A replica: a model that is open on a node, and what it says to gateways."""

from collections.abc import AsyncIterator
from typing import Any

from chatapp.generation.contract import yes
from chatapp.generation.engine import Engine
from chatapp.generation.proxy import describe, draw, look
from chatapp.generation.wire import Json, read_options, write_delta
from chatapp.server.drawing import Drawing
from chatapp.server.refusals import explain
from chatapp.text.threads import in_thread


class Replica:
    """A model that answers the calls of `DeployedEngine`; belongs to the event loop that asks it."""

    def __init__(self, engine: Engine):
        self.engine = engine

    async def draw(self, asked: Json) -> AsyncIterator[Any]:
        """The deltas of a call, in lists, and None after the last one; or why it is refused.

        A list ends with tokens where it has text: then it is known of which tokens all text was told.
        """
        drawing = Drawing(lambda: draw(self.engine, asked, read_options(asked["options"])))
        group = list[Any]()
        try:
            async for delta in drawing:
                group.append(write_delta(delta))
                if delta.tokens or not delta.text:
                    yield group
                    group = []
            yield group
            yield None
        except Exception as error:
            yield write_refusal(error)
        finally:
            drawing.close()
            await drawing.ended.wait()

    async def look(self, asked: Json) -> Any:
        """What the engine tells without writing, or why that is refused."""
        try:
            if asked["call"] == "facts":
                return describe(self.engine)
            return await in_thread(lambda: look(self.engine, asked, yes))
        except Exception as error:
            return write_refusal(error)


def write_refusal(error: Exception) -> Json:
    """What an error means to a client."""
    told = explain(error)
    return {"refused": {"status": told.status, "message": told.message, "param": told.param, "code": told.code}}

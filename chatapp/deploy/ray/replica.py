"""A replica: a model open on a node, and its messages to gateways."""

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
    """A model that answers the calls of `DeployedEngine`; used from a single event loop."""

    def __init__(self, engine: Engine):
        self.engine = engine

    async def draw(self, asked: Json) -> AsyncIterator[Any]:
        """The deltas of a call in lists, then None; or a refusal.

        A list with text ends with tokens, so that the tokens of all text sent are known.
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
        """The result of a call that generates nothing, or a refusal."""
        try:
            if asked["call"] == "facts":
                return describe(self.engine)
            return await in_thread(lambda: look(self.engine, asked, yes))
        except Exception as error:
            return write_refusal(error)


def write_refusal(error: Exception) -> Json:
    """An error as a message to the gateway."""
    told = explain(error)
    return {"refused": {"status": told.status, "message": told.message, "param": told.param, "code": told.code}}

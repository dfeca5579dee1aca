"""Request bodies: JSON, checked strictly; unknown fields are refused by name."""

import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from backends.suggest import suggest
from chatapp.generation.options import KNOBS
from chatapp.server.refusals import Refusal


class Body(BaseModel):
    """A body whose fields are all known."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Anything(Body):
    """A body that is refused, whatever it says."""

    model_config = ConfigDict(extra="allow")


class TextPart(Body):
    """A part of a message; one of a type that is not read is refused for that, whatever else it has."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_other_types(cls, told: object) -> object:
        kind = told.get("type") if isinstance(told, dict) else None
        if isinstance(kind, str) and kind not in get_args(cls.model_fields["type"].annotation):
            raise ValueError(f"is of the type {kind[:40]!r}, and the models here read only text")
        return told


class SampledBody(Body):
    """A body that may have, besides its fields, every number of chatapp that says how a token is chosen."""

    model_config = ConfigDict(extra="allow", json_schema_extra=lambda schema: describe_knobs(schema))
    __pydantic_extra__: dict[str, Any]  # Any: JSON, of which only numbers pass

    def knobs(self, where: str = "") -> dict[str, float]:
        """The sampling options given in this part of the body; Options checks their values."""
        found = dict[str, float]()
        for name, value in self.__pydantic_extra__.items():
            if name not in KNOBS:
                raise unknown_option(where + name, {*type(self).model_fields, *KNOBS})
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise Refusal(400, f"{where}{name} must be a number", param=where + name, code="invalid_type")
            found[name] = int(value) if type(KNOBS[name].default) is int and value == int(value) else value
        return found


def describe_knobs(schema: dict[str, Any]) -> None:  # Any: a JSON schema
    """Add the sampling options to the schema of a body."""
    for name, knob in KNOBS.items():
        number = "integer" if type(knob.default) is int else "number"
        schema["properties"].setdefault(
            name, {"type": [number, "null"], "description": f"{knob.does} ({knob.allowed})"}
        )
    schema["additionalProperties"] = False


Known = TypeVar("Known", bound=Body)


MOST = 200_000
"""Maximum values in a body: each may be wrong, and millions of errors would take many seconds."""
TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
"""A JSON string, or the beginning of an unterminated one."""


def parse(kind: type[Known], raw: bytes) -> Known:
    """Parse a body by its model; Refusal names what is wrong."""
    if raw.count(b",") > MOST and TEXT.sub(b"", raw).count(b",") > MOST:
        raise Refusal(413, f"the body has more than {MOST:,} values", code="body_too_large")
    try:
        body = kind.model_validate_json(raw.removeprefix(BOM_UTF8) or b"{}")
    except ValidationError as error:
        raise refuse(choose(error.errors(include_url=False)), kind) from None
    if isinstance(body, SampledBody):
        body.knobs()
    return body


def choose(errors: list[ErrorDetails]) -> ErrorDetails:
    """The error to report: of the first field, the innermost, where a union came closest to matching.

    A part of the wrong type is reported as such.
    """
    same = [one for one in errors if one["loc"][:1] == errors[0]["loc"][:1]]
    wrong = [one for one in same if one["type"] == "literal_error" and one["loc"][-1] == "type"]
    other = {one["loc"][:-1] for one in wrong}
    meant = [one for one in same if one["loc"][:-1] not in other]
    return max((*meant, *wrong), key=lambda one: (len(one["loc"]), one in meant))


def refuse(error: ErrorDetails, kind: type[Body]) -> Refusal:
    """The refusal for an error in a body of this kind."""
    *outer, last = error["loc"] or ("",)
    names = [*filter(is_name, outer), *([last] if is_name(last) or error["type"] == "extra_forbidden" else [])]
    where = ".".join(map(str, names))
    if error["type"] == "json_invalid":
        return Refusal(400, f"the body is not JSON in UTF-8: {error['ctx']['error']}", code="invalid_json")
    if error["type"] == "extra_forbidden":
        parts = kind.model_json_schema().get("$defs", {}).values() if outer else ()
        inner = {name for part in parts for name in part.get("properties", ())}
        return unknown_option(where, inner or {*kind.model_fields})
    if error["type"] == "missing":
        return Refusal(400, f"{where} is missing", param=where, code="missing")
    said = re.sub(r"^(Value error,|Input|List|String) ", "", error["msg"])
    code = "unsupported_parameter" if error["type"] == "value_error" else "invalid_type"
    return Refusal(400, f"{where or 'the body'} {said}", param=where or None, code=code)


TAGS = {"str", "int", "float", "bool", "dict", "list", "json"}
"""Union branches that pydantic puts into an error's location besides names."""


def is_name(part: int | str) -> bool:
    """Whether a part of an error's location is a name or an index, and not a union branch."""
    return isinstance(part, int) or part.isidentifier() and part not in TAGS and not part[0].isupper()


def unknown_option(name: str, known: set[str]) -> Refusal:
    """The refusal of an unknown option."""
    shown = name if len(name) <= 60 else f"{name[:60]}..."
    near = suggest(name.rpartition(".")[2], known)
    return Refusal(400, f"unknown option {shown!r}{near and f'; {near}'}", param=shown, code="unknown_parameter")


def given(**options: object) -> dict[str, Any]:  # Any: each has its own type, which Options checks
    """The options that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def unless_negative(value: int | None) -> int | None:
    """The number, or None if it is negative, as llama.cpp's and Ollama's clients send for no limit."""
    return value if value is not None and value >= 0 else None


def read_bias(bias: Mapping[str, float] | None) -> dict[int, float] | None:
    """Token biases, whose ids are strings in JSON."""
    if bias is None:
        return None
    try:
        return {int(token): value for token, value in bias.items()}
    except ValueError:
        raise Refusal(400, "logit_bias must be keyed by token ids", param="logit_bias", code="invalid_value") from None


def read_mirostat(knobs: Mapping[str, float], version: int | None) -> Mapping[str, float]:
    """The options that count for this version of Mirostat: clients send its settings even with version 0."""
    if version == 0:
        return {name: value for name, value in knobs.items() if not name.startswith("mirostat_")}
    return {"mirostat_tau": 5.0, **knobs} if version else knobs


def read_stop(stop: str | list[str] | None) -> tuple[str, ...] | None:
    """The stop strings, given as one string or several."""
    return (stop,) if isinstance(stop, str) else None if stop is None else tuple(stop)

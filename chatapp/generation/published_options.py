"""The sampling options that a model's publisher recommends, in generation_config.json."""

from pathlib import Path

from chatapp.generation.errors import GenerationError
from chatapp.generation.options import OptionError, Options
from model_store.files import optional_json

SAMPLING = ("temperature", "top_k", "top_p", "min_p")
PENALTIES = ("repetition_penalty",)


def published_options(folder: Path) -> Options:
    """Our defaults, in which what the publisher of the checkpoint in `folder` says counts first.

    With `"do_sample": false` it is greedy; what is said about sampling beside it has no effect then.
    `stop_strings`, one or several, end a reply.
    """
    path = folder / "generation_config.json"
    config = optional_json(path)
    greedy = config.get("do_sample") is False
    names = PENALTIES if greedy else SAMPLING + PENALTIES
    values = {name: config[name] for name in names if config.get(name) is not None}
    if stop := config.get("stop_strings"):
        values["stop"] = (stop,) if isinstance(stop, str) else stop
    try:
        return Options(**values | ({"temperature": 0.0} if greedy else {}))
    except OptionError as error:
        raise GenerationError(f"{path} has a wrong value: {error}; correct it, or delete the line") from error

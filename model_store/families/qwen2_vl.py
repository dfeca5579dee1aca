"""The language model of Qwen2-VL: Qwen2, whose positions in text are the same in all three dimensions."""

from backends.decoder import Decoder
from model_store.checkpoint.checkpoint import Config
from model_store.families import qwen2
from model_store.families.qwen2 import LAYER, MODEL, TIED

PREFIX = "model.language_model.", "language_model.model.", "model.", "language_model."
UNUSED = ("visual.*", "model.visual.*", ".rotary_emb.inv_freq")


def decoder(config: Config) -> Decoder:
    """Read config.json, or its `text_config`."""
    return qwen2.decoder(text_of(config))


def text_of(config: Config) -> Config:
    """The fields of config.json, or its `text_config`, for the language model with text only."""
    text = {**config, **(config.get("text_config") or {})}
    for name in "rope_scaling", "rope_parameters":
        if isinstance(kind := text.get(name), dict) and "mrope_section" in kind:
            rest = {field: value for field, value in kind.items() if not field.startswith("mrope_")}
            for field in "type", "rope_type":
                if rest.get(field) == "mrope":
                    rest[field] = "default"
            text[name] = rest
    return text

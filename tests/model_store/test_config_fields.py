"""Wrong values in config.json: each is refused in one line that names the field, or is as good as a right one."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from backends.decoder import Decoder
from chatapp.cli.main import main
from model_store import UnsupportedCheckpoint, families
from model_store.checkpoint.config_fields import KINDS, LIMITS, NESTED, check_fields
from model_store.checkpoint.refusals import FIELDS
from support.checkpoints import MakeCheckpoint
from support.published_models import PUBLISHED

HERE = Path(__file__).parents[1]
CONFIGS = {
    path.parent.name: json.loads(path.read_text("utf-8"))
    for folder in ("golden", "golden_answers")
    for path in sorted(HERE.glob(f"{folder}/*/config.json"))
}
WRONG: list[Any] = [  # Any: JSON's
    None, True, "x", -1, 0, 0.5, math.nan, math.inf, -math.inf, 10**400, {"a": 1}, [5], [{"a": [None]}], "y" * 10_000,
]  # fmt: skip


def places(config: dict[str, Any], within: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The path of each field, also of those within others."""
    found = []
    for field, value in config.items():
        found.append((*within, field))
        if isinstance(value, dict) and field != "vision_config":
            found += places(value, (*within, field))
    return found


def changed(config: dict[str, Any], place: tuple[str, ...], value: Any) -> dict[str, Any]:
    first, *rest = place
    return {**config, first: changed(config[first], tuple(rest), value) if rest else value}


def is_sound(decoder: Decoder) -> bool:
    """Whether the numbers of a decoder are numbers."""
    numbers = [decoder.epsilon, decoder.embedding_scale, decoder.output_scale, decoder.logit_softcap, decoder.qkv_clip]
    for layer in {*decoder.layers, *decoder.encoder}:
        numbers += [layer.scale, layer.softcap, layer.window]
        numbers += [abs(each) for each in layer.rope.inverse_frequencies] if layer.rope else []
    return decoder.epsilon > 0 and all(math.isfinite(number) and number >= 0 for number in numbers)


@pytest.mark.parametrize("case", CONFIGS)
def test_any_field_may_have_any_wrong_value(case: str) -> None:
    for place in places(CONFIGS[case]):
        for value in WRONG:
            config = changed(CONFIGS[case], place, value)
            try:
                decoder = families.find(config).decoder(config)
            except UnsupportedCheckpoint as error:
                assert len(str(error)) < 500 and "\n" not in str(error), (place, value)
            except (KeyError, ValueError, ArithmeticError) as error:  # told by open_checkpoint, with the file's name
                assert len(str(error)) < 300, (place, value)
            else:
                assert is_sound(decoder), (place, value)


@pytest.mark.parametrize("case", ["llama-yarn", "phi3-longrope", "gemma3", "t5-flan", "gpt_neo", "smollm3"])
def test_a_wrong_kind_in_a_field_that_is_read_is_refused_by_its_name(case: str) -> None:
    for place in places(CONFIGS[case]):
        field = place[-1]
        if field in (KINDS.keys() | LIMITS.keys()) - FIELDS.keys():
            for value in [{"a": 1}, [{"a": [None]}]] + [[5], "x", math.nan] * (field in LIMITS):
                fits = (field in NESTED and isinstance(value, dict)) or (field, value) == ("intermediate_size", [5])
                if not fits:
                    with pytest.raises(UnsupportedCheckpoint, match=f"^{field} in config.json is "):
                        families.find(changed(CONFIGS[case], place, value))


VALUES = [
    ("architectures", 5, "architectures in config.json is 5, and should be a list of texts"),
    ("rms_norm_eps", "x", 'rms_norm_eps in config.json is "x", and should be a number above 0'),
    ("rms_norm_eps", math.nan, "rms_norm_eps in config.json is NaN"),
    ("rms_norm_eps", -1, "rms_norm_eps in config.json is -1"),
    ("rms_norm_eps", 0, "rms_norm_eps in config.json is 0"),
    ("rope_theta", math.nan, "rope_theta in config.json is NaN, and should be a number above 1"),
    ("rope_theta", 0, "rope_theta in config.json is 0"),
    ("rope_theta", -1, "rope_theta in config.json is -1"),
    ("rope_theta", math.inf, "rope_theta in config.json is Infinity"),
    ("eos_token_id", {"a": 1}, 'eos_token_id in config.json is {"a": 1}, and should be the number of a token'),
    ("num_hidden_layers", 2.5, "num_hidden_layers in config.json is 2.5, and should be a whole number, 1 or more"),
    ("hidden_act", ["silu"] * 1000, 'hidden_act in config.json is ["silu", "silu"'),
]


@pytest.mark.parametrize(
    ("field", "value", "says"), VALUES, ids=[f"{field}-{i}" for i, (field, *_) in enumerate(VALUES)]
)
def test_a_wrong_value_is_one_short_line_of_the_command(
    checkpoint: MakeCheckpoint, capsys: pytest.CaptureFixture[str], field: str, value: Any, says: str
) -> None:
    code = main(["run", str(checkpoint(**{field: value})), "x"])
    said = capsys.readouterr()
    assert (code, said.out, said.err.count("\n")) == (1, "", 1)
    assert says in said.err and len(said.err) < 250


def test_a_wrong_value_of_generation_config_is_refused_by_file_and_field(
    checkpoint: MakeCheckpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = checkpoint()
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": {"a": 1}}))
    assert main(["run", str(folder), "x"]) == 1
    assert capsys.readouterr().err.startswith(
        'Error: eos_token_id in generation_config.json is {"a": 1}, and should be'
    )


def test_a_shape_of_thousands_of_digits_is_not_printed(
    checkpoint: MakeCheckpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = checkpoint()
    path = folder / "model.safetensors"
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    for shape in [1] * 2 + [int("9" * 4000)], [0, int("9" * 4000)]:
        header["model.norm.weight"]["shape"] = shape
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])
        assert main(["run", str(folder), "x"]) == 1
        said = capsys.readouterr().err
        assert "model.safetensors" in said and "model.norm.weight" in said and len(said) < 400


def test_every_published_config_passes() -> None:
    for config in PUBLISHED.values():
        check_fields(config)

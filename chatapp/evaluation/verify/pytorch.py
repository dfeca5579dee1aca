"""PyTorch and transformers as the reference, if they are installed; nothing else imports them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from backends.versions import pip_install
from chatapp.evaluation.verify import VerifyError
from chatapp.evaluation.verify.prompts import Prompts, make_prompts
from chatapp.evaluation.verify.reference import Reference, add_numpy, check_finite, open_weights
from model_store import Progress, StoredModel


def from_torch(model: StoredModel, precision: str, on_progress: Progress | None = None) -> Reference:
    """The logits of transformers in float32, with the whole checkpoint in memory."""
    decoder, _ = open_weights(model)
    wanted = make_prompts(model, decoder)
    name, logits = transformers_logits(model.folder, wanted)
    known = (each[..., : decoder.vocab_size] for each in logits)  # without Gemma 3n's tokens for images and sounds
    reference = Reference(name, wanted, tuple(map(check_finite, known)))
    return add_numpy(reference, model, precision, on_progress)


def transformers_logits(folder: Path, wanted: Sequence[Prompts]) -> tuple[str, list[np.ndarray]]:
    """Versions and logits of transformers, which reads local files only, and runs no code in them."""
    try:
        import torch
        import transformers
    except ImportError as error:
        raise VerifyError(
            f"--against torch needs PyTorch and transformers ({error}); install them: "
            f"{pip_install('torch transformers sentencepiece protobuf')}"
        ) from error
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    classes = transformers.AutoModelForCausalLM, transformers.AutoModelForSeq2SeqLM
    try:
        model = classes[wanted[0].whole].from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, dtype=torch.float32, attn_implementation="eager"
        )
    except Exception as error:  # transformers has no base class of errors
        raise VerifyError(f"transformers cannot open {folder}: {error}") from error
    model.eval()
    found = []
    for prompts in wanted:
        ids = torch.tensor(prompts.tokens)
        with torch.inference_mode():
            if prompts.whole:
                start = torch.full((len(ids), 1), model.config.decoder_start_token_id)
                answer = torch.cat([start, ids[:, prompts.first + 1 :]], dim=1)
                logits = model(input_ids=ids[:, : prompts.first + 1], decoder_input_ids=answer).logits
            else:
                logits = model(ids).logits[:, prompts.first :]
        found.append(logits.float().numpy())
    return f"torch {torch.__version__}, transformers {transformers.__version__}", found

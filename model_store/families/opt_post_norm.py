"""OPT of 350M: norms after each addition, and none at the end."""

from model_store.families import opt
from model_store.families.opt import PREFIX, TIED, UNUSED, decoder

MODEL = {name: source for name, source in opt.MODEL.items() if name != "norm"}
LAYER = {name: source for name, source in opt.LAYER.items() if not name.endswith("_norm")} | {
    "attention_sum_norm": opt.LAYER["attention_norm"],
    "ffn_sum_norm": opt.LAYER["ffn_norm"],
}

"""What users of Ollama, llama.cpp and other programs type, and what that is here."""

COMMANDS = {
    "ps": "chatapp service status tells what a server has in memory",
    "stop": "a model leaves the memory with the program that opened it, and that of a server by its --keep-alive",
    "create": "chatapp import takes a model's files; its options are [NAME] in HOME/presets.toml, and "
    "its system prompt is HOME/prompts/NAME.md",
    "push": "nothing is uploaded; chatapp export writes a model for other programs",
    **dict.fromkeys(("config", "settings"), "settings are lines of HOME/settings.toml: docs/files.md"),
    **dict.fromkeys(("embed", "embeddings"), "models here write text, and embed none"),
    "doctor": "chatapp devices tells what runs here, and chatapp why MODEL why it runs where it does",
    **dict.fromkeys(("convert", "quantize"), "chatapp run, pull and export take --precision"),
    **dict.fromkeys(("start", "server"), "serve"),
    **dict.fromkeys(("models", "tags"), "list"),
    **dict.fromkeys(("get", "download", "install"), "pull"),
    "info": "show",
    **dict.fromkeys(("remove", "delete", "uninstall"), "rm"),
    **dict.fromkeys(("history", "logs", "conversations"), "sessions"),
    **dict.fromkeys(("ask", "generate", "prompt"), "run"),
    **dict.fromkeys(("tui", "ui"), "chat"),
    "gui": "desktop",
    "signin": "login",
}
"""Their commands: one of ours, or a sentence, in which HOME is the folder of everything."""
OPTIONS = {
    **dict.fromkeys(("-p", "--prompt"), "the prompt follows the model: chatapp run MODEL PROMPT"),
    **dict.fromkeys(("-m", "-hf"), "the model, or the path of a GGUF file, is a word: chatapp run MODEL PROMPT"),
    "-s": "write --system TEXT, or --seed N",
    "-o": "options have names of their own, such as --temperature 0",
    **dict.fromkeys(("-i", "-cnv", "--interactive"), "without a PROMPT one talks line by line"),
    "--hidethinking": "what is thought goes to standard error",
    "--image": "models here read text only",
    "--modelfile": "chatapp show MODEL tells what one would, and with --template the chat template",
    "--keepalive": "chatapp serve --keep-alive keeps models in memory",
    "--format": "chatapp run --json-object or --json-schema FILE says what an answer is",
    "--verbose": "--stats",
    **dict.fromkeys(("--n-predict", "--num-predict", "--predict"), "--max-tokens"),
    **dict.fromkeys(("-t", "--threads", "--num-thread"), "num_thread"),
    **dict.fromkeys(("--ctx-size", "--num-ctx", "--context-length"), "num_ctx"),
    **dict.fromkeys(("-ngl", "--n-gpu-layers", "--num-gpu", "--gpu"), "num_gpu"),
    "--repeat-last-n": "repeat_last_n",
}
"""Their options: one of ours, a sentence, or a parameter of which `ABSENT` in parameters.py tells why there is none."""

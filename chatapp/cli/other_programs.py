"""What users of Ollama, llama.cpp and other programs type, and what that is here."""

COMMANDS = {
    "ps": "to see which models are in memory: chatapp service status",
    "stop": "a model is unloaded when the program that opened it exits, or by the server's --keep-alive",
    "create": "for model files: chatapp import; options go into [NAME] in HOME/presets.toml, a system prompt into "
    "HOME/prompts/NAME.md",
    "push": "chatapp uploads nothing; to write a model for other programs: chatapp export",
    **dict.fromkeys(("config", "settings"), "settings are in HOME/settings.toml: docs/files.md"),
    **dict.fromkeys(("embed", "embeddings"), "models here write text and do not embed"),
    "doctor": "to see what runs here: chatapp devices; why a model runs where it does: chatapp why MODEL",
    **dict.fromkeys(("convert", "quantize"), "use --precision of chatapp run, pull or export"),
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
    **dict.fromkeys(("-p", "--prompt"), "run: chatapp run MODEL PROMPT"),
    **dict.fromkeys(("-m", "-hf"), "run: chatapp run MODEL PROMPT, where MODEL may be a GGUF file"),
    "-s": "use --system TEXT or --seed N",
    "-o": "options have their own names, such as --temperature 0",
    **dict.fromkeys(("-i", "-cnv", "--interactive"), "without a PROMPT, chatapp run chats line by line"),
    "--hidethinking": "thinking goes to standard error",
    "--image": "models here read text only",
    "--modelfile": "for the same facts: chatapp show MODEL; for the chat template: chatapp show MODEL --template",
    "--keepalive": "to keep models in memory: chatapp serve --keep-alive",
    "--format": "for JSON answers: chatapp run --json-object or --json-schema FILE",
    "--verbose": "--stats",
    **dict.fromkeys(("--n-predict", "--num-predict", "--predict"), "--max-tokens"),
    **dict.fromkeys(("-t", "--threads", "--num-thread"), "num_thread"),
    **dict.fromkeys(("--ctx-size", "--num-ctx", "--context-length"), "num_ctx"),
    **dict.fromkeys(("-ngl", "--n-gpu-layers", "--num-gpu", "--gpu"), "num_gpu"),
    "--repeat-last-n": "repeat_last_n",
}
"""Their options: one of ours, a sentence, or a parameter of which `ABSENT` in parameters.py tells why there is none."""

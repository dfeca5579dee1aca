"""The table of all actions: title, description, key, slash commands, and other names people try.

The screen binds its keys; the palette, the help, the prompt's completion and line mode read it too.
"""

from chatapp.commands import run
from chatapp.commands.commands import PRESETS, SEARCH, Action, Command, Slash, place_at
from chatapp.commands.parse import (
    FENCE,
    cut,
    hint,
    is_command,
    no_argument,
    optional_text,
    read_block,
    read_export,
    read_setting,
    read_topic,
    required_text,
)
from chatapp.commands.tools import read_tools
from chatapp.text.errors import InputError
from chatapp.text.units import columns


def parse(line: str) -> Command | None:
    """The slash command on a line; None if the line is a text for the model (see `text_of`)."""
    line = line.strip()
    if not is_command(line):
        return None
    name, rest = cut(line)
    if found := find(name.lower()):
        return found.read(rest)
    raise InputError(f"unknown command {name}; {tell_meant(name)}")


def tell_meant(name: str) -> str:
    """What is meant by a command that does not exist: a setting, a name that people try, or the nearest."""
    from chatapp.commands.parameters import PARAMETERS

    word = name[1:].lower()
    if word in ("system", "parameter", "think"):
        return f"did you mean /set {word}?"
    for action in ACTIONS if word else ():
        meant = [name for slash in action.slashes for name in slash.names]
        if meant != ["/set"] and word in (action.title.lower(), *action.names.split(", ")):
            if meant:
                return hint(name, meant, f"did you mean {meant[0]}?")
            return ATTACH if action.key == "@" else f"on the screen, ctrl+p finds {action.title!r}"
    if options := [option for option in PARAMETERS if word[2:] and option.startswith(word)]:
        return f"did you mean /set parameter {options[0]}?"
    names = [name for slash in SLASHES for name in slash.names]
    return hint(name, names, f"{ATTACH if '/' in name[1:] else '/? lists all'}; // sends a leading slash")


def find(name: str) -> Slash | None:
    """The slash command with this name."""
    return next((slash for slash in SLASHES if name in slash.names), None)


ATTACH = "@ before a path attaches the file"
"""How a file goes into a message, for who looks for a command."""


# Help on slash commands


def read_help(rest: str) -> Command:
    """Parse the argument of /?."""
    word = rest.lower().lstrip("/")
    if word not in ("", "shortcuts") and not find(f"/{word}"):
        raise InputError(f"there is no help on {rest!r}; /? lists the commands, /? shortcuts the keys")
    return Command(show_help, (word,))


def show_help(view: run.View, word: str) -> None:
    """Show all commands, the keys, or the help of one command."""
    if word == "shortcuts":
        view.open("app.help", lambda: run.SHORTCUTS)
    else:
        view.show_text("Commands", explain(word and f"/{word}"))


def explain(name: str = "") -> str:
    """The help as text: on all commands, or on one."""
    if name == "/set":
        from chatapp.commands.parameters import PARAMETERS

        return f"{columns(SETTINGS)}\n\n{columns([(name, one.does) for name, one in PARAMETERS.items()])}"
    if found := find(name):
        return "\n  ".join(filter(None, (f"{name} {found.usage}".strip(), found.does, DETAILS.get(name))))
    rows = [
        *listed(),
        ("!COMMAND", "run it in your shell and attach the output"),
        (FENCE, "begin and end a text of several lines"),
    ]
    return columns(rows)


def listed() -> list[tuple[str, str]]:
    """Rows for the help: every name of every slash command with its arguments, and what it does."""
    rows = [(f"{name} {one.usage}".strip(), one.does) for one in SLASHES for name in one.names if name != "/set"]
    return [*SETTINGS, *rows]


SETTINGS = (
    ("/set parameter NAME VALUE", "set an option, such as temperature 0.7"),
    ("/set system TEXT", "set the system prompt; no TEXT: remove it"),
    ("/set think", "think first; low, medium or high: how much"),
    ("/set nothink", "answer at once"),
    ("/set history", "start a conversation that is saved"),
    ("/set nohistory", "start a conversation that is not saved"),
    ("/set verbose", "show timings of answers; quiet: hide them"),
)
"""The forms of /set, for the help."""
DETAILS = {
    "/show": "WHAT is info, parameters, system, prompt, template, license or modelfile",
    "/tools": "WHAT is on or off, then servers; allow, then a tool that may run without asking; ask undoes that",
    "/export": "FORMAT is markdown, html or json; without FILE, the title names it",
}
"""More about some commands, for the help."""


# The table

ACTIONS: tuple[Action, ...] = (
    Action("New conversation", "the current one stays in the list", "screen.new", "chat.new", "ctrl+n", foot="New",
           daily=True, slash=Slash("/clear /new", no_argument("begin"), does="start a new conversation"),
           names="new chat, begin, start over, reset"),
    Action("Conversations", "filter, open, rename, delete, export", "screen.sidebar", "chat.sidebar", "ctrl+b",
           foot="Chats", daily=True, names="list, chats, history, sessions, sidebar, open conversation, filter",
           place="sidebar.down sidebar.up sidebar.open sidebar.filter"),
    Action("Search all conversations", "words in titles and messages", place_at(SEARCH), "chat.search", "f3",
           foot="Search", daily=True,
           slash=Slash("/search", required_text(run.search, "words to search for", read=str), "WORDS",
                       "find messages in all conversations"),
           names="find", place="search.up search.down search.leave"),
    Action("Models", "choose, download, verify, time or remove one", "screen.models", "chat.models", "ctrl+o",
           foot="Models", daily=True,
           slash=(Slash("/load", required_text(run.choose_model, "a model"), "MODEL", "switch to another model"),
                  Slash("/model", optional_text(run.choose_model), "[MODEL]", "show the models, or switch to one"),
                  Slash("/list", no_argument(run.choose_model), does="show the models")),
           names="choose model, switch model, change model, load model",
           place="models.use models.more models.filter models.cancel models.resume models.back"),
    Action("Sampling", "temperature and the rest, with a preview", "screen.sampling", "chat.sampling", "ctrl+s",
           foot="Sampling",
           slash=Slash("/set", read_setting),
           names="parameters, options, temperature, top_p, top_k, min_p, seed, max_tokens, penalty, stop texts, "
           "logit_bias, context, when full",
           place="sampling.less sampling.more sampling.less_finely sampling.more_finely sampling.up sampling.down "
           "sampling.first sampling.last sampling.type sampling.default sampling.close lines.keep lines.leave"),
    Action("Regenerate", "another version of the last answer", "screen.again", "chat.again", "ctrl+r",
           foot="Regenerate", daily=True,
           slash=Slash("/again", no_argument("again"), does="answer the last question again"),
           names="again, retry, try again, answer again", place="message.again"),
    Action("Stop", "stop the answer, keep its text", "screen.stop", "chat.stop", "escape", foot="Stop", daily=True,
           names="cancel, interrupt, abort", place="chat.interrupt chat.back"),
    Action("Continue", "the text, or an answer that was cut off", "screen.continue", "chat.continue", "f5", daily=True,
           slash=Slash("/continue", no_argument("resume"), does="continue an answer that was cut off"),
           names="complete, go on, resume", place="notebook.continue"),
    Action("Fill the gap", "at the cursor, between two texts", "box.fill_gap", "notebook.fill", "ctrl+f",
           names="infill, insert, fim"),
    Action("Copy answer", "the last one, or the marked message", "screen.message('copy')", "message.copy", "c",
           "chat.jump", slash=Slash("/copy", read_block, "[N]", "copy the last answer, or its N-th code block"),
           names="yank, clipboard"),
    Action("Copy code", "the last block of code", "screen.message('code')", "message.code", "b", "chat.jump",
           names="code block"),
    Action("Edit question", "and send it again, as another version", "screen.message('edit')", "message.edit", "e",
           "chat.jump", slash=Slash("/edit", optional_text("edit"), "[TEXT]", "rephrase the last question"),
           names="change, rephrase"),
    Action("Fork", "a new conversation from here", "screen.message('fork')", "message.fork", "f",
           "chat.jump", names="branch, duplicate, clone"),
    Action("Older version", "of the answer, or of the text", "screen.version(-1)", "message.older", "left", "chat.jump",
           names="previous version, alternative, versions", place="notebook.older"),
    Action("Newer version", "of the answer, or of the text", "screen.version(1)", "message.newer", "right", "chat.jump",
           names="next version, alternative, versions", place="notebook.newer"),
    Action("Undo", "in the text you type", "box.undo", "notebook.undo", "ctrl+z", names="revert"),
    Action("Redo", "in the text you type", "box.redo", key="ctrl+y"),
    Action("Undo a token", "remove the model's last token", "box.undo_token", "notebook.undo_token", "ctrl+underscore",
           names="remove token, back a token"),
    Action("Export", "this conversation as Markdown, HTML or JSON", "screen.conversation('export')", "sidebar.export",
           "x", "chat.sidebar",
           slash=Slash("/export", read_export, "[FORMAT] [FILE]", "write the conversation to a file"),
           names="save, save as, write file, markdown, html, json"),
    Action("Rename", "give this conversation a title", "screen.conversation('rename')", "sidebar.rename", "r",
           "chat.sidebar",
           slash=Slash("/save", required_text(run.rename, "a title"), "TITLE", "give the conversation a title"),
           names="title, name"),
    Action("Pin conversation", "to the top of the list, or unpin it", "screen.conversation('pin')", "sidebar.pin", "p",
           "chat.sidebar", names="unpin, favourite, favorite, star, bookmark"),
    Action("Delete conversation", "you can restore it for a month", "screen.conversation('delete')",
           "sidebar.delete", "d", "chat.sidebar", names="remove conversation, trash"),
    Action("Restore conversation", "the last one deleted", "screen.conversation('undelete')", "sidebar.undelete", "u",
           "chat.sidebar", names="undelete, undo delete, bring back, recover"),
    Action("Import", "from ChatGPT, Claude, Open WebUI, Ollama", "screen.import",
           slash=Slash("/import", required_text(run.import_file, "a file"), "FILE", "import conversations"),
           names="load file, chatapp, chatgpt, claude, open webui, ollama", place="line.leave"),
    Action("System prompt", "instructions for every answer",
           place_at("sampling.system_prompt_screen:SystemPromptScreen"),
           names="system, set system, instructions, persona, prompt library",
           place="system.use system.save system.delete system.leave"),
    Action("Presets", "sampling options saved by name", place_at(PRESETS), "sampling.presets", "p", "chat.sampling",
           slash=Slash("/preset", optional_text(run.choose_preset), "[NAME]", "use the options of a preset"),
           place="presets.save presets.rename presets.delete presets.leave"),
    Action("Tools", "of servers, for the model to call if you allow it",
           slash=Slash("/tools", read_tools, "[WHAT] [NAME]", "show the tools, or let the model use them"),
           names="mcp, functions, servers, allow, permission", place="call.stop"),
    Action("Tokens", "how sure the model was of each", "screen.heat", "chat.heat", "ctrl+t", foot="Tokens",
           names="heat, probabilities, logprobs, confidence, perplexity, alternatives",
           place="message.heat heat.unlikely heat.unlikely_before heat.alternatives heat.leave heat.stop"),
    Action("Beams", "the tree of a beam search, even as it grows", "screen.beams", "chat.beams", "f10",
           names="beam search, tree, num_beams, likeliest",
           place="beams.best beams.pruned beams.take beams.stop beams.leave"),
    Action("Latencies", "of every token of the last answer", "screen.latencies", "chat.latencies", "ctrl+l",
           foot="Latencies", names="speed, timings, performance, statistics, csv",
           place="message.latencies latencies.csv latencies.json latencies.sort latencies.leave"),
    Action("Several answers", "2 to 9 at once; keep one", place_at("widgets.windows:CountScreen"),
           "chat.answers", "f7", always=True,
           names="answers, n answers, multiple answers, variants",
           place="answers.left answers.right answers.keep answers.rank answers.heat answers.stop answers.leave "
           "count.leave"),
    Action("Compare models", "the same prompt for several models or backends",
           place_at("answers.comparison:ComparisonScreen"),
           names="comparison, versus, side by side", place="picker.choose comparison.start comparison.leave"),
    Action("Download a model", "see its size and licence first", "screen.models(True)", "models.pull", "p",
           "chat.models", names="pull, fetch, get, install"),
    Action("Find models on the Hub", "the only search that uses the network", "screen.models", "models.search",
           "s", "chat.models", names="search hub, hugging face, huggingface.co"),
    Action("Verify a model", "compare its logits with a reference", "screen.models", "models.verify", "v",
           "chat.models", names="check"),
    Action("Benchmark a model", "time it on this machine", "screen.models", "models.bench", "b", "chat.models",
           names="bench, time"),
    Action("Remove a model", "from this machine", "screen.models", "models.remove", "x", "chat.models",
           names="delete model, rm"),
    Action("Show model", "its size, family, context, and where it runs",
           slash=Slash("/show", read_topic, "[WHAT]", "show details of the model"),
           names="info, about model, model information", place="note.leave"),
    Action("Show chat template", "of the model", "screen.slash('/show template')", names="template, jinja"),
    Action("Show prompt", "as the model read it, with its control tokens", "screen.slash('/show prompt')",
           names="rendered, raw, debug"),
    Action("Show licence", "of the model", "screen.slash('/show license')", names="license, terms"),
    Action("Mode: chat", "the model answers your messages", "screen.kind('chat')", names="chat mode"),
    Action("Mode: completion", "the model continues your text", "screen.kind('completion')", names="completion mode"),
    Action("Temporary conversation", "it is not saved", "screen.slash('/set nohistory')",
           names="incognito, private, nohistory"),
    Action("Attach a file", "or a folder, by its name", "screen.type('@')", key="@",
           names="attach, file, folder, upload, add"),
    Action("Slash commands", "in the prompt", key="/",
           slash=Slash("/?", read_help, "[shortcuts]", "list the commands, or the keys"),
           names="commands"),
    Action("Open in editor", "write in $VISUAL or $EDITOR", "box.write_outside", "prompt.editor", "ctrl+g",
           names="external editor, vim, nano"),
    Action("Show paste", "in full, in the prompt", "box.expand", "prompt.expand", "f4", names="expand, unfold, paste"),
    Action("Show attachments", "of a message in full, or fold them", "screen.open", "message.open", "enter",
           "chat.jump", names="unfold, fold, collapse, show file, show attachment"),
    Action("Send", "the message", "box.submit", "prompt.submit", "enter", daily=True, names="submit"),
    Action("New line", "in the message", "box.newline", "prompt.newline", "ctrl+j", names="line break"),
    Action("Earlier message", "that you sent, in any conversation", "box.recall(1)", "prompt.earlier", "ctrl+up",
           names="previous prompt, history of prompts"),
    Action("Later message", "that you sent", "box.recall(-1)", "prompt.later", "ctrl+down", names="next prompt"),
    Action("Jump", "to a message or a panel, by a letter", "screen.jump", "chat.jump", "f6", always=True,
           names="focus, go to, messages", place="message.up message.down"),
    Action("Accept the offer", "shown above the keys", "screen.accept", "chat.accept", "f8"),
    Action("Dismiss the offer", "for good", "screen.hide", "chat.hide", "f9", names="hide"),
    Action("Theme", "preview and choose", "app.theme", "app.theme", "f2",
           slash=Slash("/theme", optional_text("choose_theme"), "[NAME]", "change the colours"),
           names="colours, colors, dark, light", place="themes.back"),
    Action("Help", "all keys and commands", "app.help", "app.help", "f1", foot="Help", daily=True,
           slash=Slash("/help", read_help, "[shortcuts]", "list the commands, or the keys"),
           names="keys, key bindings, keyboard, shortcuts, manual", place="help.back"),
    Action("Run a command", "its output goes into the message", "screen.type('!')", key="!",
           names="shell, bash, execute, terminal"),
    Action("Suspend", "to the shell; fg comes back", "app.suspend_process", names="background, stop process, fg"),
    Action("Screenshot", "as an SVG file in the Downloads folder", "app.screenshot", names="picture, svg"),
    Action("About chatapp", "its version, its parts and their licences",
           slash=Slash("/about", no_argument(run.about), does="show the version and all licences"),
           names="version, licences, licenses, name card, credits"),
    Action("Quit", "conversations are saved", "app.quit", "app.quit", "ctrl+q", foot="Quit", always=True, daily=True,
           slash=Slash("/bye /exit", no_argument("leave"), does="quit"),
           names="exit, leave, close, bye"),
)  # fmt: skip
"""In the order of the palette, the most wanted first."""

FIRST = (
    *("/show", "/load", "/save", "/clear", "/model", "/again", "/continue", "/edit", "/copy"),
    *("/export", "/import", "/theme", "/search", "/preset"),
)
"""The slash commands that the help lists first, in this order."""
SLASHES = sorted(
    (slash for action in ACTIONS for slash in action.slashes),
    key=lambda slash: FIRST.index(slash.names[0]) if slash.names[0] in FIRST else len(FIRST),
)
"""Every slash command, in the order of the help."""


# How the palette finds a command


def rank(query: str, names: list[tuple[str, ...]]) -> list[int]:
    """The indices of the rows that a query matches, best first; each row is an action's names, its title first."""
    wanted = " ".join(query.casefold().removeprefix("/").split())
    scores = [(score(wanted, row), place) for place, row in enumerate(names)]
    return [place for score, place in sorted(scores) if score < NONE]


NONE = 9
"""The score of a row that does not match."""


def score(wanted: str, names: tuple[str, ...]) -> int:
    """How well a row matches, lower is better: exact name, prefix, prefixes of words, words within, letters in turn."""
    names = tuple(name.casefold() for name in names)
    title = names[0]
    words = wanted.split()
    if wanted in names:
        return 0
    if title.startswith(wanted):
        return 1
    if any(name.startswith(wanted) for name in names):
        return 2
    for distance, text in ((3, title), (4, " ".join(names))):
        starts = text.replace(":", " ").split()
        if all(any(start.startswith(word) for start in starts) for word in words):
            return distance
    if all(word in " ".join(names) for word in words):
        return 5
    letters = iter(title)
    return 6 if len(wanted) > 2 and all(letter in letters for letter in wanted.replace(" ", "")) else NONE

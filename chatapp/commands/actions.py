"""The table of everything that can be done on the screen: its name, key, slash command, and the names people try.

The palette, the help and the documentation's test read it; the widgets bind the keys, and a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Action:
    """Something that can be done from the palette."""

    title: str
    does: str
    run: str
    """An action of the app, the screen or the box in which one types, such as `screen.new`."""
    id: str = ""
    """Of its key, for keys.toml."""
    key: str = ""
    """The key it has unless its user chose others."""
    within: str = ""
    """The id of the key that is pressed before, where the key works only in the place that opens."""
    slash: str = ""
    """The slash commands that do the same."""
    names: str = ""
    """Other names that people try, with commas between."""
    place: str = ""
    """The ids of keys of the place that this opens, beside those that are actions of their own."""
    daily: bool = False
    """Whether it is one of the first to know."""

    @property
    def called(self) -> tuple[str, ...]:
        """The names by which it is found, its title first."""
        return (self.title, *self.slash.replace("/", "").split(), *filter(None, self.names.split(", ")))


ACTIONS: tuple[Action, ...] = (
    Action("New conversation", "the one before stays in the list", "screen.new", "chat.new", "ctrl+n",
           slash="/new /clear", names="new chat, begin, start over, reset", daily=True),
    Action("Conversations", "filter, open, rename, delete, export", "screen.sidebar", "chat.sidebar", "ctrl+b",
           names="list, chats, history, sessions, sidebar, open conversation, filter",
           place="sidebar.down sidebar.up sidebar.open sidebar.filter", daily=True),
    Action("Search all conversations", "words in titles and messages", "screen.search", "chat.search", "f3",
           slash="/search", names="find", place="search.up search.down search.leave", daily=True),
    Action("Models", "choose, download, verify, time or remove one", "screen.models", "chat.models", "ctrl+o",
           slash="/model /list /load", names="choose model, switch model, change model, load model",
           place="models.use models.more models.filter models.cancel models.resume models.back", daily=True),
    Action("Sampling", "temperature and the rest, with a preview", "screen.sampling", "chat.sampling", "ctrl+s",
           slash="/set", names="parameters, options, temperature, top_p, top_k, min_p, seed, max_tokens, penalty, "
           "stop texts, logit_bias, context, when full",
           place="sampling.less sampling.more sampling.less_finely sampling.more_finely sampling.up sampling.down "
           "sampling.first sampling.last sampling.type sampling.default sampling.close lines.keep lines.leave"),
    Action("Regenerate", "another version of the last answer", "screen.again", "chat.again", "ctrl+r",
           slash="/again", names="again, retry, try again, answer again", place="message.again", daily=True),
    Action("Stop", "end the answer, keep what is there", "screen.stop", "chat.stop", "escape",
           names="cancel, interrupt, abort", place="chat.interrupt chat.back", daily=True),
    Action("Continue", "the text, or an answer that was cut off", "screen.continue", "chat.continue", "f5",
           slash="/continue", names="complete, go on, resume", place="notebook.continue", daily=True),
    Action("Fill the gap", "at the cursor, between two texts", "box.fill_gap", "notebook.fill", "ctrl+f",
           names="infill, insert, fim"),
    Action("Copy answer", "the last one, or the marked message", "screen.message('copy')", "message.copy", "c",
           "chat.jump", slash="/copy", names="yank, clipboard"),
    Action("Copy code", "the last block of code", "screen.message('code')", "message.code", "b", "chat.jump",
           names="code block"),
    Action("Edit question", "and send it again, as another version", "screen.message('edit')", "message.edit", "e",
           "chat.jump", slash="/edit", names="change, rephrase"),
    Action("Fork", "another conversation with all up to here", "screen.message('fork')", "message.fork", "f",
           "chat.jump", names="branch, duplicate, clone"),
    Action("Older version", "of the answer, or of the text", "screen.version(-1)", "message.older", "left",
           "chat.jump", names="previous version, alternative, versions", place="notebook.older"),
    Action("Newer version", "of the answer, or of the text", "screen.version(1)", "message.newer", "right",
           "chat.jump", names="next version, alternative, versions", place="notebook.newer"),
    Action("Undo", "in the text that is typed", "box.undo", "notebook.undo", "ctrl+z", names="revert"),
    Action("Redo", "in the text that is typed", "box.redo", key="ctrl+y"),
    Action("Undo a token", "take back the model's last one", "box.undo_token", "notebook.undo_token",
           "ctrl+underscore", names="remove token, back a token"),
    Action("Export", "this conversation as Markdown, HTML or JSON", "screen.conversation('export')",
           "sidebar.export", "x", "chat.sidebar", slash="/export",
           names="save, save as, write file, markdown, html, json"),
    Action("Rename", "give this conversation a title", "screen.conversation('rename')", "sidebar.rename", "r",
           "chat.sidebar", slash="/save", names="title, name"),
    Action("Delete conversation", "it can be brought back for a month", "screen.conversation('delete')",
           "sidebar.delete", "d", "chat.sidebar", names="remove conversation, trash"),
    Action("Restore conversation", "the one deleted last", "screen.conversation('undelete')", "sidebar.undelete", "u",
           "chat.sidebar", names="undelete, undo delete, bring back, recover"),
    Action("Import", "from chatapp, ChatGPT or Ollama", "screen.import", slash="/import",
           names="load file, chatgpt, ollama", place="line.leave"),
    Action("System prompt", "instructions for every answer", "screen.system",
           names="system, set system, instructions, persona, prompt library",
           place="system.use system.save system.delete system.leave"),
    Action("Presets", "sampling options saved by name", "screen.presets", "sampling.presets", "p", "chat.sampling",
           slash="/preset", place="presets.save presets.rename presets.delete presets.leave"),
    Action("Tokens", "how sure the model was of each", "screen.heat", "chat.heat", "ctrl+t",
           names="heat, probabilities, logprobs, confidence, perplexity, alternatives",
           place="message.heat heat.unlikely heat.unlikely_before heat.alternatives heat.leave heat.stop"),
    Action("Latencies", "of every token of the last answer", "screen.latencies", "chat.latencies", "ctrl+l",
           names="speed, timings, performance, statistics, csv",
           place="message.latencies latencies.csv latencies.json latencies.sort latencies.leave"),
    Action("Several answers", "2 to 9 at once, to keep one", "screen.answers", "chat.answers", "f7",
           names="answers, n answers, multiple answers, variants",
           place="answers.left answers.right answers.keep answers.rank answers.heat answers.stop answers.leave "
           "count.leave"),
    Action("Compare models", "the same prompt for several models or backends", "screen.compare",
           names="comparison, versus, side by side", place="picker.choose comparison.start comparison.leave"),
    Action("Download a model", "with its size and licence shown before", "screen.models(True)", "models.pull", "p",
           "chat.models", names="pull, fetch, get, install"),
    Action("Find models on huggingface.co", "the only search that asks the network", "screen.models", "models.search",
           "s", "chat.models", names="search hub, hugging face"),
    Action("Verify a model", "compare its logits with a reference", "screen.models", "models.verify", "v",
           "chat.models", names="check"),
    Action("Benchmark a model", "time it on this machine", "screen.models", "models.bench", "b", "chat.models",
           names="bench, time"),
    Action("Remove a model", "from this machine", "screen.models", "models.remove", "x", "chat.models",
           names="delete model, rm"),
    Action("Show model", "its size, family, context, and where it runs", "screen.slash('/show')", slash="/show",
           names="info, about model, model information", place="note.leave"),
    Action("Show chat template", "of the model", "screen.slash('/show template')", names="template, jinja"),
    Action("Show licence", "of the model", "screen.slash('/show license')", names="license, terms"),
    Action("Mode: chat", "the model answers your messages", "screen.kind('chat')", names="chat mode"),
    Action("Mode: completion", "the model continues your text", "screen.kind('completion')", names="completion mode"),
    Action("Temporary conversation", "nothing of it is kept", "screen.slash('/set nohistory')",
           names="incognito, private, nohistory"),
    Action("Attach a file", "or a folder, by its name", "screen.type('@')", key="@", names="file, folder, upload, add"),
    Action("Slash commands", "in the prompt", "screen.slash('/?')", key="/", slash="/?", names="commands"),
    Action("Open in editor", "write in $VISUAL or $EDITOR", "box.write_outside", "prompt.editor", "ctrl+g",
           names="external editor, vim, nano"),
    Action("Show paste", "in full, in the prompt", "box.expand", "prompt.expand", "f4", names="expand, unfold, paste"),
    Action("Show attachments", "of a message in full, or fold them", "screen.open", "message.open", "enter",
           "chat.jump", names="unfold, fold, collapse, show file, show attachment"),
    Action("Send", "the message", "box.submit", "prompt.submit", "enter", names="submit", daily=True),
    Action("New line", "in the message", "box.newline", "prompt.newline", "ctrl+j", names="line break"),
    Action("Earlier message", "that you sent, in any conversation", "box.recall(1)", "prompt.earlier", "ctrl+up",
           names="previous prompt, history of prompts"),
    Action("Later message", "that you sent", "box.recall(-1)", "prompt.later", "ctrl+down", names="next prompt"),
    Action("Jump", "to a message or a panel, by a letter", "screen.jump", "chat.jump", "f6",
           names="focus, go to, messages", place="message.up message.down"),
    Action("Accept the offer", "that is shown above the keys", "screen.accept", "chat.accept", "f8"),
    Action("Dismiss the offer", "for good", "screen.hide", "chat.hide", "f9", names="hide"),
    Action("Theme", "preview and choose", "app.theme", "app.theme", "f2", slash="/theme",
           names="colours, colors, dark, light", place="themes.back"),
    Action("Help", "all keys and commands", "app.help", "app.help", "f1", slash="/help",
           names="keys, key bindings, keyboard, shortcuts, manual", place="help.back", daily=True),
    Action("Run a command", "its output goes into the message", "screen.type('!')", key="!",
           names="shell, bash, execute, terminal"),
    Action("Suspend", "to the shell; fg comes back", "app.suspend_process", names="background, stop process, fg"),
    Action("Screenshot", "as an SVG file in the Downloads folder", "app.screenshot", names="picture, svg"),
    Action("Quit", "conversations are saved", "app.quit", "app.quit", "ctrl+q", slash="/bye /exit",
           names="exit, leave, close, bye", daily=True),
)  # fmt: skip
"""In the order in which the palette shows them: the most wanted first."""


def rank(query: str, names: list[tuple[str, ...]]) -> list[int]:
    """The places of the rows that a query means, the likeliest first; each row by its names, its title first."""
    wanted = " ".join(query.casefold().removeprefix("/").split())
    scores = [(score(wanted, row), place) for place, row in enumerate(names)]
    return [place for score, place in sorted(scores) if score < NONE]


NONE = 9
"""The score of what is not meant."""


def score(wanted: str, names: tuple[str, ...]) -> int:
    """How far a row is from what is wanted: a name of it, a beginning, beginnings of words, letters."""
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

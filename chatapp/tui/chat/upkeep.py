"""What can be done with kept conversations: rename, delete, export, import, search, fork."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chatapp.conversation import files
from chatapp.history import forks
from chatapp.tui.chat.pane import Pane
from chatapp.tui.chat.reply import BUSY
from chatapp.tui.chat.search import SearchScreen
from chatapp.tui.errors import telling
from chatapp.tui.widgets.ask_line import AskLine

if TYPE_CHECKING:
    from chatapp.commands.commands import ExportForm
    from chatapp.history import Conversation, Found, History, Message
    from chatapp.tui.chat.conversations import Conversations


async def do(screen: Conversations, history: History, deed: str, number: int | None) -> None:
    """What the keys of the list do with a conversation."""
    if deed == "undelete":
        back = history.undelete()
        if back and screen.sidebar:
            screen.sidebar.note = ""
        screen.notify(f"{back[0].title} is back." if back else "Nothing was deleted.", markup=False)
    elif number is not None:
        conversation = history.get(number)
        match deed:
            case "open":
                await screen.open_conversation(conversation)
                if screen.sidebar and screen.size.width < 100:  # where it lies over the page
                    screen.sidebar.display = False
            case "rename":
                rename(screen, history, conversation)
            case "delete":
                await delete(screen, history, conversation)
            case "export":
                ask_where(screen, history, conversation)


def rename(screen: Conversations, history: History, conversation: Conversation) -> None:
    """Ask for another title."""

    def take(title: str | None) -> None:
        with telling(screen):
            if title:
                history.rename(conversation.id, title)
                screen.list_conversations()

    screen.app.push_screen(AskLine("Another title", conversation.title), take)


async def delete(screen: Conversations, history: History, conversation: Conversation) -> None:
    """Delete a conversation, so that it can be brought back."""
    shown = [one for one in screen.panes if one.dialogue and one.dialogue.conversation == conversation.id]
    if any(pane.reply for pane in shown):
        return screen.notify(BUSY)
    sidebar = screen.sidebar if screen.sidebar and screen.sidebar.has_focus else None
    history.delete(conversation.id)
    for pane in shown:
        if pane is screen.pane:
            await screen.action_new()
        if pane in screen.panes:
            screen.panes.remove(pane)
            await pane.remove()
    if screen.sidebar:
        screen.sidebar.note = "Deleted. u brings it back."
    screen.notify(f"{conversation.title} is deleted. u in the list brings it back.", markup=False)
    if sidebar:
        sidebar.focus()


def ask_where(screen: Conversations, history: History, conversation: Conversation) -> None:
    """Write a conversation to a file, in the format that its name says."""

    def take(path: str | None) -> None:
        if path:
            write(screen, history, conversation.id, None, path)

    question = "Export to a file: .md for Markdown, .html for a page, .json to import it again"
    name = files.free_name(conversation.title, "markdown").absolute()
    screen.app.push_screen(AskLine(question, str(name)), take)


def write(screen: Conversations, history: History, number: int, form: ExportForm | None, path: str) -> None:
    """Write a conversation to a file that is not there yet."""
    screen.behind(lambda: f"Written to {files.export(history, number, form, path)}")


def ask_what(screen: Conversations, history: History) -> None:
    """Read conversations from a file."""

    def take(path: str | None) -> None:
        if path:
            bring_in(screen, history, path)

    screen.app.push_screen(AskLine("Import from a file: ours, ChatGPT's conversations.json, or Ollama's"), take)


def bring_in(screen: Conversations, history: History, path: str) -> None:
    """Read conversations from a file."""
    screen.behind(lambda: files.told(files.bring_in(history, str(Path(path).expanduser()))))


def search(screen: Conversations, history: History, words: str = "") -> None:
    """Find words, and show where they are."""

    async def open_found(found: Found | None) -> None:
        if not found:
            return
        with telling(screen):
            pane = await screen.open_conversation(found.conversation)
            if found.message is not None:
                await pane.page.reach(found.message)

    screen.app.push_screen(SearchScreen(history.search, words), open_found)


async def fork(screen: Conversations, history: History, pane: Pane, said: Message) -> None:
    """Begin another conversation with the messages of one, up to this one."""
    if pane.dialogue and pane.dialogue.conversation is not None:
        branch = list(pane.dialogue.branch())
        kept = branch[: [one.id for one in branch].index(said.id) + 1]
        await screen.open_conversation(forks.fork(history, pane.dialogue.conversation, kept))

"""The models screen: the models here and on the Hub, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from chatapp.models.catalogue import describe_found
from chatapp.models.jobs import Job, Jobs, Kind
from chatapp.text.errors import one_line
from chatapp.text.printable import printable
from chatapp.tui.keys.key_line import Keys
from chatapp.tui.models.asking import ask, pull_question, removal_question
from chatapp.tui.models.detail import Detail
from chatapp.tui.models.filter_line import FilterLine
from chatapp.tui.models.listing import ModelList
from chatapp.tui.models.sections import Catalogue, describe_machine, group_models, is_possible, list_unlisted
from chatapp.tui.widgets.textual_fixes import EndsOnce
from model_store import BUILTIN, ModelNotFound

if TYPE_CHECKING:
    from chatapp.models.catalogue import ListedModel, Machine
    from chatapp.models.facts import Details

Found = TypeVar("Found")

WIDE = 116
"""Columns from which the details stand beside the list."""
WIDER = 150
"""Columns from which the details are wider."""
PAUSE = 0.12
"""Seconds that a model must stay selected before its details are read."""
EVERY = 1.0
"""Seconds between updates while another process downloads."""


class ModelsScreen(EndsOnce, Screen[str | None]):
    """Choose, pull, verify, time and remove models; dismisses with the model to use, or None."""

    CSS_PATH = Path(__file__).with_name("models.tcss")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "use", "Use", id="models.use"),
        Binding("p", "pull", "Pull", id="models.pull"),
        Binding("c", "cancel", "Cancel", id="models.cancel"),
        Binding("r", "resume", "Resume", id="models.resume"),
        Binding("v", "begin('verify')", "Verify", id="models.verify"),
        Binding("b", "begin('bench')", "Bench", id="models.bench"),
        Binding("x", "remove", "Remove", id="models.remove"),
        Binding("i", "more", "Info", id="models.more"),
        Binding("slash", "filter", "Find", key_display="/", id="models.filter"),
        Binding("s", "search", "Hub", id="models.search"),
        Binding("escape", "back", "Back", key_display="esc", id="models.back"),
        Binding("ctrl+c", "interrupt", "Back", show=False),
    ]

    def __init__(self, catalogue: Catalogue, jobs: Jobs, *, current: str, offline: str = "") -> None:
        super().__init__()
        self.catalogue, self.jobs, self.current = catalogue, jobs, current
        self.offline = offline
        """What forbids the network; empty if nothing does."""
        self.rows: Sequence[ListedModel] = ()
        self.hub: Sequence[ListedModel] = ()
        self.sought = ""
        """The search text on the Hub."""
        self.wanted = ""
        """The filter."""
        self.details: Details | None = None
        self.told = ""
        """The model that `details` is about."""
        self.questions: dict[str, Job] = {}
        """The last plan requested, by model."""
        self.plans: list[Job] = []
        """Finished plans about which the user is still to be asked."""
        self.later: Timer | None = None
        """Reads the list again while another process downloads."""
        self.listing, self.detail = ModelList(current), Detail()

    def compose(self) -> ComposeResult:
        self.head = Static(" models  reading the store", classes="bar", markup=False)
        self.entry = FilterLine()
        yield self.head
        yield self.entry
        with Container(id="shelf"):
            yield self.listing
            yield self.detail
        yield Keys()

    def on_mount(self) -> None:
        self.listing.focus()
        self.look()

    def on_screen_resume(self) -> None:
        self.ask_next()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= WIDE, "-wide")
        self.set_class(event.size.width >= WIDER, "-wider")

    # The list

    def look(self) -> None:
        """Read the list of models."""
        self.read("rows", lambda: (self.catalogue.machine(), self.catalogue.rows()), self.take_rows)

    def take_rows(self, found: tuple[Machine, Sequence[ListedModel]]) -> None:
        """Show the list that was read."""
        machine, self.rows = found
        self.head.update(describe_machine(machine))
        self.sort_in()
        self.describe()
        if self.later:
            self.later.stop()
        others = (row.name for row in self.rows if row.state == "elsewhere")
        if not all(self.works_on(name) for name in others):  # other processes do not report their progress
            self.later = self.set_timer(EVERY, self.look)

    def sort_in(self) -> None:
        """Show the filtered models in sections; every pull has a line, even of unlisted models."""
        self.hub = [*self.hub, *list_unlisted(self.jobs.all(), (*self.rows, *self.hub))]
        every = (*self.rows, *self.hub)
        self.listing.work_on({row.name: job for row in every if (job := self.job_of(row.name))})
        self.listing.show([*group_models(self.rows, self.hub, self.wanted, self.sought)])
        self.refresh_bindings()

    # Reading in threads

    def read(self, what: str, get: Callable[[], Found], take: Callable[[Found], None]) -> None:
        """Call `get` in a thread and pass its result to `take`, unless `what` was requested again meanwhile."""

        def attempt() -> None:
            worker = get_current_worker()
            try:
                found = get()
            except ModelNotFound:  # it was removed meanwhile, and leaves the list as well
                return
            except Exception as error:  # shown if its message is for the user
                if not (text := one_line(error)):
                    raise
                self.call_later(self.show_problem, what, text)
            else:
                if not worker.is_cancelled:
                    self.call_later(take, found)

        self.run_worker(attempt, thread=True, group=what, exclusive=True)

    def show_problem(self, what: str, text: str) -> None:
        """Something could not be read."""
        if what == "rows" and not self.rows:
            self.head.update(f" models  {text}")
        self.notify(text, severity="error", markup=False)

    def say(self, text: str) -> None:
        """Show a short notification."""
        self.notify(text, markup=False, timeout=4)

    # Jobs

    def show_job(self, job: Job) -> None:
        """A job has changed."""
        if job.kind == "plan" and job.name in self.questions:
            self.questions[job.name] = job
            if job.state == "done":
                self.plans.append(self.questions.pop(job.name))
                self.ask_next()
        elif job.kind == "search":
            self.take_found(job)
        if job.ended and job.kind not in ("plan", "search"):
            self.look()
        self.sort_in()
        if self.row and self.row.name == job.name and job.ended:
            self.describe()

    def job_of(self, name: str) -> Job | None:
        """The latest job or plan for a model."""
        done, asked = self.jobs.of(name), self.questions.get(name)
        return asked if asked and (done is None or asked.number > done.number) else done

    def works_on(self, name: str) -> bool:
        """Whether a job for this model is queued or running."""
        job = self.job_of(name)
        return bool(job and not job.ended)

    @property
    def row(self) -> ListedModel | None:
        """The selected model."""
        return self.listing.selected

    # Details

    @on(ModelList.Selected)
    def describe(self) -> None:
        """Show what the list knows about the selected model, and read the rest."""
        row = self.row
        if not row or row.name != self.told:
            self.details, self.told = None, row.name if row else ""
            self.detail.scroll_home(animate=False)
        self.show_details()
        self.refresh_bindings()
        if row:
            self.set_timer(PAUSE, lambda: self.read_details(row))

    def read_details(self, row: ListedModel) -> None:
        """Read the details of a model, if it is still selected."""
        if row == self.row:
            self.read("details", lambda: self.catalogue.details(row), lambda details: self.take_details(row, details))

    def take_details(self, row: ListedModel, details: Details) -> None:
        """Show details, if their model is still selected."""
        if row == self.row:
            self.details = details
            self.show_details()

    def show_details(self) -> None:
        """Show what is known about the selected model."""
        self.detail.show(self.row, self.details, self.job_of(self.row.name) if self.row else None)

    # Keys

    @on(ModelList.Used)
    def action_use(self) -> None:
        """Use a model that is here, or pull it."""
        if self.row and self.check_action("use", ()):
            if self.row.state in ("here", "remote"):
                self.dismiss(self.row.name)
            else:
                self.action_pull()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only possible actions have a key."""
        row = self.row if self.is_mounted else None
        what = str(parameters[0]) if action == "begin" else action
        return is_possible(what, row, self.job_of(row.name) if row else None)

    def action_pull(self) -> None:
        """Plan a pull and ask the user; a pull that was stopped resumes at once."""
        row = self.row
        if not row or self.refused("pull"):
            return
        if row.state == "absent":
            self.questions[row.name] = self.jobs.add("plan", row.source)
            self.sort_in()
        else:
            self.jobs.add("pull", row.source)

    def ask_next(self) -> None:
        """Ask about the next plan, unless the user is typing or another screen is open."""
        if not self.plans or not self.is_current or self.entry.typing:
            return
        plan = self.plans.pop(0)
        problems = plan.facts["problems"]
        pull = partial(self.jobs.add, "pull", plan.model, *(("--force",) if problems else ()))
        ask(self.app, pull_question(plan.facts, self.size.width), "pull anyway" if problems else "pull", pull)

    def action_cancel(self) -> None:
        """Stop the job of a model."""
        if self.row and (job := self.job_of(self.row.name)):
            self.jobs.cancel(job.number)

    def action_resume(self) -> None:
        """Resume a pull, or run a failed job again."""
        if not (row := self.row):
            return
        job = self.job_of(row.name)
        if not job or job.state != "failed" or job.kind == "plan":
            self.action_pull()
        elif job.kind != "pull" or not self.refused("pull"):
            self.jobs.retry(job.number)

    def action_begin(self, kind: Kind) -> None:
        """Verify or time a model."""
        if self.row:
            self.jobs.add(kind, self.row.name)

    def action_remove(self) -> None:
        """Remove a model after asking."""
        row = self.row

        def ask_to_remove(freed: int) -> None:
            assert row
            ask(self.app, removal_question(row.name, freed), "remove", partial(self.jobs.add, "remove", row.name))

        if row and row.name == BUILTIN:
            self.say("The built-in model is part of chatapp and cannot be removed.")
        elif row and row.name == self.current:
            self.say(f"{row.name} is in use; use another model first.")
        elif row:
            self.read("freed", lambda: self.catalogue.freed(row), ask_to_remove)

    def action_more(self) -> None:
        """Toggle between the full-screen details and the list."""
        more = not self.has_class("-more")
        self.set_class(more, "-more")
        self.set_focus(self.detail if more else self.listing)

    def action_back(self) -> None:
        """Close the entry line, then the details, then the screen."""
        if self.entry.typing and self.entry.purpose == "search":
            self.leave_entry(self.wanted)
        elif self.entry.typing or self.wanted:
            self.leave_entry("")
        elif self.has_class("-more"):
            self.action_more()
        else:
            self.dismiss(None)

    def action_interrupt(self) -> None:
        """Copy the selected text, or go back."""
        if selected := self.get_selected_text():
            self.app.copy_to_clipboard(selected)
            self.clear_selection()
        else:
            self.action_back()

    def refused(self, what: str) -> bool:
        """Whether the network is forbidden; if so, the user is told."""
        if self.offline:
            self.say(f"{what} needs the network, and {self.offline} forbids it.")
        return bool(self.offline)

    # Filter and search

    def action_filter(self) -> None:
        """Filter the list by typing."""
        self.entry.open("filter", self.wanted)

    def action_search(self) -> None:
        """Type a search for the Hub."""
        if not self.refused("search"):
            self.entry.open("search")

    def leave_entry(self, wanted: str) -> None:
        """Return to the list with this filter."""
        self.wanted = wanted
        self.entry.close(wanted)
        self.set_focus(self.listing)
        self.sort_in()
        self.ask_next()

    @on(Input.Changed)
    def take_filter(self, event: Input.Changed) -> None:
        if self.entry.purpose == "filter" and self.entry.typing:
            self.wanted = event.value
            self.sort_in()

    @on(Input.Submitted)
    def take_entry(self, event: Input.Submitted) -> None:
        text = event.value.strip().lstrip("-")
        if self.entry.purpose == "filter":
            self.leave_entry(text)
            return
        self.leave_entry(self.wanted)
        if text:
            self.sought = text
            self.hub = [row for row in self.hub if self.works_on(row.name)]
            self.jobs.add("search", text)
            self.say(f"Searching the Hub for {text!r}.")

    def on_key(self, event: events.Key) -> None:
        """Up and down move in the list while a filter is typed."""
        if self.entry.typing and event.key in ("up", "down"):
            event.stop()
            self.listing.action_walk(1 if event.key == "down" else -1)

    def take_found(self, job: Job) -> None:
        """Show the results of a search."""
        if job.model != self.sought:
            return
        if job.state == "failed":
            self.notify(job.result, severity="error", markup=False, timeout=10)
        elif job.state == "done":
            found = describe_found(job.facts)
            names = {row.name for row in found}
            self.hub = [*(row for row in self.hub if row.name not in names), *found]
            if unreached := job.facts.get("unreached"):
                self.notify(printable(str(unreached)), severity="warning", markup=False, timeout=10)
            elif not found:
                self.say(f"Nothing else on the Hub matches {self.sought!r} and runs here.")

"""The models screen: what is here, what can be fetched, and what is being done with it."""

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

if TYPE_CHECKING:
    from chatapp.models.catalogue import ListedModel, Machine
    from chatapp.models.facts import Details

Found = TypeVar("Found")

WIDE = 116
"""Columns from which the page about a model stands beside the list."""
WIDER = 150
"""Columns from which that page is wider."""
PAUSE = 0.12
"""Seconds that a model stays selected before all about it is read."""
EVERY = 1.0
"""Seconds between two looks at what other processes fetch."""
BUILTIN = "builtin"


class ModelsScreen(EndsOnce, Screen[str | None]):
    """Pick, pull, check, time and remove models; ends with the name of the one to use, or None."""

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
        """Why the network must not be used, if so."""
        self.rows: Sequence[ListedModel] = ()
        self.hub: Sequence[ListedModel] = ()
        self.sought = ""
        """What was searched for on the Hub."""
        self.wanted = ""
        """The filter."""
        self.details: Details | None = None
        self.told = ""
        """The model that they are about."""
        self.questions: dict[str, Job] = {}
        """The last plan that was asked for, by model."""
        self.plans: list[Job] = []
        """Those that are known, and that the user is asked about one after the other."""
        self.later: Timer | None = None
        """Looks again at what other processes fetch."""
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

    # What is here

    def look(self) -> None:
        """Read what is here."""
        self.read("rows", lambda: (self.catalogue.machine(), self.catalogue.rows()), self.take_rows)

    def take_rows(self, found: tuple[Machine, Sequence[ListedModel]]) -> None:
        """Show what was read."""
        machine, self.rows = found
        self.head.update(describe_machine(machine))
        self.sort_in()
        self.describe()
        if self.later:
            self.later.stop()
        others = (row.name for row in self.rows if row.state == "elsewhere")
        if not all(self.works_on(name) for name in others):  # what another process fetches grows without a word to us
            self.later = self.set_timer(EVERY, self.look)

    def sort_in(self) -> None:
        """Put what the filter leaves into sections; a pull has a line, wherever its model was found."""
        self.hub = [*self.hub, *list_unlisted(self.jobs.all(), (*self.rows, *self.hub))]
        every = (*self.rows, *self.hub)
        self.listing.work_on({row.name: job for row in every if (job := self.job_of(row.name))})
        self.listing.show([*group_models(self.rows, self.hub, self.wanted, self.sought)])
        self.refresh_bindings()

    # What threads read

    def read(self, what: str, get: Callable[[], Found], take: Callable[[Found], None]) -> None:
        """Let a thread get something; it is taken up unless the same was asked for again meanwhile."""

        def attempt() -> None:
            worker = get_current_worker()
            try:
                found = get()
            except Exception as error:  # told if its message is for the user
                if not (text := one_line(error)):
                    raise
                self.call_later(self.tell, what, text)
            else:
                if not worker.is_cancelled:
                    self.call_later(take, found)

        self.run_worker(attempt, thread=True, group=what, exclusive=True)

    def tell(self, what: str, text: str) -> None:
        """Something could not be read."""
        if what == "rows" and not self.rows:
            self.head.update(f" models  {text}")
        self.notify(text, severity="error", markup=False)

    def say(self, text: str) -> None:
        """Tell the user something in passing."""
        self.notify(text, markup=False, timeout=4)

    # What is done

    def show_job(self, job: Job) -> None:
        """Take up what has become of a job."""
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
        """What is done with a model, or asked about it."""
        done, asked = self.jobs.of(name), self.questions.get(name)
        return asked if asked and (done is None or asked.number > done.number) else done

    def works_on(self, name: str) -> bool:
        """Whether something is done with a model just now."""
        job = self.job_of(name)
        return bool(job and not job.ended)

    @property
    def row(self) -> ListedModel | None:
        """The selected model."""
        return self.listing.selected

    # The page about a model

    @on(ModelList.Selected)
    def describe(self) -> None:
        """Show what the list knows at once, and the rest when it has been read."""
        row = self.row
        if not row or row.name != self.told:
            self.details, self.told = None, row.name if row else ""
            self.detail.scroll_home(animate=False)
        self.show_details()
        self.refresh_bindings()
        if row:
            self.set_timer(PAUSE, lambda: self.read_details(row))

    def read_details(self, row: ListedModel) -> None:
        """Read all about a model that has been selected for a moment."""
        if row == self.row:
            self.read("details", lambda: self.catalogue.details(row), lambda details: self.take_details(row, details))

    def take_details(self, row: ListedModel, details: Details) -> None:
        """Show what was read, where that model is still selected."""
        if row == self.row:
            self.details = details
            self.show_details()

    def show_details(self) -> None:
        """Show what is known of the selected model."""
        self.detail.show(self.row, self.details, self.job_of(self.row.name) if self.row else None)

    # Keys

    @on(ModelList.Used)
    def action_use(self) -> None:
        """Use a model that is here; fetch another."""
        if self.row and self.check_action("use", ()):
            if self.row.state in ("here", "remote"):
                self.dismiss(self.row.name)
            else:
                self.action_pull()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what can be done with the selected model has a key."""
        row = self.row if self.is_mounted else None
        what = str(parameters[0]) if action == "begin" else action
        return is_possible(what, row, self.job_of(row.name) if row else None)

    def action_pull(self) -> None:
        """Ask what pulling a model means; go on at once with one that was stopped."""
        row = self.row
        if not row or self.refused("pull"):
            return
        if row.state == "absent":
            self.questions[row.name] = self.jobs.add("plan", row.source)
            self.sort_in()
        else:
            self.jobs.add("pull", row.source)

    def ask_next(self) -> None:
        """Ask about the next plan, unless the keys that come now are for something else."""
        if not self.plans or not self.is_current or self.entry.typing:
            return
        plan = self.plans.pop(0)
        problems = plan.facts["problems"]
        pull = partial(self.jobs.add, "pull", plan.model, *(("--force",) if problems else ()))
        ask(self.app, pull_question(plan.facts, self.size.width), "pull it all the same" if problems else "pull", pull)

    def action_cancel(self) -> None:
        """Stop what is done with a model."""
        if self.row and (job := self.job_of(self.row.name)):
            self.jobs.cancel(job.number)

    def action_resume(self) -> None:
        """Go on with a pull that was stopped, or do again what failed."""
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
        """Ask before a model is removed."""
        row = self.row

        def ask_to_remove(freed: int) -> None:
            assert row
            ask(self.app, removal_question(row.name, freed), "remove", partial(self.jobs.add, "remove", row.name))

        if row and row.name == BUILTIN:
            self.say("The built-in model comes with chatapp and stays.")
        elif row and row.name == self.current:
            self.say(f"{row.name} is in use; use another model first.")
        elif row:
            self.read("freed", lambda: self.catalogue.freed(row), ask_to_remove)

    def action_more(self) -> None:
        """Give the page about a model the whole screen, or only its part again."""
        more = not self.has_class("-more")
        self.set_class(more, "-more")
        self.set_focus(self.detail if more else self.listing)

    def action_back(self) -> None:
        """Leave what was entered, then the page, then the screen."""
        if self.entry.typing and self.entry.purpose == "search":
            self.leave_entry(self.wanted)
        elif self.entry.typing or self.wanted:
            self.leave_entry("")
        elif self.has_class("-more"):
            self.action_more()
        else:
            self.dismiss(None)

    def action_interrupt(self) -> None:
        """Copy what is selected, or else leave as escape does."""
        if selected := self.get_selected_text():
            self.app.copy_to_clipboard(selected)
            self.clear_selection()
        else:
            self.action_back()

    def refused(self, what: str) -> bool:
        """Whether the network must not be used; then the user is told."""
        if self.offline:
            self.say(f"{what} needs the network, and {self.offline} forbids it.")
        return bool(self.offline)

    # Filter and search

    def action_filter(self) -> None:
        """Type what the models' names or uses must have."""
        self.entry.open("filter", self.wanted)

    def action_search(self) -> None:
        """Type what to search for on the Hub."""
        if not self.refused("search"):
            self.entry.open("search")

    def leave_entry(self, wanted: str) -> None:
        """Go back to the list, with this filter."""
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
            self.say(f"Asking the Hub for {text!r}.")

    def on_key(self, event: events.Key) -> None:
        """From the filter, up and down move in the list."""
        if self.entry.typing and event.key in ("up", "down"):
            event.stop()
            self.listing.action_walk(1 if event.key == "down" else -1)

    def take_found(self, job: Job) -> None:
        """Show what a search has found."""
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
                self.say(f"The Hub has nothing more called {self.sought!r} that runs here.")

"""The errors whose message is for the user, and those of the backends."""


class UserError(Exception):
    """What went wrong, to what, and what to do, in words for the user; every error of ours that is no defect.

    UserError
    ├── BackendError       backends
    ├── StoreError         model_store
    ├── GenerationError    chatapp.generation, as are OptionError and RenderingError
    ├── VerifyError        chatapp.evaluation, as is MeasurementsError
    ├── HistoryError       chatapp.history
    ├── SettingsError      chatapp.settings, as is Offline
    ├── SlashError         chatapp.commands, as is ParameterError
    └── InputError         chatapp.text, as is UsageError
    """


class BackendError(UserError):
    """A backend cannot do what was asked.

    BackendError
    └── ContextExceeded
    """


class ContextExceeded(BackendError):
    """More tokens than the context holds."""

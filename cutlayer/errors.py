"""What can go wrong, as a small tree.

CutlayerError            every error a user can cause; the command line prints it as one sentence, exit 2
├── ConfigError          an argument or option outside what is allowed
├── DataError            a table or dataset that cannot be used as it is
├── ProtocolError        a message that does not follow the protocol (wrong step, shape, sender)
├── Inapplicable         an attack that cannot run on this view; the finding says why
├── RunError             a run folder that is missing, unfinished or damaged
│   └── Diverged         training ran away: numbers are no longer finite
└── Interrupted          the user stopped a run (Ctrl-C); says how to go on; exit 130
"""


class CutlayerError(Exception):
    """Say what was expected, what came and what to do, in one sentence."""


class ConfigError(CutlayerError):
    """An argument or option outside what is allowed."""


class DataError(CutlayerError):
    """A table or dataset that cannot be used as it is."""


class ProtocolError(CutlayerError):
    """A message that does not follow the protocol."""


class RunError(CutlayerError):
    """A run folder that is missing, unfinished or damaged."""


class Diverged(RunError):
    """Training ran away: numbers are no longer finite."""


class Interrupted(CutlayerError):
    """The user stopped a run; says how to go on."""


class Inapplicable(CutlayerError):
    """An attack that cannot run on this view; its text is the reason, such as "dense-only"."""

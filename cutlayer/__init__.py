"""cutlayer: train one model across organisations that each hold some columns about the same people,
and know, in numbers, what each of them can learn about the others."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cutlayer.version import __version__

if TYPE_CHECKING:
    from cutlayer import attacks, data, defences, horizontal, metrics, models
    from cutlayer.attack import Asks, Attack, Form, Guess, Target
    from cutlayer.cut import Cut
    from cutlayer.cuts.concat import Concat
    from cutlayer.cuts.sum import Sum
    from cutlayer.defence import Defence, Local, Place, Role, Setting
    from cutlayer.errors import ConfigError, CutlayerError, DataError, ProtocolError, RunError
    from cutlayer.experiment.audit import Report, audit
    from cutlayer.finding import Finding
    from cutlayer.judge import Secret
    from cutlayer.message import Kind, Message, Phase
    from cutlayer.plan import Plan
    from cutlayer.recipe import Constant, Cosine, Milestones, Optimiser, Recipe, Steps
    from cutlayer.run import Run
    from cutlayer.training import train
    from cutlayer.transcript import Channel, Keep, Transcript
    from cutlayer.view import Hints, Known, Manifest, Own, View

__all__ = [
    "Asks",
    "Attack",
    "Channel",
    "Concat",
    "ConfigError",
    "Constant",
    "Cosine",
    "Cut",
    "CutlayerError",
    "DataError",
    "Defence",
    "Finding",
    "Form",
    "Guess",
    "Hints",
    "Keep",
    "Kind",
    "Known",
    "Local",
    "Manifest",
    "Message",
    "Milestones",
    "Optimiser",
    "Own",
    "Phase",
    "Place",
    "Plan",
    "ProtocolError",
    "Recipe",
    "Report",
    "Role",
    "Run",
    "RunError",
    "Secret",
    "Setting",
    "Steps",
    "Sum",
    "Target",
    "Transcript",
    "View",
    "__version__",
    "attacks",
    "audit",
    "data",
    "defences",
    "horizontal",
    "metrics",
    "models",
    "train",
]

HOMES = {  # where names live; the others are packages
    "attack": "Asks, Attack, Form, Guess, Target",
    "experiment.audit": "Report, audit",
    "cut": "Cut",
    "cuts.concat": "Concat",
    "cuts.sum": "Sum",
    "defence": "Defence, Local, Place, Role, Setting",
    "errors": "ConfigError, CutlayerError, DataError, ProtocolError, RunError",
    "finding": "Finding",
    "judge": "Secret",
    "message": "Kind, Message, Phase",
    "plan": "Plan",
    "recipe": "Constant, Cosine, Milestones, Optimiser, Recipe, Steps",
    "run": "Run",
    "training": "train",
    "transcript": "Channel, Keep, Transcript",
    "view": "Hints, Known, Manifest, Own, View",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: PyTorch takes a second, which `cutlayer --help` need not wait for."""
    if name not in __all__:
        raise AttributeError(f"module 'cutlayer' has no attribute {name!r}")
    home = next((home for home, names in HOMES.items() if name in names.split(", ")), None)
    found = import_module(f"cutlayer.{home or name}")
    globals()[name] = value = getattr(found, name) if home else found
    return value


def __dir__() -> list[str]:
    return __all__

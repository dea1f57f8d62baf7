"""cutlayer: train one model across organisations that each hold some columns about the same people,
and know, in numbers, what each of them can learn about the others."""

from cutlayer import attacks, data, defences, metrics, models
from cutlayer.attack import Asks, Attack, Form, Guess, Target
from cutlayer.auditing import Report, audit
from cutlayer.cut import Cut
from cutlayer.cuts.concat import Concat
from cutlayer.cuts.sum import Sum
from cutlayer.defence import Defence, Local, Place, Role, Setting
from cutlayer.errors import ConfigError, CutlayerError, DataError, ProtocolError, RunError
from cutlayer.judge import Finding, Secret, judge
from cutlayer.message import Kind, Message, Phase
from cutlayer.plan import Plan
from cutlayer.recipe import Constant, Cosine, Milestones, Optimiser, Recipe, Steps
from cutlayer.run import Run
from cutlayer.training import train
from cutlayer.transcript import Channel, Keep, Transcript
from cutlayer.version import __version__
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
    "judge",
    "metrics",
    "models",
    "train",
]

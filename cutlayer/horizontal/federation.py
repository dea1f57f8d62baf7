"""Federation: what is trained over clients with rows of their own, and which rows each of them holds."""

from dataclasses import dataclass
from enum import Enum

from torch import Tensor

from cutlayer._validate import at_least, instance, positive
from cutlayer.blocks.sparse import SparseRows
from cutlayer.data.task import Goal, Task
from cutlayer.errors import ConfigError, DataError
from cutlayer.horizontal.partition import dirichlet, evenly
from cutlayer.plan import Plan
from cutlayer.recipe import Optimiser, Recipe
from cutlayer.rng import generator

SERVER, AVERAGER = "server", "averager"


class Method(Enum):
    """Which parts of a model are shared, and with whom."""

    FEDAVG = "fedavg"
    PRIVATE_BOTTOM = "private-bottom"
    SPLITFED = "splitfed"


class Exchange(Enum):
    """What a client sends after a round."""

    WEIGHTS = "weights"
    GRADIENTS = "gradients"


DEFAULT = Recipe(epochs=10, batch_size=64, optimiser=Optimiser.SGD, lr=0.01, weight_decay=4e-5)


@dataclass(frozen=True, kw_only=True)
class Federation:
    """Everything but the data. An epoch of the plan's recipe is a round.

    FEDAVG: the whole model is shared and averaged (McMahan et al.). PRIVATE_BOTTOM: only tops are shared; every client
    keeps a bottom of its own, with passports if they are among the defences (FedAdOb's Algorithm 2). SPLITFED: the
    server holds the tops and sees embeddings, somebody else averages the bottoms (Thapa et al.).
    Clients send WEIGHTS after `passes` over their rows, or the GRADIENTS of one batch.
    """

    plan: Plan
    clients: int = 10
    method: Method = Method.FEDAVG
    exchange: Exchange = Exchange.WEIGHTS
    passes: int = 1
    weighted: bool = True  # clients count by their rows; otherwise all count the same
    alpha: float | None = None  # of a Dirichlet distribution of classes over clients; without it, rows are dealt evenly

    def __post_init__(self) -> None:
        at_least("clients", self.clients, 1)
        at_least("passes", self.passes, 1)
        instance("method", self.method, Method, "Method.FEDAVG")
        instance("exchange", self.exchange, Exchange, "Exchange.WEIGHTS")
        if self.alpha is not None:
            positive("alpha", self.alpha)
        if self.exchange is Exchange.GRADIENTS and self.method is Method.SPLITFED:
            raise ConfigError("Expected exchange=weights with splitfed, whose gradients cross in every step anyway.")
        for defence in self.plan.defences:
            if not defence.clients:
                raise ConfigError(
                    f"Expected a defence that protects a client of horizontal learning, got {defence.describe()}; use "
                    "gaussian-noise or sparsification with on=update, instahide, or passport with where=bottom."
                )

    @property
    def shares(self) -> tuple[str, ...]:
        """The parts of a client's model that are averaged."""
        return ("top",) if self.method is Method.PRIVATE_BOTTOM else ("bottom", "top")

    @property
    def names(self) -> list[str]:
        """The clients."""
        return [f"client{number}" for number in range(self.clients)]


def whole_rows(task: Task) -> Tensor:
    """The columns of a task in which one party holds them all."""
    instance("task", task, Task, "cl.data.digits(parties=1, label_party='server')")
    if task.goal is Goal.REGRESSION or len(task.features) != 1:
        raise DataError(
            f"Expected classes and whole rows for horizontal learning, got {len(task.features)} parties with columns; "
            f"make the task with parties=1, label_party='server'."
        )
    (features,) = task.features.values()
    if isinstance(features.values, SparseRows):
        raise DataError("Expected dense columns for horizontal learning, got sparse ones.")
    return features.values


def rows_of(task: Task, federation: Federation) -> dict[str, Tensor]:
    """Which training rows each client holds."""
    rng = generator(federation.plan.seed, "clients")
    if federation.alpha is None:
        parts = evenly(task.train, federation.clients, rng)
    else:
        parts = dirichlet(task.train, task.labels[task.train], federation.clients, federation.alpha, rng)
    return dict(zip(federation.names, parts, strict=True))

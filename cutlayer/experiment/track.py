"""Track: findings to MLflow or TensorBoard, for those who keep all experiments in one place. Off by default."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cutlayer._validate import one_of
from cutlayer.errors import ConfigError
from cutlayer.finding import Status
from cutlayer.report.record import Record
from cutlayer.report.row import Row, value_and_baseline
from cutlayer.setup import setup_of

Log = Callable[[Record], None]


@contextmanager
def tracked(where: str | None) -> Iterator[Log]:
    """Open a tracker, `mlflow:URI` or `tensorboard:FOLDER`, before work begins: a wrong one is noticed at once."""
    if where is None:
        yield lambda record: None
        return
    kind, _, place = where.partition(":")
    one_of("tracker", kind, ("mlflow", "tensorboard"))
    if not place:
        raise ConfigError(f"Expected --track {kind}:PLACE, got no place.")
    yield (_mlflow if kind == "mlflow" else _tensorboard)(place)


def figures(record: Record) -> dict[str, float]:
    """Every finding that is done, by a name that says where it comes from."""
    return {_name(row): value_and_baseline(row)[0] for row in record.rows if row["status"] is Status.DONE}


def _name(row: Row) -> str:
    return f"{row['attack']} on {row['victim']} under {setup_of(row).spelling} seed {row['seed']}"


def _mlflow(uri: str) -> Log:
    try:
        import mlflow
    except ImportError as error:
        raise ConfigError("MLflow is not installed: pip install mlflow-skinny.") from error

    def log(record: Record) -> None:
        mlflow.set_tracking_uri(uri)
        mlflow.set_experiment("cutlayer")
        with mlflow.start_run(run_name=record.title):
            mlflow.log_params({key: str(value)[:250] for key, value in record.facts.items()})
            for name, value in figures(record).items():
                mlflow.log_metric("".join(c if c.isalnum() or c in " _-./" else "_" for c in name)[:250], value)

    return log


def _tensorboard(folder: str) -> Log:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError("TensorBoard is not installed: pip install tensorboard.") from error

    def log(record: Record) -> None:
        writer: Any = SummaryWriter(folder)
        for name, value in figures(record).items():
            writer.add_scalar(name, value)
        writer.close()

    return log

"""HTTP models: the JSON that the online service accepts and returns."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StringConstraints

from cutlayer.net.party.finished_run import FinishedRun
from cutlayer.net.predict.label_side import Answer
from cutlayer.net.predict.predictions import NO_ID, numbers_of
from cutlayer.net.predict.row_request import ID_LIMIT

Id = Annotated[str, StringConstraints(min_length=1, max_length=256)] | StrictInt


class Question(BaseModel):
    """The ids to predict for."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"ids": ["c17", "c23"]}]})
    ids: Annotated[list[Id], Field(min_length=1, max_length=ID_LIMIT)]


class Prediction(BaseModel):
    """The result for one id."""

    predicted: str | float | None
    probabilities: dict[str, float] | None = None
    missing_at: list[str] = []
    flagged: bool = False


class Predictions(BaseModel):
    """Results in the order of the ids."""

    request_id: str
    predictions: list[Prediction]


class Problem(BaseModel):
    """What was expected, what came and what to do; and the parties that are missing, if any are."""

    request_id: str
    error: str
    missing: list[str] = []


def prediction_of(answer: Answer, run: FinishedRun, id_: bytes) -> Prediction:
    """The result for one normalised id, which may be empty."""
    if answer.outputs is None:
        return Prediction(predicted=None, missing_at=list(answer.missing) if id_ else [NO_ID])
    numbers = numbers_of(answer, run)
    if not run.names:
        return Prediction(predicted=numbers[0], flagged=answer.flagged)
    probabilities = dict(zip(run.names, numbers, strict=True))
    likeliest = max(probabilities, key=lambda name: probabilities[name])
    return Prediction(predicted=likeliest, probabilities=probabilities, flagged=answer.flagged)

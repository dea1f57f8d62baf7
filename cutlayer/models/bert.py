"""BERT as a bottom for text, through the optional package transformers.

Nothing is ever downloaded: a run must give the same numbers on a machine without network.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cutlayer._validate import at_least, probability
from cutlayer.data.task import Features
from cutlayer.errors import ConfigError
from cutlayer.models.parts.shape import holds_tokens


class Bert(nn.Module):
    """BERT's pooled output, dropout and a linear layer of `width`.

    Inputs are int64 token ids (rows, length), length at most 512; 0 is padding and is ignored.
    `weights` names a local folder with config.json and model.safetensors, which then decides
    `layers`, `hidden`, `heads` and `vocabulary`; without it all weights start at random. `freeze`
    keeps BERT as it is and trains the last layer alone (dropout inside BERT stays on in training).
    """

    def __init__(
        self,
        width: int,
        *,
        weights: str | None = None,
        layers: int = 12,
        hidden: int = 768,
        heads: int = 12,
        vocabulary: int = 30522,
        freeze: bool = False,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        at_least("width", width, 1)
        probability("dropout", dropout)
        if weights is None:
            encoder = _fresh(layers, hidden, heads, vocabulary, dropout)
        else:
            encoder = _stored(weights, dropout)
        self.encoder: nn.Module = encoder.requires_grad_(not freeze)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(encoder.config.hidden_size, width)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return (rows, width)."""
        first = torch.arange(inputs.shape[1], device=inputs.device) == 0
        mask = (inputs != 0) | first  # the first token always counts, so that an empty text stays finite
        pooled = self.encoder(input_ids=inputs, attention_mask=mask.long()).pooler_output
        output: Tensor = self.fc(self.dropout(pooled))
        return output


def bert_bottom(features: Features, width: int, *, weights: str | None = None, layers: int = 12) -> nn.Module:
    """BERT on token ids (HashVFL on IMDb); needs the extra cutlayer[text]."""
    if not holds_tokens(features):
        raise ConfigError("Expected token ids for the bottom bert, got numbers: use another bottom.")
    return Bert(width, weights=weights, layers=layers)


def _fresh(layers: int, hidden: int, heads: int, vocabulary: int, dropout: float) -> Any:
    for name, value in (("layers", layers), ("hidden", hidden), ("heads", heads), ("vocabulary", vocabulary)):
        at_least(name, value, 1)
    if hidden % heads:
        raise ConfigError(f"Expected hidden={hidden} to be a multiple of heads={heads}.")
    config, model = _transformers()
    return model(
        config(
            vocab_size=vocabulary,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * hidden,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
        )
    )


def _stored(weights: str, dropout: float) -> Any:
    if not (Path(weights) / "config.json").is_file():
        raise ConfigError(
            f"Expected weights={weights!r} to be a local folder with config.json and model.safetensors: "
            "nothing is downloaded, so fetch the model first."
        )
    _, model = _transformers()
    try:
        return model.from_pretrained(
            weights,
            local_files_only=True,
            use_safetensors=True,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
        )
    except OSError as error:
        raise ConfigError(f"Expected weights={weights!r} to hold a BERT in safetensors form: {error}") from error


def _transformers() -> tuple[Any, Any]:
    try:
        from transformers import BertConfig, BertModel
    except ImportError as error:
        raise ConfigError("Expected the package transformers for Bert: install cutlayer[text].") from error
    return BertConfig, BertModel

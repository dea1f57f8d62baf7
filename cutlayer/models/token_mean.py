"""TokenMean: a small bottom for text, the mean of word vectors, for when BERT is too much."""

from torch import Tensor, nn

from cutlayer._validate import at_least


class TokenMean(nn.Module):
    """Average the embeddings of a row's tokens, then a linear layer.

    Inputs are int64 token ids (rows, length); 0 is padding and does not count. A row of padding
    alone has mean zero.
    """

    def __init__(self, width: int, *, vocabulary: int = 30522, embedding: int = 64) -> None:
        super().__init__()
        at_least("width", width, 1)
        at_least("vocabulary", vocabulary, 2)
        at_least("embedding", embedding, 1)
        self.embedding = nn.EmbeddingBag(vocabulary, embedding, mode="mean", padding_idx=0)
        self.fc = nn.Linear(embedding, width)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return (rows, width)."""
        output: Tensor = self.fc(self.embedding(inputs))
        return output

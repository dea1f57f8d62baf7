"""A job of a paper that takes a second."""

from cutlayer.papers.job import Job

TINY = Job(data="wine:label_party=server", bottom="mlp:hidden=8", top="mlp", width=4, epochs=1, batch_size=32)

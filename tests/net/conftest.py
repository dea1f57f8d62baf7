"""Federations of real processes, cleaned up after every test."""

import pytest

from tests.helpers.federation import Federation
from tests.helpers.processes import ForkServer


@pytest.fixture(scope="session")
def fork_server():
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture
def federate(fork_server, tmp_path):
    """Make a federation in a folder of its own: `federate(parties=3, epochs=5)`."""
    federations = []

    def make(**settings):
        federations.append(Federation(tmp_path / f"federation{len(federations)}", fork_server, **settings))
        return federations[-1]

    yield make
    for federation in federations:
        federation.close()

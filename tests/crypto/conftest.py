import pytest

from cutlayer.crypto import Bfv, Paillier, Ring


@pytest.fixture(scope="session")
def bfv():
    return Bfv(Ring(40)).generate()


@pytest.fixture(scope="session")
def bfv_wide():
    return Bfv(Ring(48)).generate()


@pytest.fixture(scope="session")
def bfv_widest():
    return Bfv(Ring(56)).generate()


@pytest.fixture(scope="session")
def paillier():
    return Paillier(Ring(40), 512, for_tests=True).generate()


@pytest.fixture(scope="session")
def paillier_wide():
    return Paillier(Ring(48), 768, for_tests=True).generate()


@pytest.fixture(params=["bfv", "bfv_wide", "bfv_widest", "paillier", "paillier_wide"])
def secret(request):
    return request.getfixturevalue(request.param)

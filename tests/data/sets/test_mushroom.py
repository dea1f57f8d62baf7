from cutlayer.data import load
from tests.helpers.dataset_files import FILES


def test_mushroom_drops_the_constant_veil_type(put, any_size):
    put(*FILES["mushroom"][:2])
    held = load("mushroom").features
    assert "veil-type" not in [column.name for part in held.values() for column in part.columns]

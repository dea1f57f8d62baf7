import torch

from cutlayer.models.parts.residual import Subsample


def test_parameter_free_shortcut_skips_pixels_and_fills_with_zeros():
    inputs = torch.arange(2 * 4 * 3, dtype=torch.float32).reshape(1, 2, 4, 3)
    output = Subsample(2, 4, 2)(inputs)
    assert output.shape == (1, 4, 2, 2)
    assert output[0, 1].tolist() == [[0, 2], [6, 8]]
    assert not output[0, 0].any() and not output[0, 3].any()

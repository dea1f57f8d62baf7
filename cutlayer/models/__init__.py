"""Bottoms and tops: plain torch modules, one file each. Any other nn.Module does as well."""

from cutlayer.models.alexnet import AlexNet, AlexNetTop
from cutlayer.models.bert import Bert
from cutlayer.models.deep_cross import DeepCross
from cutlayer.models.defaults import default_bottom, default_top
from cutlayer.models.lenet import LeNet, LeNetTop
from cutlayer.models.mlp import MLP
from cutlayer.models.resnet import ResNet18, ResNet20
from cutlayer.models.sparse_linear import SparseLinear
from cutlayer.models.token_mean import TokenMean

__all__ = [
    "MLP",
    "AlexNet",
    "AlexNetTop",
    "Bert",
    "DeepCross",
    "LeNet",
    "LeNetTop",
    "ResNet18",
    "ResNet20",
    "SparseLinear",
    "TokenMean",
    "default_bottom",
    "default_top",
]

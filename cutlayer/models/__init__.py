"""Bottoms and tops: plain torch modules, one file each. Any other nn.Module does as well."""

from cutlayer.models.alexnet import AlexNet, AlexNetRest, AlexNetTop
from cutlayer.models.bert import Bert
from cutlayer.models.deep_cross import DeepCross
from cutlayer.models.defaults import default_bottom, default_top
from cutlayer.models.first_layer import FirstLayer
from cutlayer.models.lenet import LeNet, LeNetRest, LeNetTop
from cutlayer.models.mlp import MLP
from cutlayer.models.resnet import ResNet18, ResNet20
from cutlayer.models.sparse_linear import SparseLinear
from cutlayer.models.token_mean import TokenMean

__all__ = [
    "MLP",
    "AlexNet",
    "AlexNetRest",
    "AlexNetTop",
    "Bert",
    "DeepCross",
    "FirstLayer",
    "LeNet",
    "LeNetRest",
    "LeNetTop",
    "ResNet18",
    "ResNet20",
    "SparseLinear",
    "TokenMean",
    "default_bottom",
    "default_top",
]

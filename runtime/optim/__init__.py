"""Optimisers and the rates by which they learn, with torch's names: ``cuplug.optim``."""

from . import lr_scheduler as lr_scheduler
from . import swa_utils as swa_utils
from .adaptive_optimizers import Adadelta, Adamax, NAdam, RAdam
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .optimizers import SGD, Adagrad, Adam, AdamW, RMSprop

__all__ = [
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "lr_scheduler",
    "swa_utils",
]

"""Optimisers and the rates by which they learn, with torch's names: ``cuplug.optim``."""

from . import lr_scheduler as lr_scheduler
from .optimizer import Optimizer
from .optimizers import SGD, Adagrad, Adam, AdamW, RMSprop

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]

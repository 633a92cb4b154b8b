# What type checkers know of ``import cuplug.optim``: ``runtime/optim``: see ``runtime/facade/public_paths.py``.
from ..runtime.optim.adaptive_optimizers import *  # noqa: F403
from ..runtime.optim.lbfgs import LBFGS as LBFGS
from ..runtime.optim.optimizer import Optimizer as Optimizer
from ..runtime.optim.optimizers import *  # noqa: F403
from . import lr_scheduler as lr_scheduler
from . import swa_utils as swa_utils

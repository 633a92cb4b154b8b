"""Networks, with torch's names: ``cuplug.nn``. It stands above ``autograd`` and computes by operations of tensors.

On CUDA devices convolutions and attention are cuDNN's where it is installed; elsewhere they are products of matrices.
"""

from . import functional as functional
from . import init as init
from . import parallel as parallel
from . import parameter as parameter
from . import parameter_tools as utils
from .attention import MultiheadAttention, TransformerEncoderLayer
from .containers import ModuleDict, ModuleList, ParameterList, Sequential
from .convolution_layers import *  # noqa: F403
from .convolution_layers import __all__ as _convolutions
from .function_layers import *  # noqa: F403
from .function_layers import __all__ as _functions
from .linear_layers import *  # noqa: F403
from .linear_layers import __all__ as _linear
from .module import Module
from .normalisation_layers import *  # noqa: F403
from .normalisation_layers import __all__ as _normalisations
from .parallel import DataParallel
from .parameter import Parameter

__all__ = [
    "DataParallel",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiheadAttention",
    "Parameter",
    "ParameterList",
    "Sequential",
    "TransformerEncoderLayer",
    "functional",
    "init",
    "parallel",
    "utils",
]
__all__ += _convolutions
__all__ += _functions
__all__ += _linear
__all__ += _normalisations

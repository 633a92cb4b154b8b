"""Networks, with torch's names: ``cuplug.nn``. It stands above ``autograd`` and computes by operations of tensors.

On CUDA devices convolutions and attention are cuDNN's where it is installed; elsewhere they are products of matrices.
"""

from . import functional as functional
from . import init as init
from . import parallel as parallel
from . import parameter as parameter
from . import parameter_tools as utils
from .attention import MultiheadAttention, TransformerEncoderLayer
from .containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .convolution_layers import *  # noqa: F403
from .convolution_layers import __all__ as _convolutions
from .convolution_layers import (  # noqa: F401 - what programs ask with isinstance, by torch's names
    _AdaptiveAvgPoolNd,
    _AvgPoolNd,
    _ConvNd,
    _ConvTransposeNd,
    _MaxPoolNd,
)
from .embedding_bags import EmbeddingBag
from .function_layers import *  # noqa: F403
from .function_layers import __all__ as _functions
from .function_layers import _Loss  # noqa: F401 - as above
from .lazy_layers import *  # noqa: F403
from .lazy_layers import __all__ as _lazy
from .linear_layers import *  # noqa: F403
from .linear_layers import __all__ as _linear
from .linear_layers import _DropoutNd  # noqa: F401 - as above
from .module import Module
from .normalisation_layers import *  # noqa: F403
from .normalisation_layers import __all__ as _normalisations
from .normalisation_layers import _BatchNorm  # noqa: F401 - as above
from .padding_layers import *  # noqa: F403
from .padding_layers import __all__ as _paddings
from .parallel import DataParallel
from .parameter import Parameter
from .recurrent import *  # noqa: F403
from .recurrent import __all__ as _recurrent
from .saved_modules import admit_modules as _admit_modules
from .transformers import *  # noqa: F403
from .transformers import __all__ as _transformers
from .volume_layers import *  # noqa: F403
from .volume_layers import __all__ as _volumes
from .volume_layers import _AdaptiveMaxPoolNd  # noqa: F401 - as above

_admit_modules()

__all__ = [
    "DataParallel",
    "EmbeddingBag",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiheadAttention",
    "Parameter",
    "ParameterDict",
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
__all__ += _lazy
__all__ += _linear
__all__ += _normalisations
__all__ += _paddings
__all__ += _recurrent
__all__ += _transformers
__all__ += _volumes

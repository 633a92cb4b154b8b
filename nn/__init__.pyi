# What type checkers know of ``import cuplug.nn``: ``runtime/nn``: see ``runtime/facade/public_paths.py``.
# mypy does not follow ``__all__`` from one module to the next.
from ..runtime.nn.attention import MultiheadAttention as MultiheadAttention
from ..runtime.nn.attention import TransformerEncoderLayer as TransformerEncoderLayer
from ..runtime.nn.containers import ModuleDict as ModuleDict
from ..runtime.nn.containers import ModuleList as ModuleList
from ..runtime.nn.containers import ParameterDict as ParameterDict
from ..runtime.nn.containers import ParameterList as ParameterList
from ..runtime.nn.containers import Sequential as Sequential
from ..runtime.nn.convolution_layers import *  # noqa: F403
from ..runtime.nn.embedding_bags import EmbeddingBag as EmbeddingBag
from ..runtime.nn.function_layers import *  # noqa: F403
from ..runtime.nn.lazy_layers import *  # noqa: F403
from ..runtime.nn.linear_layers import *  # noqa: F403
from ..runtime.nn.module import Module as Module
from ..runtime.nn.normalisation_layers import *  # noqa: F403
from ..runtime.nn.padding_layers import *  # noqa: F403
from ..runtime.nn.parallel import DataParallel as DataParallel
from ..runtime.nn.parameter import Parameter as Parameter
from ..runtime.nn.recurrent import *  # noqa: F403
from ..runtime.nn.transformers import *  # noqa: F403
from ..runtime.nn.volume_layers import *  # noqa: F403
from . import functional as functional
from . import init as init
from . import parallel as parallel
from . import parameter as parameter
from . import utils as utils

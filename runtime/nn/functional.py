"""``cuplug.nn.functional``: what layers compute, as functions."""

from .activations import *  # noqa: F403
from .adaptive_pooling import *  # noqa: F403
from .affine import *  # noqa: F403
from .attention import scaled_dot_product_attention as scaled_dot_product_attention
from .convolution import *  # noqa: F403
from .embedding_bags import embedding_bag as embedding_bag
from .embeddings import *  # noqa: F403
from .interpolation import *  # noqa: F403
from .losses import *  # noqa: F403
from .margin_losses import *  # noqa: F403
from .normalisation import *  # noqa: F403
from .pooled_windows import *  # noqa: F403
from .rare_activations import *  # noqa: F403
from .volumes import *  # noqa: F403

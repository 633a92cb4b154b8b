from ..runtime.nn.activations import *  # noqa: F403
from ..runtime.nn.adaptive_pooling import *  # noqa: F403
from ..runtime.nn.affine import *  # noqa: F403
from ..runtime.nn.attention import scaled_dot_product_attention as scaled_dot_product_attention
from ..runtime.nn.convolution import *  # noqa: F403
from ..runtime.nn.embedding_bags import embedding_bag as embedding_bag
from ..runtime.nn.embeddings import *  # noqa: F403
from ..runtime.nn.interpolation import *  # noqa: F403
from ..runtime.nn.losses import *  # noqa: F403
from ..runtime.nn.margin_losses import *  # noqa: F403
from ..runtime.nn.normalisation import *  # noqa: F403
from ..runtime.nn.pooled_windows import *  # noqa: F403
from ..runtime.nn.rare_activations import *  # noqa: F403
from ..runtime.nn.volumes import *  # noqa: F403

"""What parameters are filled with at first: matrices at right angles, filters that hand on, columns with zeros."""

from __future__ import annotations

import math
from typing import Any

import cuplug
import numpy as np
import pytest

init = cuplug.nn.init


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (6, 2, 2)])
def test_rows_or_columns_are_at_right_angles(shape: tuple[int, ...], device: str) -> None:
    filled: Any = init.orthogonal_(cuplug.empty(*shape, device=device), gain=2)
    matrix = filled.reshape(shape[0], -1).cpu().numpy()
    products = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(products, 4 * np.eye(min(matrix.shape)), atol=1e-5)


@pytest.mark.parametrize("groups", [1, 2])
def test_filters_hand_on_channels(groups: int, device: str) -> None:
    filters: Any = init.dirac_(cuplug.empty(4, 4 // groups, 3, 3, device=device), groups)
    images = cuplug.randn(2, 4, 5, 5, device=device)
    made = cuplug.nn.functional.conv2d(images, filters, padding=1, groups=groups)
    assert cuplug.allclose(made, images)


def test_a_part_of_each_column_is_zero(device: str) -> None:
    filled: Any = init.sparse_(cuplug.empty(10, 4, device=device), 0.25)
    assert (filled == 0).sum(0).tolist() == [3] * 4


def test_what_has_too_few_dimensions_is_refused() -> None:
    for function, x, said in (
        (init.orthogonal_, cuplug.empty(3), "two dimensions"),
        (init.dirac_, cuplug.empty(3, 3), "3, 4 or 5"),
        (lambda x: init.sparse_(x, 0.1), cuplug.empty(3), "two dimensions"),
        (lambda x: init.dirac_(x, 2), cuplug.empty(3, 3, 3), "divided into 2 groups"),
    ):
        with pytest.raises(ValueError, match=said):
            function(x)


def test_a_seed_for_cuda_is_ignored_where_there_is_no_device() -> None:
    import subprocess
    import sys

    program = "import cuplug; cuplug.init(driver='sim:devices=0'); cuplug.cuda.manual_seed(1); print('done')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == "done\n", done.stderr


def test_the_gain_of_a_leaky_relu_has_torchs_slope_by_default() -> None:
    assert init.calculate_gain("leaky_relu") == math.sqrt(2 / (1 + 0.01**2))
    assert init.calculate_gain("leaky_relu", 0.5) == math.sqrt(2 / 1.25)


def test_what_is_no_matrix_or_no_number_is_refused_and_what_is_empty_left() -> None:
    with pytest.raises(ValueError, match="two dimensions"):
        init.eye_(cuplug.empty(2, 2, 2))
    with pytest.raises(ValueError, match="is a number"):
        init.calculate_gain("leaky_relu", True)
    assert init.calculate_gain("conv_transpose3d") == 1
    for function in (init.kaiming_uniform_, init.kaiming_normal_):
        with pytest.warns(UserWarning, match="zero-element tensors is a no-op"):
            function(cuplug.empty(0, 3))


def test_channels_are_left_out_whole_with_a_batch_and_without(device: str) -> None:
    nn = cuplug.nn
    for layer, shape, channels in (
        (nn.Dropout1d(), (50, 3), 1),
        (nn.Dropout1d(), (20, 4, 3), 2),
        (nn.Dropout2d(), (20, 4, 3, 3), 2),
        (nn.Dropout3d(), (50, 2, 2, 2), 1),
        (nn.Dropout3d(), (20, 4, 2, 2, 2), 2),
    ):
        made = layer(cuplug.ones(*shape, device=device)).flatten(channels)
        assert ((made == 0).all(-1) | (made == 2).all(-1)).all()
        assert 0 < (made == 0).sum() < made.numel()
    for layer, x, said in (
        (nn.Dropout2d(), cuplug.ones(2, 3, 4), "1D dropout behavior"),
        (nn.Dropout3d(), cuplug.ones(2, 3, 4), "deprecated"),
    ):
        with pytest.warns(UserWarning, match=said):
            layer(x)
    with pytest.raises(ValueError, match="Expected 2D or 3D input"):
        nn.Dropout1d()(cuplug.ones(2))
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.Dropout(1.5)


def test_layers_of_programs_ask_for_fans_and_older_names_warn() -> None:
    init = cuplug.nn.init
    assert init._calculate_fan_in_and_fan_out(cuplug.ones(2, 3, 5, 5)) == (75, 50)
    with pytest.warns(FutureWarning, match=r"`nn\.init\.constant` .* `nn\.init\.constant_`"):
        assert init.constant(cuplug.ones(2), 3.0).tolist() == [3.0, 3.0]

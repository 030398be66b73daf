"""The plain networks act exactly as RLlib's own, and the shipped schemas are what RLlib says today."""

from __future__ import annotations

from typing import Any

import gymnasium.spaces as spaces
import msgspec
import numpy as np
import pytest
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.utils.spaces.space_utils import unsquash_action

from ray_worker import algo_params, schema_source
from ray_worker.building import GRID_FILTERS, IMAGE_FILTERS
from ray_worker.export import action_spec, layers_of
from ray_worker.mapping import PolicySpec
from ray_worker.modules import MaskedPPOModule
from ray_worker.network import Network
from ray_worker.observations import codec_for
from ray_worker.policy_file import stretch

VECTOR = spaces.Box(-1, 1, (7,), np.float32)
IMAGE = spaces.Box(0, 1, (48, 48, 1), np.float32)
GRID = spaces.Box(0, 1, (5, 6, 3), np.float32)
PAIR = spaces.Dict({"action_mask": spaces.Box(0, 1, (4,), np.float32), "observations": VECTOR})
STEERING = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 5.0], np.float32))

CASES: list[tuple[str, Any, Any, dict[str, Any], Any]] = [
    ("vector", VECTOR, spaces.Discrete(4), {}, None),
    ("shared-layers", VECTOR, spaces.Discrete(4), {"vf_share_layers": True, "fcnet_activation": "relu"}, None),
    ("norms-and-heads", VECTOR, STEERING, {"fcnet_use_layernorm": True, "head_fcnet_hiddens": [9]}, None),
    ("free-deviation", VECTOR, STEERING, {"free_log_std": True, "fcnet_activation": "silu"}, None),
    ("no-hidden-layer", VECTOR, spaces.Discrete(4), {"fcnet_hiddens": [8], "fcnet_activation": "linear"}, None),
    ("image", IMAGE, spaces.Discrete(3), {"conv_filters": IMAGE_FILTERS}, None),
    ("grid", GRID, spaces.Discrete(3), {"conv_filters": GRID_FILTERS, "conv_activation": "silu"}, None),
    ("masked", PAIR, spaces.Discrete(4), {}, MaskedPPOModule),
]


@pytest.mark.parametrize(
    ("seen", "actions", "model", "kind"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_plain_network_computes_what_rllib_computes(
    seen: Any, actions: Any, model: dict[str, Any], kind: Any
) -> None:
    torch.manual_seed(0)
    defaults = PPOConfig()
    module = RLModuleSpec(
        module_class=kind or defaults.get_default_rl_module_spec().module_class,
        observation_space=seen,
        action_space=actions,
        model_config={**defaults.model_config, **model},
    ).build()
    parts = list(layers_of(module))
    network = Network(
        [layer for layer, _ in parts],
        {f"{n}.{key}": value.detach().numpy() for n, (_, given) in enumerate(parts) for key, value in given.items()},
    )
    inner = seen["observations"] if isinstance(seen, spaces.Dict) else seen
    batch = np.stack([inner.sample() for _ in range(5)])
    observed: Any = torch.from_numpy(batch)
    if isinstance(seen, spaces.Dict):
        observed = {"observations": observed, "action_mask": torch.ones(5, 4)}
    with torch.no_grad():
        expected = module.forward_inference({Columns.OBS: observed})[Columns.ACTION_DIST_INPUTS].numpy()
    assert network(batch) == pytest.approx(expected, abs=2e-5)


def test_actions_are_stretched_as_rllib_does() -> None:
    spec = action_spec(PolicySpec(codec_for(VECTOR), STEERING), None)
    for action in np.random.default_rng(0).normal(0, 1.5, (50, 2)).astype(np.float32):
        assert stretch(action, spec) == pytest.approx(unsquash_action(action, STEERING))


def test_the_shipped_schemas_are_those_that_rllib_gives() -> None:
    derived = msgspec.json.decode(msgspec.json.encode(schema_source.derive_all()))
    assert derived["ray"] == algo_params.schema_ray_version()
    assert derived["schemas"] == algo_params.schemas(), "run: python -m ray_worker.schema_source"

"""What of an environment is kept: where it stands, not what it is drawn with."""

import gymnasium
import pytest
from cleanrl_worker.objects import capture_objects, environments_in, restore_objects
from cleanrl_worker.packing import Packer, Unpacker


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "CartPole-v1", "Pendulum-v1", "Taxi-v3"])
def test_an_environment_that_was_drawn_goes_on_exactly(env_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env, other = (gymnasium.make(env_id, render_mode="rgb_array") for _ in range(2))
    env.reset(seed=1)
    other.reset(seed=2)
    env.action_space.seed(1)
    env.step(env.action_space.sample())
    env.render()
    packer = Packer()
    state, lost = capture_objects(list(environments_in(env)), packer)
    assert lost == []
    restore_objects(list(environments_in(other)), state, Unpacker(packer.arrays))
    for _ in range(20):
        actions = env.action_space.sample(), other.action_space.sample()
        (seen, *told, _), (seen_too, *told_too, _) = env.step(actions[0]), other.step(actions[1])
        assert (str(actions[0]), str(seen), told) == (str(actions[1]), str(seen_too), told_too)
        if told[1] or told[2]:
            break
    assert env.render().tobytes() == other.render().tobytes()

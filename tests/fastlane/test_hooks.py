"""Environments on the lane: they show what happens, and nobody who uses them can tell the difference."""

from __future__ import annotations

import copy
import logging
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

from mosaic.fastlane import (
    FastLaneReader,
    Settings,
    discover,
    frames_mode,
    stream_path,
    wrap_env,
    wrap_vector,
)


class Walk(gymnasium.Env[np.ndarray, int]):
    """A walk of random length: the reward is the action, the picture's colour is the number of steps."""

    metadata = {"render_modes": ["rgb_array", "ansi"]}  # noqa: RUF012 - as gymnasium has it
    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, render_mode: str | None = "rgb_array", size: tuple[int, int] = (20, 30)) -> None:
        self.render_mode = render_mode
        self.size = size
        self.steps = 0
        self.renders = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.random(2), {"options": options}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.np_random.random(2), float(action), bool(self.np_random.random() < 0.1), False, {"n": self.steps}

    def render(self) -> Any:
        self.renders += 1
        return np.full((*self.size, 3), self.steps % 256, np.uint8)


def eager(directory: Path, **more: Any) -> Settings:
    """Settings under which a watched frame is due at every look."""
    return Settings(directory, **{"interval_ms": 0, "budget": 1, **more})


def play(env: Any, steps: int, seed: int = 0) -> list[Any]:
    log: list[Any] = [env.reset(seed=seed)]
    for step in range(steps):
        result = env.step(step % 3)
        log.append(result)
        if result[2] or result[3]:
            log.append(env.reset(options={"at": step}))
    return log


def drive(env: Any, condition: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "never came true"
        _, _, terminated, truncated, _ = env.step(1)
        if terminated or truncated:
            env.reset()


def same(ours: list[Any], theirs: list[Any]) -> bool:
    return repr(ours) == repr(theirs)


@pytest.mark.parametrize("limit", [None, 40])
@pytest.mark.parametrize("watched", [False, True])
def test_a_hooked_environment_behaves_exactly_as_it_did(lane_dir: Path, limit: int | None, watched: bool) -> None:
    def make() -> Any:
        return TimeLimit(Walk(), limit) if limit else Walk()

    env, bare = make(), make()
    before = {
        name: getattr(env, name) for name in ("spec", "observation_space", "action_space", "render_mode", "unwrapped")
    }
    assert wrap_env(env, eager(lane_dir)) is env
    assert type(env) is type(bare)
    reader = FastLaneReader(stream_path(lane_dir, "env-0")) if watched else None
    for seed in range(12):
        assert same(play(env, 300, seed), play(bare, 300, seed))
        if reader:
            reader.latest()
    assert all(getattr(env, name) is value for name, value in before.items())
    assert discover(lane_dir)[0].frames > 0
    env.close()
    assert same(play(env, 50), play(bare, 50)), "after closing, too"


def test_frames_carry_the_counts_and_returns_of_their_moment(lane_dir: Path) -> None:
    env = wrap_env(Walk(), eager(lane_dir))
    env.reset(seed=1)
    env.step(2)
    reader = FastLaneReader(stream_path(lane_dir, "env-0"))
    frame = reader.latest()
    assert frame is not None
    assert (frame.info.episode, frame.info.step, frame.info.last_reward) == (1, 1, 2.0)
    assert frame.info.rolling_return != frame.info.rolling_return
    assert (frame.pixels == 1).all() and frame.pixels.shape == (20, 30, 3)
    drive(env, lambda: (frame := reader.latest()) is not None and frame.info.episode > 5)
    frame = None
    while frame is None:
        drive(env, lambda: reader.published > 10)
        frame = reader.latest()
        env.step(1)
    assert frame.info.step > 5 and 1 < frame.info.rolling_return < 60


def test_steps_are_counted_exactly_while_the_hook_stands_aside(lane_dir: Path) -> None:
    env: Any = wrap_env(TimeLimit(Walk(), 100), Settings(lane_dir))
    hook = env.step.__self__
    env.reset(seed=0)
    done = 0
    aside = 0
    deadline = time.monotonic() + 30
    while aside < 200:
        assert time.monotonic() < deadline
        _, _, terminated, truncated, _ = env.step(0)
        done += 1
        if terminated or truncated:
            env.reset()
            aside += env.step == hook._inner_step
            if hook._bare:
                assert hook._steps == done
    reader = FastLaneReader(stream_path(lane_dir, "env-0"))
    reader.latest()
    before = reader.published
    drive(env, lambda: reader.latest() is not None and reader.published > before + 3)
    assert hook._steps - hook._episode_steps >= 0


def test_nobody_watching_costs_about_a_frame_a_second(lane_dir: Path) -> None:
    env: Any = wrap_env(Walk(), Settings(lane_dir, interval_ms=0, budget=1))
    env.reset(seed=0)
    begin = time.monotonic()
    drive(env, lambda: env.renders >= 2)
    assert time.monotonic() - begin >= 0.99, "not sooner than after a second"


class Patched:
    """What another library might do to the same environment after us."""

    def __init__(self, env: Any) -> None:
        self.calls = 0
        inner = env.step

        def step(action: Any) -> Any:
            self.calls += 1
            return inner(action)

        env.step = step


def test_another_patch_on_top_is_left_in_place(lane_dir: Path) -> None:
    env: Any = wrap_env(TimeLimit(Walk(), 30), eager(lane_dir))
    patch = Patched(env)
    reader = FastLaneReader(stream_path(lane_dir, "env-0"))
    for seed in range(20):
        play(env, 200, seed)
        reader.latest()
    assert patch.calls == 4000
    env.close()
    env.step(0)
    assert patch.calls == 4001


def test_a_step_that_somebody_held_on_to_still_counts_once(lane_dir: Path) -> None:
    env: Any = wrap_env(TimeLimit(Walk(), 100), Settings(lane_dir))
    hook, step = env.step.__self__, env.step
    env.reset(seed=0)
    was_aside = False
    for _ in range(3000):
        _, _, terminated, truncated, _ = step(0)
        if terminated or truncated:
            env.reset()
            was_aside |= hook._bare
    assert was_aside and hook._steps == 3000


def test_copies_and_pickles_work_and_are_not_watched(lane_dir: Path) -> None:
    env: Any = wrap_env(TimeLimit(Walk(), 50), eager(lane_dir))
    play(env, 100)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        fresh = TimeLimit(Walk(), 50)
        assert same(play(twin, 200, 5), play(fresh, 200, 5))
        assert twin.unwrapped is not env.unwrapped
        assert twin.reset.__self__._inner_reset.__self__ is twin, "its own steps, not the original's"
        twin.close()
        assert same(play(twin, 20), play(fresh, 20))
    assert [stream.has_writer for stream in discover(lane_dir)] == [True]


@pytest.mark.parametrize("mode", [None, "ansi"])
def test_an_environment_made_without_pictures_is_left_alone(lane_dir: Path, mode: str | None, caplog: Any) -> None:
    env: Any = Walk(render_mode=mode)
    assert "step" not in vars(wrap_env(env, eager(lane_dir)))
    assert len(caplog.records) == 1 and "allowed: 'rgb_array'" in caplog.text
    assert discover(lane_dir) == []


def test_the_render_mode_is_chosen_only_where_none_was_asked_for() -> None:
    assert frames_mode(Walk.metadata, None) == "rgb_array"
    assert frames_mode(Walk.metadata, "ansi") == "ansi"
    assert frames_mode({"render_modes": ["human"]}, None) is None
    assert frames_mode({"render.modes": ["human", "rgb_array"]}, None) == "rgb_array"
    assert frames_mode(None, None) is None


class Tensors(Walk):
    """What is no truth value on its own, as torch tensors of a batch are not."""

    class Many:
        def __bool__(self) -> bool:
            raise RuntimeError("more than one\nvalue is ambiguous")

    def step(self, action: int) -> Any:
        return super().step(action)[0], 1.0, self.Many(), self.Many(), {}


def test_a_step_that_gives_the_unheard_of_ends_the_lane_and_not_the_training(lane_dir: Path, caplog: Any) -> None:
    env: Any = wrap_env(Tensors(), eager(lane_dir))
    env.reset()
    for _ in range(3):
        assert isinstance(env.step(0)[2], Tensors.Many)
    assert [record.getMessage() for record in caplog.records] == [
        "fastlane env-0 off: step() gives what no gym does (more than one value is ambiguous)"
    ]


class Nobody(Walk):
    possible_agents: tuple[str, ...] = ()


class Hostile(Walk):
    @property
    def possible_agents(self) -> Any:
        raise RuntimeError("not before reset")


@pytest.mark.parametrize("kind", [Nobody, Hostile])
def test_an_environment_that_cannot_be_hooked_stays_as_it_was_and_takes_no_number(
    lane_dir: Path, kind: type[Walk], caplog: Any
) -> None:
    unfit: Any = wrap_env(kind(), eager(lane_dir))
    assert {"step", "reset", "close"}.isdisjoint(vars(unfit)) and len(caplog.records) == 1
    play(wrap_env(Walk(), eager(lane_dir)), 5)
    assert [stream.name for stream in discover(lane_dir)] == ["env-0"]


class Breaks(Walk):
    def render(self) -> Any:
        raise RuntimeError("no\ndisplay")


class Blank(Walk):
    def render(self) -> Any:
        return None


class Wrong(Walk):
    def render(self) -> Any:
        return "a string"


@pytest.mark.parametrize(
    ("kind", "reason"), [(Breaks, "RuntimeError: no display"), (Wrong, "frame: got"), (Blank, "no pictures")]
)
def test_a_renderer_that_fails_ends_the_lane_with_one_line_and_training_goes_on(
    lane_dir: Path, kind: type[Walk], reason: str, caplog: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("mosaic.fastlane.lane.UNWATCHED_INTERVAL_NS", 0)
    monkeypatch.setattr("mosaic.fastlane.lane.UNWATCHED_BUDGET", 1e9)
    env: Any = wrap_env(kind(), eager(lane_dir))
    drive(env, lambda: caplog.records)
    assert same(play(env, 300), play(kind(), 300))
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert reason in caplog.text and "\n" not in caplog.records[0].getMessage()


def test_a_lane_that_cannot_be_opened_says_so_once(tmp_path: Path, caplog: Any) -> None:
    file = tmp_path / "file"
    file.write_text("")
    env: Any = wrap_env(Walk(), eager(file))
    assert same(play(env, 300), play(Walk(), 300))
    assert len(caplog.records) == 1 and "FileExistsError" in caplog.text


def test_single_shows_the_chosen_slot_and_leaves_the_rest_bare(lane_dir: Path) -> None:
    envs: list[Any] = [wrap_env(Walk(), eager(lane_dir, slot=1)) for _ in range(3)]
    for env in envs:
        play(env, 20)
    assert [stream.name for stream in discover(lane_dir)] == ["env-1"]
    assert "step" not in vars(envs[0]) and "step" not in vars(envs[2])


def test_a_slot_is_free_again_when_its_environment_is_gone(lane_dir: Path) -> None:
    import gc

    first = wrap_env(Walk(), eager(lane_dir))
    play(first, 5)
    first.close()
    del first
    gc.collect()
    second = wrap_env(Walk(), eager(lane_dir))
    play(second, 5)
    assert [(stream.name, stream.generation) for stream in discover(lane_dir)] == [("env-0", 2)]


def test_grid_tiles_the_environments_up_to_its_limit(lane_dir: Path) -> None:
    sizes = [(20, 30), (10, 10), (20, 30), (20, 20), (20, 30)]
    envs: list[Any] = [wrap_env(Walk(size=size), eager(lane_dir, mode="grid", grid_limit=4)) for size in sizes]
    reader = FastLaneReader(stream_path(lane_dir, "grid"))
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
    envs[0].step(1)
    frame = reader.wait(10)
    assert frame is not None and frame.pixels.shape == (42, 62, 3), "all of them in the first frame already"
    frame = None
    deadline = time.monotonic() + 30
    while frame is None or frame.pixels.shape != (42, 62, 3):
        assert time.monotonic() < deadline
        for env in envs:
            if env.step(1)[2]:
                env.reset()
        frame = reader.latest() or frame
    assert [stream.name for stream in discover(lane_dir)] == ["grid", "env-0", "env-1", "env-2", "env-3"]
    assert {int(value) for value in np.unique(frame.pixels)} <= {24, *range(12 + 60)}
    assert frame.info.step >= 4
    envs[0].close()  # the next one takes over
    assert (frame.pixels[22:, 32:] != 24).any()
    while (frame.pixels[22:, 32:] != 24).any():  # and three leave the last cell empty
        assert time.monotonic() < deadline
        for env in envs[1:]:
            if env.step(1)[2]:
                env.reset()
        frame = reader.latest() or frame
    for env in envs:
        env.close()
    assert not any(stream.has_writer for stream in discover(lane_dir))


@pytest.mark.parametrize("kind", [gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv])
@pytest.mark.parametrize("mode", ["single", "grid"])
def test_gymnasiums_own_vector_environments(lane_dir: Path, mode: Any, kind: Any) -> None:
    def make() -> Any:
        return kind([lambda: TimeLimit(Walk(), 20) for _ in range(4)])

    env, bare = wrap_vector(make(), eager(lane_dir, mode=mode)), make()
    assert same([env.reset(seed=3)], [bare.reset(seed=3)])
    reader = FastLaneReader(stream_path(lane_dir, "grid" if mode == "grid" else "env-0"))
    frame = None
    deadline = time.monotonic() + 30
    while frame is None or frame.info.number < 5:
        assert time.monotonic() < deadline
        assert same([env.step(np.ones(4, int))], [bare.step(np.ones(4, int))])
        frame = reader.latest() or frame
    assert frame.pixels.shape == ((42, 62, 3) if mode == "grid" else (20, 30, 3))
    env.close()
    bare.close()


def test_large_frames_are_shrunk_and_a_new_size_is_followed(lane_dir: Path) -> None:
    env: Any = wrap_env(Walk(size=(100, 200)), eager(lane_dir, max_dim=50))
    reader = FastLaneReader(stream_path(lane_dir, "env-0"))
    env.reset()
    drive(env, lambda: (frame := reader.latest()) is not None and frame.pixels.shape == (25, 50, 3))
    env.size = (30, 40)
    drive(env, lambda: (frame := reader.latest()) is not None and frame.pixels.shape == (30, 40, 3))

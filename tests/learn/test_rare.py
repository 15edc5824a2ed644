"""RARE: its losses against formulas, whose gradients move what, and a run of both phases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.evaluation.postprocessing import Postprocessing

from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.config.training import make_config
from rlsched.learn.networks.actor_critic import WORTHS
from rlsched.learn.networks.critic import Critic
from rlsched.learn.rllib.build import build_config
from rlsched.scenario import Scenario
from tests.learn.rare_setting import (
    LIFETIME,
    MODULE,
    ROLLOUT_TEMPERATURE,
    TRUST,
    Setting,
    assert_moves_critics,
    conservative,
    does_best,
    huber,
    pieces,
    soft_actor_critic,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_address")]


@pytest.fixture(scope="module")
def setting(short: Scenario, sjf_dataset: Path) -> Setting:
    """Whose critics need not trust what was shown: its actor does nothing else."""
    return Setting(short, sjf_dataset, "rare.weights=binary", f"rare.cql_alpha={TRUST}")


@pytest.fixture(scope="module")
def trusting(short: Scenario, sjf_dataset: Path) -> Setting:
    """Whose actor does, while it reads, what its critics think is best; their trust is seen in the loss."""
    return Setting(short, sjf_dataset, f"rare.cql_alpha={TRUST}")


@pytest.fixture(scope="module")
def soft(short: Scenario, sjf_dataset: Path) -> Setting:
    """Whose actor goes by its critics while it plays; what was shown is nothing to trust then."""
    return Setting(short, sjf_dataset, "rare.actor=critics", f"rare.cql_alpha={TRUST}")


def test_what_was_shown_is_imitated_first(setting: Setting) -> None:
    loss, _ = setting.loss(400)
    made = pieces(setting)
    assert loss == pytest.approx((made["critics"] - made["chosen"].mean()).item(), rel=1e-4)


def test_then_what_is_better_than_the_policy(setting: Setting) -> None:
    loss, _ = setting.loss(900)
    made = pieces(setting)
    better = made["advantages"] > 0
    assert 0 < better.float().mean() < 1
    assert loss == pytest.approx((made["critics"] - (better * made["chosen"]).mean()).item(), rel=1e-4)
    assert_moves_critics(setting, made["critics"])


def test_or_what_critics_think_is_best_that_trust_what_was_shown(trusting: Setting) -> None:
    """From the first row; the encoder is the critics' as before."""
    loss, _ = trusting.loss(400)
    made = pieces(trusting)
    critics = made["critics"] + conservative(trusting, made)
    assert critics > 1.1 * made["critics"]
    assert loss == pytest.approx((critics - made["chosen"].mean()).item(), rel=1e-4)
    loss, _ = trusting.loss(900)
    assert loss == pytest.approx((critics + does_best(made)).item(), rel=1e-4)
    assert_moves_critics(trusting, critics)
    policy: Any = trusting.module.policy
    assert trusting.module.encoders == {"critics"}
    assert all(value.grad is not None for value in policy.body.parameters())


def test_then_entropy_counts_too_and_cools(soft: Setting) -> None:
    loss, _ = soft.loss(2000)
    made = pieces(soft, ROLLOUT_TEMPERATURE)
    assert loss == pytest.approx(soft_actor_critic(soft, made), rel=1e-4)
    assert_moves_critics(soft, made["critics"])


def test_or_critics_alone_learn_from_what_is_remembered(setting: Setting) -> None:
    loss, output = setting.loss(2000)
    assert loss == pytest.approx(pieces(setting, ROLLOUT_TEMPERATURE)["critics"].item(), rel=1e-4)
    policy: Any = setting.module.policy
    assert all(value.grad is None for value in policy.parameters())
    assert all(value.grad is not None for value in setting.module.critics.parameters())
    assert setting.module.log_temperature.grad is None
    assert output[WORTHS].requires_grad


def test_and_the_actor_from_what_came_of_its_decisions(setting: Setting) -> None:
    """By hand: the clipped surrogate, and what critics expect of the policy in these states."""
    setting.learner.before_gradient_based_update(timesteps={LIFETIME: 2000})
    generator = torch.Generator().manual_seed(0)
    rows = len(setting.batch[Columns.OBS])
    batch = {name: setting.batch[name] for name in (Columns.OBS, Columns.ACTIONS)}
    made = pieces(setting, ROLLOUT_TEMPERATURE)
    batch[Columns.ACTION_LOGP] = made["chosen"] + 0.3 * torch.randn(rows, generator=generator)
    batch[Postprocessing.ADVANTAGES] = torch.randn(rows, generator=generator)
    batch[Postprocessing.VALUE_TARGETS] = 2 * torch.randn(rows, generator=generator)
    setting.module.zero_grad()
    output = setting.learner.module[MODULE].forward_train(batch)
    loss = setting.learner.compute_loss_for_module(
        module_id=MODULE, config=setting.config, batch=batch, fwd_out=output
    )
    loss.backward()
    ratio, gained = (made["chosen"] - batch[Columns.ACTION_LOGP]).exp(), batch[Postprocessing.ADVANTAGES]
    assert (ratio > 1.2).any()
    assert (ratio < 0.8).any()
    surrogate = torch.where(gained > 0, ratio.clamp(max=1.2) * gained, ratio.clamp(min=0.8) * gained).mean()
    wanted = (batch[Postprocessing.VALUE_TARGETS] - setting.module.popart.mean) / setting.module.popart.unit
    critics = huber(made["expected"] - wanted)
    assert float(loss.detach()) == pytest.approx((critics - surrogate).item(), rel=1e-4)
    assert_moves_critics(setting, critics)
    believed = setting.module.popart.undo(made["expected"].detach().mean(0))
    torch.testing.assert_close(setting.module.compute_values(batch), believed, rtol=1e-4, atol=1e-4)


def test_what_was_played_moves_the_policy_towards_it(short: Scenario, sjf_dataset: Path) -> None:
    """Where one of two actions is rewarded; the scale of critics and what follows them stay as they are."""
    # Slowly: critics that think in units of 6 overshoot a value of 0.5 with larger steps.
    setting = Setting(short, sjf_dataset, "rare.learning_rate=0.0005", "network.kind=mlp")
    module, learner = setting.module, setting.learner
    flat = setting.batch[Columns.OBS].numpy()
    legal = flat[:, module.layout.size : -1] > 0.5
    shared = flat[legal[:, 0] & legal[:, 1]][:32]
    batch = {Columns.OBS: torch.from_numpy(shared)}

    def outputs() -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            logits = module.forward_exploration(batch)[Columns.ACTION_DIST_INPUTS]
            return logits.log_softmax(1), module.compute_values(batch)

    def played(logp: torch.Tensor) -> list[SingleAgentEpisode]:
        episodes = []
        for row, state in enumerate(shared):
            for action in (0, 1):
                reported = {Columns.ACTION_LOGP: logp[row, action].item()}
                episode = SingleAgentEpisode(observations=[state])
                episode.add_env_step(
                    state, action, float(action), terminated=True, extra_model_outputs=reported
                )
                episodes.append(episode.to_numpy())
        return episodes

    before, expected = outputs()
    scale = {name: value.clone() for name, value in module.popart.state_dict().items()}
    older = [value.clone() for value in module.target_critics.parameters()]
    for _ in range(5):
        learner.update(
            episodes=played(outputs()[0]), minibatch_size=16, num_epochs=4, timesteps={LIFETIME: 2000}
        )
    after, then = outputs()
    moved = (after[:, 1] - after[:, 0]) - (before[:, 1] - before[:, 0])
    assert float((moved > 0).float().mean()) > 0.9
    assert float((then - 0.5).abs().mean()) < float((expected - 0.5).abs().mean())
    assert all(torch.equal(value, module.popart.state_dict()[name]) for name, value in scale.items())
    assert all(torch.equal(*pair) for pair in zip(older, module.target_critics.parameters(), strict=True))


def test_what_is_played_is_not_imitated(short: Scenario, sjf_dataset: Path) -> None:
    """However many decisions are to be imitated: nobody shows them."""
    eager = Setting(short, sjf_dataset, "rare.imitate=5000", "rare.actor=critics", "rare.weights=binary")
    loss, _ = eager.loss(2000)
    made = pieces(eager, ROLLOUT_TEMPERATURE)
    assert loss == pytest.approx(soft_actor_critic(eager, made), rel=1e-4)
    made = pieces(eager)
    loss, _ = eager.loss(900)
    assert loss == pytest.approx((made["critics"] - made["chosen"].mean()).item(), rel=1e-4)


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_every_network_judges_what_it_encodes(short: Scenario, sjf_dataset: Path, kind: str) -> None:
    """Losses are those of the formulas, and the actor's moves the encoder only while it imitates."""
    settings = [f"network.kind={kind}", "network.units=[10,10]", f"rare.cql_alpha={TRUST}"]
    setting = Setting(short, sjf_dataset, *settings)
    loss, output = setting.loss(900)
    made = pieces(setting)
    critics = made["critics"] + conservative(setting, made)
    assert loss == pytest.approx((critics + does_best(made)).item(), rel=1e-4)
    worths = output[WORTHS]
    legal = setting.module._split(setting.batch)[1] > 0.5
    assert worths.where(legal, 0.0).std() > 0
    assert not torch.equal(*worths)
    first = next(setting.module.policy.parameters())  # of the encoder
    for decisions, moves in ((400, True), (900, False)):
        setting.learner.before_gradient_based_update(timesteps={LIFETIME: decisions})
        setting.module.zero_grad()
        logits = setting.learner.module[MODULE].forward_train(setting.batch)[Columns.ACTION_DIST_INPUTS]
        logits.log_softmax(1)[:, 0].clamp(min=-50).mean().backward()
        assert (first.grad is not None) == moves


def test_play_is_hotter_than_what_was_read(setting: Setting) -> None:
    """What is tried is softer than what is best, which stays the same."""
    module = setting.module
    batch = {Columns.OBS: setting.batch[Columns.OBS]}
    with torch.no_grad():
        cold = module.forward_inference(batch)[Columns.ACTION_DIST_INPUTS]
        for decisions, temperature in ((900, 1.0), (2000, ROLLOUT_TEMPERATURE)):
            setting.learner.before_gradient_based_update(timesteps={LIFETIME: decisions})
            learned = module.forward_train(batch)[Columns.ACTION_DIST_INPUTS]
            torch.testing.assert_close(learned, cold / temperature)
        explored = module.forward_exploration(batch)[Columns.ACTION_DIST_INPUTS]
        torch.testing.assert_close(explored, cold / ROLLOUT_TEMPERATURE)


def test_each_part_has_a_rate_that_falls(short: Scenario, sjf_dataset: Path) -> None:
    def rates(**settings: Any) -> Any:
        config = make_config({"dataset": str(sjf_dataset), "steps": 3000, **settings}, "test", [])
        return build_config(EpisodeFeed(short).scenario, config.resolve(short), 2).lr

    assert rates(algo="rare") == [[0, 4e-4], [3000, 1e-5]]
    pair = [[0, 4e-4], [1000, 1e-5], [1001, 4e-4], [3000, 1e-5]]
    assert rates(algo="launchpad", launchpad={"rows": 1000}) == pair


@pytest.mark.parametrize(
    ("actor", "decisions", "moving"),
    [
        ("played", 400, {"actor", "critics"}),
        ("played", 900, {"critics"}),
        ("played", 2000, {"actor"}),
        ("critics", 2000, {"critics"}),
    ],
)
def test_whose_loss_moves_the_encoder(
    setting: Setting, soft: Setting, actor: str, decisions: int, moving: set[str]
) -> None:
    chosen = setting if actor == "played" else soft
    chosen.learner.before_gradient_based_update(timesteps={LIFETIME: decisions})
    chosen.module.zero_grad()
    output = chosen.learner.module[MODULE].forward_train(chosen.batch)
    output[Columns.ACTION_DIST_INPUTS].log_softmax(1)[:, 0].clamp(min=-50).mean().backward(retain_graph=True)
    policy: Any = chosen.module.policy
    assert (policy.encoder.of_job.weight.grad is not None) == ("actor" in moving)
    assert policy.linear.weight.grad is not None
    chosen.module.zero_grad()
    output[WORTHS].square().mean().backward()
    assert (policy.encoder.of_job.weight.grad is not None) == ("critics" in moving)
    assert policy.linear.weight.grad is None


def test_critics_mean_the_same_after_their_scale_has_moved(setting: Setting) -> None:
    module = setting.module
    vector, mask = module._split(setting.batch)

    def believed() -> list[torch.Tensor]:
        with torch.no_grad():
            return [
                module.popart.undo(critic(critic.value.look(vector), mask, encoder.encode(vector, mask)))
                for critics, encoder in (
                    (module.critics, module.policy),
                    (module.target_critics, module.target_policy),
                )
                for critic in critics
            ]

    before = believed()
    factor, offset = module.popart.update(torch.linspace(-30, 90, 100))
    assert abs(factor - 1) > 1e-3
    for critic in module.every_critic():
        critic.rescale(factor, offset)
    for old, new in zip(before, believed(), strict=True):
        torch.testing.assert_close(new, old, rtol=1e-3, atol=1e-3)


def test_runners_hold_no_more_than_choosing_needs(setting: Setting) -> None:
    saved = set(setting.module.get_non_inference_attributes())
    names = {name.split(".")[0] for name, _ in setting.module.named_parameters()}
    assert names - saved == {"policy"}
    assert not any(isinstance(part, Critic) for part in setting.module.policy.modules())

"""RARE: its losses against formulas, whose gradients move what, and a run of both phases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import Learner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.evaluation.postprocessing import Postprocessing

from rlsched.cli.main import main
from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.algorithms.learners.rare import regression_weights
from rlsched.learn.config.training import make_config
from rlsched.learn.folder import RunFolder
from rlsched.learn.networks.actor_critic import WORTHS, RareModule
from rlsched.learn.networks.critic import Critic
from rlsched.learn.networks.popart import PopArt
from rlsched.learn.policy import load_policy
from rlsched.learn.rllib.build import build_config
from rlsched.learn.rllib.dataset import TRANSITIONS, learned_from
from rlsched.learn.rllib.replay import ReplayBuffer
from rlsched.offline.manifest import read_manifest
from rlsched.offline.reader import Reader
from rlsched.scenario import Scenario

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_address")]
MODULE = "default_policy"
GAMMA = 0.998
LIFETIME = "num_env_steps_sampled_lifetime"


TARGETS = st.lists(st.floats(-20, 20), min_size=1, max_size=8)


@given(
    st.lists(TARGETS, min_size=1, max_size=4),
    st.floats(-5, 5),
    st.floats(0.01, 1),
    st.floats(1, 30),
    st.floats(-3, 3),
)
def test_the_scale_changes_and_what_values_mean_does_not(
    batches: list[list[float]], mean: float, rate: float, scale: float, value: float
) -> None:
    """Nor by how much it is off: that is in the new scale."""
    popart, normalised = PopArt(mean, rate, scale), torch.tensor(value)
    before = popart.undo(normalised)
    for k, targets in enumerate(batches, 1):
        share = max(rate, 1 / k)
        mean = (1 - share) * mean + share * np.mean(targets)
        factor, offset = popart.update(torch.tensor(targets))
        normalised = normalised * factor + offset
    after = popart.undo(normalised)
    assert float(after) == pytest.approx(float(before), rel=1e-3, abs=1e-3)
    assert float(popart.mean) == pytest.approx(mean, abs=1e-3)
    assert float(popart.undo(popart(before))) == pytest.approx(float(before), rel=1e-3, abs=1e-3)


def test_the_scale_is_that_of_the_targets_from_the_first() -> None:
    """By hand; a guess stays nowhere, and early minibatches count no more than later ones."""
    popart = PopArt(7.0, 0.1, 4.0)
    assert float(popart.unit) == pytest.approx(1, rel=1e-4)
    batches = [torch.tensor([1.0, 3.0]), torch.tensor([4.0, 4.0]), torch.tensor([0.0, 6.0])]
    for k, batch in enumerate(batches):
        popart.update(batch)
        every = torch.cat(batches[: k + 1])
        assert float(popart.mean) == pytest.approx(float(every.mean()))
        assert float(popart.spread) == pytest.approx(float(every.std(correction=0)))
    assert float(popart(torch.tensor(3.0 + 8 * float(popart.spread)))) == pytest.approx(2)  # of 4 spreads
    for _ in range(200):
        popart.update(torch.tensor([1.0, 2.0]))
    assert float(popart.mean) == pytest.approx(1.5, abs=1e-3)
    assert float(popart.spread) == pytest.approx(0.5, abs=1e-3)


def test_weights_of_what_is_imitated() -> None:
    """By hand: better than the policy or not; and e to the advantage in deviations, at most 20."""
    advantages = torch.tensor([-1.0, 0.0, 2.0, 3.0])
    assert regression_weights(advantages, "binary", 1.0).tolist() == [0, 0, 1, 1]
    spread = np.std(advantages.numpy())
    expected = np.minimum(np.exp(advantages.numpy() / (0.5 * spread)), 20.0)
    assert expected.max() == 20
    torch.testing.assert_close(regression_weights(advantages, "exp", 0.5), torch.tensor(expected))


class Setting:
    """A learner, and transitions for it."""

    def __init__(self, simulated: Scenario, folder: Path, *settings: str) -> None:
        feed = EpisodeFeed(simulated)
        config = make_config(
            {"algo": "launchpad", "dataset": str(folder)},
            "test",
            ["launchpad.rows=1000", "rare.imitate=500", *settings],
        )
        self.config = build_config(feed.scenario, config, len(feed.units))
        reader = Reader(folder, read_manifest(folder), TRANSITIONS, seed=0)
        columns = learned_from(reader.take(200), 1.0)
        reader.close()
        self.batch = {name: torch.from_numpy(np.ascontiguousarray(of)) for name, of in columns.items()}
        self.batch[Columns.TERMINATEDS] = torch.arange(200) % 7 == 0
        width = self.batch[Columns.OBS].shape[1]
        spaces = {
            MODULE: (
                gym.spaces.Box(-np.inf, np.inf, (width,), np.float32),
                gym.spaces.Discrete(feed.scenario.decision.window + 2),
            )
        }
        self.learner: Learner = self.config.build_learner(env=None, spaces=spaces)
        self.module: RareModule = self.learner.module[MODULE].unwrapped()
        torch.manual_seed(0)
        with torch.no_grad():
            for value in self.module.parameters():
                value.add_(0.05 * torch.randn_like(value))  # all networks differ
        factor, offset = self.module.popart.update(torch.linspace(1.0, 2.0, 50))  # so does the scale from 1
        for critic in self.module.every_critic():
            critic.rescale(factor, offset)

    def loss(self, decisions: int) -> tuple[float, dict[str, Any]]:
        """So far into a run; with gradients."""
        self.learner.before_gradient_based_update(timesteps={LIFETIME: decisions})
        self.module.zero_grad()
        output = self.learner.module[MODULE].forward_train(self.batch)
        loss = self.learner.compute_loss_for_module(
            module_id=MODULE, config=self.config, batch=self.batch, fwd_out=output
        )
        loss.backward()
        for name, value in self.module.named_parameters():
            assert value.grad is None or torch.isfinite(value.grad).all(), name
        return float(loss.detach()), output


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


ROLLOUT_TEMPERATURE = 3.0  # of play
TRUST = 1000.0  # in what was shown, of critics that know nothing yet


def huber(errors: torch.Tensor) -> torch.Tensor:
    """Their mean, in spreads of what is expected, 20 to a unit; those beyond 1 count by their size alone."""
    error = 20 * errors.abs()
    return torch.where(error < 1, 0.5 * error**2, error - 0.5).mean()


def assert_moves_critics(setting: Setting, loss: torch.Tensor) -> None:
    """It alone: what the last loss asks of the critics."""
    weights = list(setting.module.critics.parameters())
    actual = torch.cat([weight.grad.flatten() for weight in weights if weight.grad is not None])
    expected = torch.cat([gradient.flatten() for gradient in torch.autograd.grad(loss, weights)])
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-5 * float(expected.abs().max()))


def pieces(setting: Setting, temperature: float = 1.0) -> dict[str, torch.Tensor]:
    """What the losses are made of, row by row, from the networks alone; critics' with gradients."""
    module, batch = setting.module, setting.batch
    (vector, mask), (vector2, mask2) = (
        module._split({Columns.OBS: batch[name]}) for name in (Columns.OBS, Columns.NEXT_OBS)
    )
    means = module.policy.encode(vector, mask)
    output = torch.stack([critic(critic.value.look(vector), mask, means) for critic in module.critics])
    with torch.no_grad():
        twins, legal, legal2 = output.detach(), mask > 0.5, mask2 > 0.5
        pi = torch.softmax(module.policy(vector, mask) / temperature, 1)
        pi2 = torch.softmax(module.target_policy(vector2, mask2) / temperature, 1)
        means2 = module.target_policy.encode(vector2, mask2)
        older = torch.stack(
            [critic(critic.value.look(vector2), mask2, means2) for critic in module.target_critics]
        )
        careful, careful2 = module.popart.undo(twins.min(0).values), module.popart.undo(older.min(0).values)
        targets = []
        for row in range(len(vector)):
            choices = legal2[row]
            p, q = pi2[row][choices], careful2[row][choices]
            following = float((p * q).sum())
            ticks = float(batch[Columns.NEXT_OBS][row, -1] - batch[Columns.OBS][row, -1])
            over = bool(batch[Columns.TERMINATEDS][row])
            targets.append(float(batch[Columns.REWARDS][row]) + (0 if over else GAMMA**ticks * following))
        wanted = (torch.tensor(targets) - module.popart.mean) / module.popart.unit
        actions = batch[Columns.ACTIONS].long()
        entropy = torch.stack([-(p[ok] * p[ok].log()).sum() for p, ok in zip(pi, legal, strict=True)])
        actions_taken = actions[:, None]
        advantages = (careful.gather(1, actions_taken) - (pi * careful).sum(1, keepdim=True))[:, 0]
        most = legal.sum(1).float().log()
        chosen = pi.gather(1, actions_taken)[:, 0].log()
    return {
        "critics": huber(output.gather(2, actions.expand(2, -1)[..., None])[..., 0] - wanted),
        "chosen": chosen,
        "advantages": advantages,
        "entropy": entropy,
        "most": most,
        "worth": (pi * careful).sum(1),
        "expected": (pi * output).sum(2),
        "twins": module.popart.undo(output).masked_fill(~legal, -torch.inf),
        "log": pi.log().masked_fill(~legal, 0.0),
    }


def soft_actor_critic(setting: Setting, made: dict[str, torch.Tensor]) -> float:
    """The loss of these pieces."""
    temperature = float(setting.module.log_temperature.detach().exp())
    actor = -(made["worth"] + temperature * made["entropy"]).mean()
    cooling = temperature * (made["entropy"] - 0.03 * made["most"]).mean()
    return (made["critics"] + actor + cooling).item()


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


def conservative(setting: Setting, made: dict[str, torch.Tensor]) -> torch.Tensor:
    """By hand: how far the softest maximum of a critic is above what it thinks of what was shown."""
    actions, gaps = setting.batch[Columns.ACTIONS].tolist(), []
    for critic in made["twins"]:
        for worths, action in zip(critic, actions, strict=True):
            policy_values = worths[torch.isfinite(worths)] / 0.01
            gaps.append(
                0.01 * (policy_values.max() + (policy_values - policy_values.max()).exp().sum().log())
                - worths[action]
            )
    assert min(gaps) >= -1e-6
    return TRUST * torch.stack(gaps).mean() / (setting.module.popart.unit / 20) ** 2


def does_best(made: dict[str, torch.Tensor]) -> torch.Tensor:
    """The loss of an actor that is to do what critics think is best."""
    best = (made["twins"].min(0).values / 0.003).softmax(1)
    return -(best * made["log"]).sum(1).mean()


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

    def seen() -> tuple[torch.Tensor, torch.Tensor]:
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

    before, expected = seen()
    scale = {name: value.clone() for name, value in module.popart.state_dict().items()}
    older = [value.clone() for value in module.target_critics.parameters()]
    for _ in range(5):
        learner.update(
            episodes=played(seen()[0]), minibatch_size=16, num_epochs=4, timesteps={LIFETIME: 2000}
        )
    after, then = seen()
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
        return build_config(EpisodeFeed(short).scenario, config, 2).lr

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


@pytest.mark.long
def test_launchpad_reads_then_plays_and_goes_on(
    sjf_dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And looks as far ahead as it is told, in the dataset as in what it plays."""
    out, looked = tmp_path / "run", []
    sample = ReplayBuffer.sample
    read = Reader.__init__

    def sampled(self: ReplayBuffer, number: int, n_step: int, gamma: float) -> dict[str, Any]:
        looked.append((n_step, gamma))
        return sample(self, number, n_step, gamma)

    def reads(self: Reader, *args: Any, **more: Any) -> None:
        looked.append((more["n_step"], more["gamma"]))
        read(self, *args, **more)

    monkeypatch.setattr(ReplayBuffer, "sample", sampled)
    monkeypatch.setattr(Reader, "__init__", reads)
    settings = [
        "launchpad.rows=12000",
        "rare.imitate=8000",
        "rare.learning_starts=1000",
        "rare.every=64",
        "rare.batch=8192",
        "rare.n_step=5",
        "sampling.fragment=64",
        "validation.episodes=2",
        "averaging=0",
    ]
    sets = [word for setting in settings for word in ("--set", setting)]
    words = ["train", "--algo", "launchpad", "--dataset", str(sjf_dataset), *sets, "--out", str(out)]
    assert main([*words, "--steps", "20000"]) == 0
    rows = RunFolder(out).rows()
    steps = [int(row["steps"]) for row in rows]
    assert steps == [0, 4096, 8000, 12000, 16096, 20192]  # what is imitated is no row more
    validated = [row["validation_job_value_ratio"] != "" for row in rows]
    assert validated == [True, False, False, True, False, True]  # what has been read, too
    assert load_policy(out / "read").about["steps"] == 12000
    played = [row["episode_return_mean"] != "" for row in rows]
    assert not any(played[:4])
    assert float(rows[2]["agreement"]) > float(rows[1]["agreement"])
    assert [row["vf_explained_var"] != "" for row in rows] == played
    assert main(["train", "--resume", "--steps", "24000", "--out", str(out)]) == 0
    assert int(RunFolder(out).rows()[-1]["steps"]) == 24_288
    assert len(looked) > 3
    assert set(looked) == {(5, GAMMA)}


def test_rare_alone_reads_or_plays(
    sjf_dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["--set", "sampling.fragment=32", "--set", "validation.episodes=2", "--steps", "4000"]
    policy_values = ["--set", "rare.learning_starts=1000", "--set", "rare.rows=2048", "--set", "rare.every=8"]
    policy_values += ["--set", "rare.batch=1024"]
    played = ["train", "--algo", "rare", "--scenario", "green-10", "--set", "episode.max_ticks=100"]
    assert main([*played, *small, *policy_values, "--out", str(tmp_path / "played")]) == 0
    assert [int(row["steps"]) for row in RunFolder(tmp_path / "played").rows()] == [0, 2048, 4096]
    read = ["train", "--algo", "rare", "--dataset", str(sjf_dataset)]
    assert main([*read, *small, *policy_values, "--out", str(tmp_path / "read")]) == 0
    rows = RunFolder(tmp_path / "read").rows()
    assert [int(row["steps"]) for row in rows] == [0, 2048, 4096]
    assert rows[-1]["episode_return_mean"] == ""
    capsys.readouterr()
    assert main([*read, "--set", "sampling.runners=1", "--out", str(tmp_path / "no")]) == 2
    assert "sampling.runners: not supported by algo=rare" in capsys.readouterr().err
    few = ["train", "--algo", "launchpad", "--dataset", str(sjf_dataset), "--steps", "1000"]
    assert main([*few, "--out", str(tmp_path / "no")]) == 2
    assert "launchpad.rows: value 1000000 is no less than steps 1000" in capsys.readouterr().err

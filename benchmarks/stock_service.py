"""A decision service without rlsched: FastAPI and `serve.batch`, as the documentation of Ray shows them.

    python -m benchmarks.stock_service POLICY PORT

A client sends the observation vector and the action mask, which it has to compute itself, and gets an action.
`benchmarks/serve_speed.py` compares it with the service of rlsched.
"""

import sys
import threading
from pathlib import Path

import numpy as np
import ray
from fastapi import FastAPI
from pydantic import BaseModel
from ray import serve
from ray.serve.config import HTTPOptions

from rlsched.learn.policy import load_policy

app = FastAPI()


class Question(BaseModel):
    """What a network is given."""

    obs: list[float]
    mask: list[int]


@serve.deployment(max_ongoing_requests=64)
@serve.ingress(app)
class StockService:
    """A replica."""

    def __init__(self, folder: str) -> None:
        self.policy = load_policy(Path(folder))

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.002)
    async def act(self, questions: list[Question]) -> list[int]:
        """Actions of some questions."""
        obs = np.array([question.obs for question in questions], np.float32)
        mask = np.array([question.mask for question in questions], np.int8)
        return [int(action) for action in self.policy.act(obs, mask)]

    @app.post("/act")
    async def answer(self, question: Question) -> dict[str, int]:
        """One question."""
        return {"action": await self.act(question)}


if __name__ == "__main__":
    ray.init(address="local", include_dashboard=False, log_to_driver=False)
    serve.start(http_options=HTTPOptions(host="127.0.0.1", port=int(sys.argv[2])))
    serve.run(StockService.bind(sys.argv[1]))  # type: ignore[attr-defined]  # the decorators make it a deployment
    print("serving", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        ray.shutdown()

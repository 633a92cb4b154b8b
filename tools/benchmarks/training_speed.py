"""Steps of training in cuplug beside PyTorch's eager ones, each library in a process of its own, in turn."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from .told_process import ToldProcess

NETWORKS = ("resnet50", "gpt2", "mlp")
_PROGRAM = Path(__file__).with_name("training_steps.py")


@dataclass
class Outcome:
    """One network trained by one library. Times are seconds, sizes bytes."""

    network: str
    contender: str
    step: float
    """The median of all rounds, of a step's mean."""
    ratio: float
    """By the first contender's: the median of the rounds' own ratios."""
    least: float
    most: float
    queued: float
    """Until the first step of a round was queued, when the device had nothing to do: the median."""
    reserved: int


def race(
    networks: Sequence[str],
    contenders: Sequence[str],
    *,
    devices: str,
    rounds: int,
    steps: int,
    small: bool = False,
) -> Iterator[list[Outcome]]:
    """The outcomes of each network, in the order of the contenders.

    Args:
        networks: names out of ``NETWORKS``.
        contenders: ``torch`` or ``cuplug``, with an allocator behind it if that is not the default: ``cuplug
            expandable``, ``torch expandable_segments``.
        devices: ``cpu``, or how many CUDA devices there are for the batch to be divided among.
        rounds: how often each contender has its turn.
        steps: how many steps it takes then.
        small: whether to train small networks, to try the benchmark itself.

    Raises:
        CuplugError: a process failed; the message has the end of its output.
    """
    for network in networks:
        trainers: list[_Trainer] = []
        try:
            for each in contenders:
                trainers.append(_Trainer(network, each, devices, small=small))
                trainers[-1].wait_until_ready()  # one after the other: what warms up takes the machine
            yield _outcomes(network, contenders, [[each.train(steps) for each in trainers] for _ in range(rounds)])
        finally:
            for trainer in trainers:
                trainer.end()


def _outcomes(network: str, contenders: Sequence[str], rounds: list[list[dict[str, float]]]) -> list[Outcome]:
    return [
        Outcome(
            network,
            contender,
            step=median(each["step"] for each in found),
            ratio=median(each["step"] / first[0]["step"] for each, first in zip(found, rounds, strict=True)),
            least=min(each["step"] for each in found),
            most=max(each["step"] for each in found),
            queued=median(each["queued"] for each in found),
            reserved=int(max(each["reserved"] for each in found)),
        )
        for contender, found in zip(contenders, zip(*rounds, strict=True), strict=True)
    ]


class _Trainer(ToldProcess):
    """A process that trains one network when it is told to, and does nothing meanwhile."""

    def __init__(self, network: str, contender: str, devices: str, *, small: bool) -> None:
        library, *allocator = contender.split(maxsplit=1)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTORCH_")}
        command = [sys.executable, str(_PROGRAM), library, network, devices, *allocator, *(["small"] if small else [])]
        super().__init__(f"{network} by {contender}", command, environment)

    def wait_until_ready(self) -> None:
        """Wait until the network is warm."""
        if self._line() != "ready\n":
            self.failed()

    def train(self, steps: int) -> dict[str, float]:
        """Let it take so many steps, and give what it measured."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{steps}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.failed()
        line = self._line()
        if not line:
            self.failed()
        found: dict[str, float] = json.loads(line)
        return found

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

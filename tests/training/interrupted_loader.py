"""A program that loads for ever with two workers, and is interrupted by a test."""

from typing import Any

import cuplug
from cuplug.utils.data import DataLoader
from loading_samples import Numbers


class Endless(Numbers):
    """So many samples that no test comes to their end."""

    def __len__(self) -> int:
        return 10**9

    def __getitem__(self, index: Any) -> Any:
        return cuplug.zeros(5000)  # so much that it comes through shared memory


if __name__ == "__main__":
    for number, _ in enumerate(DataLoader(Endless(), batch_size=2, num_workers=2)):
        if number == 3:
            print("loading", flush=True)

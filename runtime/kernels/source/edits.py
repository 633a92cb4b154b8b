"""Changes to a source that leave its lines where they are."""

from __future__ import annotations

from .tokens import Tokens


class Edits:
    """Changes to words; the space between them, and with it every line, stays."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._changed: dict[int, str] = {}

    def replace(self, position: int, text: str) -> None:
        """Put ``text`` in the place of a word. Positions are those of ``Tokens``, which count words."""
        self._changed[self._tokens.words[position]] = text

    def drop(self, position: int) -> None:
        """Leave a word out."""
        self.replace(position, "")

    def before(self, position: int, text: str) -> None:
        """Put ``text`` before a word, and before what was put there earlier."""
        index = self._tokens.words[position]
        self._changed[index] = f"{text} {self._changed.get(index, self._tokens.texts[index])}"

    def after(self, position: int, text: str) -> None:
        """Put ``text`` behind a word, and behind what was put there earlier."""
        index = self._tokens.words[position]
        self._changed[index] = f"{self._changed.get(index, self._tokens.texts[index])} {text}"

    def take(self, start: int, end: int) -> str:
        """Leave out the words from ``start`` up to ``end``, and return what had become of them."""
        taken = self.present(start, end)
        for position in range(start, end):
            self.drop(position)
        return taken

    def present(self, start: int, end: int) -> str:
        """What has become of the words from ``start`` up to ``end`` so far, on one line."""
        return " ".join(self._changed.get(index, self._tokens.texts[index]) for index in self._tokens.words[start:end])

    def text(self) -> str:
        """The changed source."""
        changed = self._changed
        return "".join(changed.get(index, text) for index, text in enumerate(self._tokens.texts))

"""The errors of tensors: RuntimeErrors, as torch's are, and of the class that Python has for such a mistake, too."""

from ....allocators.errors import CuplugError


class ArgumentError(CuplugError, ValueError):
    """An argument has a value that does not fit."""


class AssertedError(ArgumentError, AssertionError):
    """What torch asserts of an argument does not hold."""


class UnsupportedError(ArgumentError, NotImplementedError):
    """What is asked for has a meaning, and is not there in torch either."""


class ShapeError(ArgumentError):
    """Shapes, strides or numbers of elements do not fit."""


class NoElementsError(ShapeError, IndexError):
    """There are no elements, and what was asked for needs some. In torch an IndexError where a dimension is named."""


class IndexShapeError(ShapeError, IndexError):
    """The shapes of index tensors do not broadcast together."""


class RangeError(CuplugError, IndexError):
    """Positions lie beyond a dimension."""


class ElementTypeError(CuplugError, TypeError):
    """Elements are of a type that an operation does not take, or cannot store."""


class UnreadableNameError(ArgumentError, TypeError):
    """A file names what it may not."""

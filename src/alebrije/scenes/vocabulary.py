"""Factors and vocabularies: the parts of scenes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from alebrije.errors import InputError

Combination = tuple[int, ...]


@dataclass(frozen=True)
class Factor:
    """A property of every object and its possible values.

    `values` are words for people. `codes` are the same values in the form that released files and renderers use: an RGB
    triple, a number, the name of a mesh. By default the codes are the values.

    >>> size = Factor("size", ("small", "large"), (0.35, 0.7))
    >>> len(size), size.index("large"), size.index_of_code(0.35)
    (2, 1, 0)
    """

    name: str
    values: tuple[Any, ...]
    codes: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if not self.values:
            raise InputError(f"the factor {self.name!r} has no values")
        if not self.codes:
            object.__setattr__(self, "codes", self.values)
        if len(self.codes) != len(self.values):
            raise InputError(f"the factor {self.name!r} has {len(self.values)} values but {len(self.codes)} codes")

    def __len__(self) -> int:
        return len(self.values)

    def index(self, value: Any) -> int:
        """The index of a value."""
        if value in self.values:
            return self.values.index(value)
        raise InputError(f"{self.name} has no value {value!r}; it has {', '.join(map(str, self.values))}")

    def index_of_code(self, code: Any) -> int:
        """The index of the value with this code."""
        code = tuple(code) if isinstance(code, list) else code
        if code in self.codes:
            return self.codes.index(code)
        raise InputError(f"{self.name} {code!r} is outside the vocabulary; it has {', '.join(map(str, self.codes))}")


GREY_GROUND = Factor("background", ("grey",))


@dataclass(frozen=True)
class Vocabulary:
    """The factors of a world's objects, in the order of a combination, and its backgrounds.

    A combination is one value index per factor.

    >>> vocabulary = Vocabulary("toy", (Factor("color", ("red", "blue")), Factor("shape", ("cube", "ball", "cone"))))
    >>> vocabulary.counts, vocabulary.size, vocabulary.axis("shape")
    ((2, 3), 6, 1)
    >>> vocabulary.describe((1, 2))
    'blue cone'
    """

    name: str
    factors: tuple[Factor, ...]
    background: Factor = GREY_GROUND

    def __post_init__(self) -> None:
        if not self.factors or len(set(self.names)) < len(self.names):
            raise InputError(f"{self.name} needs factors with distinct names, not {', '.join(self.names) or 'none'}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the factors."""
        return tuple(factor.name for factor in self.factors)

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of values of each factor."""
        return tuple(len(factor) for factor in self.factors)

    @property
    def size(self) -> int:
        """The number of combinations."""
        return math.prod(self.counts)

    def __iter__(self) -> Iterator[Factor]:
        return iter(self.factors)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Factor:
        return self.factors[self.axis(name)]

    def axis(self, name: str) -> int:
        """The index of a factor in a combination."""
        if name not in self.names:
            raise InputError(f"{self.name} has no factor {name!r}; it has {', '.join(self.names)}")
        return self.names.index(name)

    def combinations(self) -> list[Combination]:
        """All combinations, last factor fastest."""
        return list(product(*(range(count) for count in self.counts)))

    def describe(self, combination: Sequence[int]) -> str:
        """A combination in words."""
        return " ".join(str(factor.values[int(index)]) for factor, index in zip(self.factors, combination, strict=True))

"""Objects that a ``with`` statement closes at its end."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self


class Closing:
    """A context manager that calls :meth:`close` on exit."""

    @abstractmethod
    def close(self) -> None:
        """Release the resources that the object holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

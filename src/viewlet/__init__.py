"""viewlet keeps answers fresh: incremental views, matrices and signals."""

from viewlet.errors import ViewletError

__all__ = ["ViewletError"]
__version__ = "0.1.0"

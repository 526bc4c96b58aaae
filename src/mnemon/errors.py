"""The errors a caller may meet, under the name of the front door: `from mnemon.errors import CommitError`."""

from mnemon.contracts.errors import *  # noqa: F403

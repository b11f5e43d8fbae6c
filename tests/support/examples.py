"""How many examples Hypothesis makes where each is an upload: a quarter of what the profile says."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["uploading"]

uploading = settings(max_examples=settings().max_examples // 4)

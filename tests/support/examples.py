"""Hypothesis makes a quarter of the profile's examples if each is an upload."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["uploading"]

uploading = settings(max_examples=settings().max_examples // 4)

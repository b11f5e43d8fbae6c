"""The console script ``rt-frames``.

Law: stands on `_api`, as a user's program does; `local` is imported by ``serve`` alone.
"""

"""Types, and changes of types.

dtypes → Arrow → ``data_type``, and two schemas → alterations. From the ground up:
``data_type``, ``portable``, ``casts``; ``any_dtype`` with a file for each library;
``objects``, for the type of what Python objects have in common; ``alterations``,
``compare``.

Layering (tests/test_house.py): no I/O and no frames; imports `errors` and the helpers.
"""

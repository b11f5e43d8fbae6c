"""What tries to break one promise: what a frame holds is what is stored, or it is refused by column before it is sent.

``values`` says what a cell means. ``arrow_cells``, ``pandas_cells`` and ``polars_cells`` read frames cell by cell,
``make_*`` draw frames at random, ``casts`` judges ``dtypes=``, ``judge`` sends one frame and compares, and ``runner``
does so thousands of times. Nothing here looks into the package: only its public names are used.
"""

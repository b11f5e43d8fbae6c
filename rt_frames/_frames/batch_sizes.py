"""Limits of batches, in bytes of the data in memory.

`Source._slice`, `CompressionPolicy.batch_bytes` and `IPCStream._resized` use them.
"""

from __future__ import annotations

# 16 MiB: the overhead of a batch no longer shows, and two or three fit into the memory
# that an upload may take
TARGET_BATCH_BYTES = 16 * 2**20
# chunks up to this size are not split: their rest would be a batch of few rows
MAX_BATCH_BYTES = 2 * TARGET_BATCH_BYTES
# 2 MiB: in smaller batches, the overhead shows
MIN_BATCH_BYTES = 2 * 2**20
# 4 MiB: the largest compressed batch, as larger ones show late that the link has
# changed; and the first slices of a source, so that the service starts early
SMALL_BATCH_BYTES = 2 * MIN_BATCH_BYTES
# 256 KiB: the first batches to an address on this machine, which may be a tunnel: data
# that is sent uncompressed before the tunnel is recognised costs time
LOOPBACK_BATCH_BYTES = 2**18
# 16 KiB per column and batch: each column has a fixed cost, which shows in wide tables
COLUMN_BYTES = 2**14
# 20 MiB that all threads together convert or keep ready, besides the batch being sent
WORK_BYTES = 20 * 2**20
# 4 KiB, and 256 rows: smaller batches are joined with those that follow; smaller
# buffers are written together
JOINED_BYTES = 2**12
JOINED_ROWS = 2**8

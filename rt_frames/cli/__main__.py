"""``python -m rt_frames.cli``: the console script of this interpreter's package."""

from rt_frames.cli.main import main

main(prog_name="rt-frames")

"""``python -m rt_frames.cli``: the console script of the package beside this interpreter."""

from rt_frames.cli.main import main

main(prog_name="rt-frames")

"""``python -m rt_frames.cli``: the CLI, run by this interpreter."""

from rt_frames.cli.main import main

main(prog_name="rt-frames")

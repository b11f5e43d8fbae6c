"""A pandas or Polars dataframe becomes a remote table: ``df.remote.to_table("sales")``.

>>> import polars as pl
>>> import rt_frames as rt
>>> df = pl.DataFrame({"region": ["north", "south"], "sold": [3, 4]})
>>> df.remote.to_table("sales").rows
2
"""

from rt_frames._register import register
from rt_frames._version import __version__ as __version__

# not typing.TYPE_CHECKING: importing typing costs more than this module
TYPE_CHECKING = False
if TYPE_CHECKING:
    from rt_frames import errors as errors
    from rt_frames._api import *  # noqa: F403  # the only list of public names


def __getattr__(name: str) -> object:
    """Import a public name on first access (PEP 562)."""
    import importlib

    if name == "errors":
        return importlib.import_module("rt_frames.errors")
    if not name.startswith("__") or name == "__all__":
        api = importlib.import_module("rt_frames._api")
        if name == "__all__":
            return sorted([*api.__all__, "__version__", "errors"])
        if name in api.__all__:
            value: object = getattr(api, name)
            globals()[name] = value
            return value
        names = importlib.import_module("rt_frames._names")
        known = [*api.__all__, *(f"errors.{error}" for error in dir(api.errors))]
        offer = names.what_is_meant(name, known)
        raise AttributeError(f"rt_frames has no {name!r}; {offer}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __getattr__("__all__")  # type: ignore[return-value]  # of "__all__", a list


register()

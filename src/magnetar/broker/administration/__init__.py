"""What carries the admin operations out: one function for each row of the table."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):  # each registers its functions when it is loaded
    import_module(f"{__name__}.{_module.name}")

"""The planted trainings, a file a family; importing this lists them all in planted.PROGRAMS."""

import importlib
import pkgutil

for module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{module.name}")

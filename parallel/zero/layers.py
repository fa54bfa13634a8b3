"""What is gathered together: the layers of a model, found by where they stand.

    GPT
    ├─ embedding ┐
    ├─ positions │                         an element of a list (ModuleList, Sequential, ModuleDict) is a layer;
    ├─ blocks    │                         the outermost list counts
    │  ├─ 0      │  ── layer 1
    │  ├─ 1      │  ── layer 2
    │  └─ 2      │  ── layer 3
    ├─ norm      ├─ layer 0                layer 0 is all the rest, and every parameter that is used in several places
    └─ head      ┘                         (tied): gathered first, freed last

A model without any list has its direct children for layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

_LISTS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A module and those parameters, by name, that are its alone."""

    module: nn.Module
    parameters: dict[str, nn.Parameter]


def find_layers(module: nn.Module) -> list[Layer]:
    """Layer 0 and the others in the order in which the model lists them; layers without parameters are left out."""
    modules = list(_elements(module)) or list(module.children())
    known = {id(layer) for layer in modules}
    places: dict[nn.Parameter, set[str]] = {}
    _note_places(module, "", "", known, places)
    shared = {parameter for parameter, found in places.items() if len(found) > 1}
    names = {parameter: name for name, parameter in module.named_parameters()}
    taken: set[nn.Parameter] = set()
    layers = []
    for layer in modules:
        own = {names[p]: p for p in layer.parameters() if p not in shared and p not in taken}
        taken.update(own.values())
        if own:
            layers.append(Layer(layer, own))
    rest = {name: parameter for parameter, name in names.items() if parameter not in taken}
    return [Layer(module, rest), *layers]


def _elements(module: nn.Module) -> Iterator[nn.Module]:
    """The elements of the outermost lists; a list in a list that cannot be called is looked into."""
    inside = isinstance(module, _LISTS)
    for child in module.children():
        if inside and not isinstance(child, (nn.ModuleList, nn.ModuleDict)):
            yield child
        else:
            yield from _elements(child)


def _note_places(
    module: nn.Module, path: str, layer: str, layers: set[int], places: dict[nn.Parameter, set[str]]
) -> None:
    """By parameter, the layers (by path; "" is none) under which it is found; a layer that is listed twice is two."""
    if not layer and id(module) in layers:
        layer = path
    for parameter in module._parameters.values():
        if parameter is not None:
            places.setdefault(parameter, set()).add(layer)
    for name, child in module._modules.items():
        if child is not None:
            _note_places(child, f"{path}.{name}", layer, layers, places)

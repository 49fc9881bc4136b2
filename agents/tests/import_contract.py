"""The layers of the import contract, in which the ways to play need no names of their own."""

from collections.abc import Sequence
from typing import cast

from grimp import ImportGraph
from importlinter import ContractCheck
from importlinter.contracts.layers import Layer, LayersContract, ModuleTail
from importlinter.domain.fields import ListField

# The layer in which each way to play stands beside the others.
MODES = "MODES"


class LayersWithModes(LayersContract):
    """Layers of which one, MODES, has each root package with a module `mode`."""

    type_name = "layers_with_modes"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        split = (name.split(".") for name in graph.modules)
        modes = {ModuleTail(parts[0]) for parts in split if parts[1:] == ["mode"]}
        layers = cast(Sequence[Layer], self.layers)
        named = {ModuleTail(MODES)}
        told = [Layer(modes) if one.module_tails == named else one for one in layers]
        self.layers = cast(ListField, told)
        return super().check(graph, verbose)

"""A kind of import contract that has one layer for all ways to play, so that the contract need not
name each of them."""

from collections.abc import Sequence
from typing import cast

from grimp import ImportGraph
from importlinter import ContractCheck
from importlinter.contracts.layers import Layer, LayersContract, ModuleTail
from importlinter.domain.fields import ListField

# In the contract this name stands for the layer of all ways to play.
MODES = "MODES"


class LayersWithModes(LayersContract):
    """A contract of layers in which MODES stands for all root packages with a module `mode`."""

    type_name = "layers_with_modes"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        split = (name.split(".") for name in graph.modules)
        modes = {ModuleTail(parts[0]) for parts in split if parts[1:] == ["mode"]}
        layers = cast(Sequence[Layer], self.layers)
        named = {ModuleTail(MODES)}
        told = [Layer(modes) if one.module_tails == named else one for one in layers]
        self.layers = cast(ListField, told)
        return super().check(graph, verbose)

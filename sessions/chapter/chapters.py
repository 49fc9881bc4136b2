"""Makes, sets up, copies, renames, resets and deletes whole chapters."""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from django.db import transaction
from django.utils import timezone

from sessions.chapter.access import get_chapter, get_chapter_in_locked_story
from sessions.chapter.cast import (
    TextsBySlot,
    by_checked_slot,
    cast_changed,
    change_cast,
    check_takes_part,
    copy_cast,
    default_cast,
)
from sessions.chapter.people import choose_persons
from sessions.chapter.states import move
from sessions.exceptions import InvalidInput, WrongState
from sessions.language.languages import clean_tag
from sessions.language.sentences import split_sentences
from sessions.language.text import as_line, clean_line, clean_text, scrub_reply
from sessions.language.words import beginning_of
from sessions.limits import (
    MAX_CHUNK_SIZE_PROMPTS,
    MAX_TARGET_WORDS,
    MIN_CHUNK_SIZE_PROMPTS,
    MIN_TARGET_WORDS,
    NARRATIVE_AGENT_CHAR_LIMIT,
    TAB1_CHAR_LIMIT,
    TITLE_CHAR_LIMIT,
)
from sessions.models import DEFAULT_MODE, UNTITLED, CastMember, Session, State, Tab1Inputs
from sessions.reply_lengths import ReplyLength
from sessions.roster import CAST_TEXTS

LOCKED = (
    "Tab 1 is locked, so nothing was changed. Reset the chapter, "
    "or start a new story with this setup."
)
# The message for changes to Tab 1 that come after the first prompt, in a mode without a lock.
PLAYED = (
    "Tab 1 takes no changes after the first prompt, so nothing was changed. Reset the chapter, "
    "or start a new story with this setup."
)


# A title that is made from a premise has at most this many characters.
_NAME_CHARACTERS = 60


@dataclass(frozen=True)
class SetupChange:
    """Changes to Tab 1. A field is not changed if its value is None. A text of a character is not
    changed if `texts` does not have it."""

    world_text: str | None = None
    chapter_text: str | None = None
    selected_agent_slots: list[int] | None = None
    # The texts of characters, by their names.
    texts: Mapping[str, TextsBySlot] = field(default_factory=dict)
    # For each slot, the number that the same person has in the chapter before, or None for a new
    # person.
    agent_persons_before: Mapping[str, int | None] | None = None
    chunk_size_prompts: int | None = None
    mode_setup: dict[str, Any] | None = None


def setup_with(world: str, scene: str, characters: Sequence[Mapping[str, Any]]) -> SetupChange:
    """Return a whole Tab 1. `characters` have their texts by the names of their fields in
    starters."""
    by_slot = {str(slot): one for slot, one in enumerate(characters, start=1)}
    return SetupChange(
        world_text=world.strip(),
        chapter_text=scene.strip(),
        selected_agent_slots=[int(slot) for slot in by_slot],
        texts={
            text.name: {slot: one.get(text.field_name, "").strip() for slot, one in by_slot.items()}
            for text in CAST_TEXTS
        },
    )


def is_setup(chapter: Session, setup: SetupChange) -> bool:
    """Return whether the chapter's Tab 1 equals this complete setup, word for word. The number of
    prompts of a summary may differ, because no text depends on it."""
    tab1, slots = chapter.tab1, [str(slot) for slot in chapter.selected_agent_slots]
    stored = {one.name: chapter.agent_texts(one.name) for one in CAST_TEXTS}
    return (
        (tab1.world_text, tab1.chapter_text) == (setup.world_text, setup.chapter_text)
        and len(chapter.everybody) == len(slots)
        and setup.texts
        == {name: {slot: texts.get(slot, "") for slot in slots} for name, texts in stored.items()}
    )


def create_chapter(
    title: str = "",
    *,
    mode: str = DEFAULT_MODE,
    is_in_play: bool = False,
    at_the_place_of: Session | None = None,
) -> Session:
    """Create a chapter, in a story of its own or at the place of another chapter. `is_in_play` must
    be True for a mode without a lock, because its play begins at once."""
    state = State.ACTIVE if is_in_play else State.DRAFT_TAB1
    chapter = Session(title=_clean_title(title) or UNTITLED, mode=mode, state=state)
    if other := at_the_place_of:
        chapter.story, chapter.place = other.story, other.place
        chapter.is_chosen = other.is_chosen
    return _store_new(chapter, Tab1Inputs(), default_cast())


@transaction.atomic
def save_setup(session_id: uuid.UUID, change: SetupChange) -> Session:
    """Save the changes to Tab 1. If two saves change the same field, the later save wins.

    If a value is bad, no field is saved, and TooLong or InvalidInput is raised. Raises WrongState
    if Tab 1 can no longer be changed.
    """
    # This UPDATE locks the row on every database, so that another save or a first prompt waits.
    Session.objects.filter(pk=session_id).update(updated_at=timezone.now())
    chapter = get_chapter(session_id)
    if not is_setup_open(chapter):
        raise WrongState(PLAYED if _has_no_lock(chapter) else LOCKED)
    change_cast(chapter, change.selected_agent_slots, change.texts)
    if change.agent_persons_before:
        choose_persons(chapter, by_checked_slot(change.agent_persons_before))
        cast_changed.send(Session, chapter=chapter)
    tab1 = chapter.tab1
    if change.world_text is not None:
        tab1.world_text = _clean_tab1(change.world_text, "The world")
    if change.chapter_text is not None:
        tab1.chapter_text = _clean_tab1(change.chapter_text, "The chapter")
    if change.chunk_size_prompts is not None:
        chapter.chunk_size_prompts = _check_chunk_size(change.chunk_size_prompts)
        chapter.save(update_fields=["chunk_size_prompts", "updated_at"])
    if change.mode_setup is not None:
        tab1.mode_setup = change.mode_setup
    tab1.save()
    return chapter


@transaction.atomic
def save_open_setup(session_id: uuid.UUID, mode_setup: dict[str, Any]) -> Session:
    """Save the fields of the mode on Tab 1 in play. The caller has checked that the mode declares
    the changed fields as open. Raises WrongState if the chapter is not in play."""
    Session.objects.filter(pk=session_id).update(updated_at=timezone.now())
    chapter = get_chapter(session_id)
    if not chapter.is_playable:
        raise WrongState("This chapter is not in play, so this cannot be changed. Nothing was.")
    chapter.tab1.mode_setup = mode_setup
    chapter.tab1.save(update_fields=["mode_setup"])
    return chapter


def is_setup_open(chapter: Session) -> bool:
    """Return whether Tab 1 can be changed.

    In a mode with a lock, it can be changed until the chapter is locked. In another mode, it can be
    changed until the first prompt is stored.
    """
    if _has_no_lock(chapter) and chapter.state == State.ACTIVE:
        return not chapter.attempts.exists()
    return chapter.state == State.DRAFT_TAB1


def rename_chapter(session_id: uuid.UUID, title: str) -> Session:
    chapter = get_chapter(session_id)
    cleaned = _clean_title(title)
    if not cleaned:
        raise InvalidInput("A chapter needs a title. The old one was kept.")
    Session.objects.filter(pk=chapter.pk).update(title=cleaned, updated_at=timezone.now())
    return get_chapter(session_id)


def name_after(session_id: uuid.UUID, premise: str) -> None:
    """Name a chapter after the first sentence of its premise if nobody has named it.

    A long sentence is cut, after a word if it has words.
    """
    sentence, *_ = split_sentences(as_line(scrub_reply(premise))) or [""]
    sentence = sentence.strip(" .,;:!")
    if len(sentence) > _NAME_CHARACTERS:
        sentence = f"{beginning_of(sentence, _NAME_CHARACTERS - 1)}\N{HORIZONTAL ELLIPSIS}"
    if sentence:
        title = f"{sentence[0].upper()}{sentence[1:]}"
        Session.objects.filter(pk=session_id, title=UNTITLED).update(title=title)


def choose_reply_length(session_id: uuid.UUID, length: str) -> Session:
    """Store how long the replies of the characters should be, from the next reply on."""
    chapter = get_chapter(session_id)
    if length not in ReplyLength.values:
        raise InvalidInput("Replies can be short, normal or long. The old length was kept.")
    Session.objects.filter(pk=chapter.pk).update(reply_length=length, updated_at=timezone.now())
    return get_chapter(session_id)


def choose_language(session_id: uuid.UUID, tag: str) -> Session:
    """Store the tag of the language that the story is told in. Without a tag, the language counts
    that is found in the play."""
    chapter = get_chapter(session_id)
    cleaned = clean_tag(tag)
    Session.objects.filter(pk=chapter.pk).update(language=cleaned, updated_at=timezone.now())
    return get_chapter(session_id)


@transaction.atomic
def copy_setup(session_id: uuid.UUID) -> Session:
    """Create a chapter with a copy of this chapter's Tab 1, in a story of its own. The copy has the
    same title with the next free number."""
    source = get_chapter(session_id)
    copy = _with_settings_of(source, title=title_of_copy(source.title), starter=source.starter)
    tab1 = Tab1Inputs(
        world_text=source.tab1.world_text,
        chapter_text=source.tab1.chapter_text,
        mode_setup=source.tab1.mode_setup,
        # The world that the chapter before handed on belongs to the world with which this chapter
        # began.
        handed_on=source.tab1.handed_on,
    )
    return _store_new(copy, tab1, copy_cast(source.cast))


def store_next_chapter(before: Session, place: int) -> Session:
    """Create a chapter at this place of the story of the chapter `before`. The new chapter has the
    world and the cast of that chapter, and an empty scene. Each member of its cast names its
    origin. The new chapter has no title of its own."""
    chapter = _with_settings_of(
        before,
        story=before.story,
        place=place,
        follows=before,
        found_language=before.found_language,
    )
    tab1 = Tab1Inputs(world_text=before.tab1.world_text, mode_setup=before.tab1.mode_setup)
    cast = copy_cast(before.cast)
    for member, origin in zip(cast, before.cast, strict=True):
        member.origin = origin
    return _store_new(chapter, tab1, cast)


def _with_settings_of(source: Session, **fields: Any) -> Session:
    """Return a new chapter with the mode and the settings of this chapter. It is not stored yet."""
    return Session(
        mode=source.mode,
        state=State.ACTIVE if _has_no_lock(source) else State.DRAFT_TAB1,
        chunk_size_prompts=source.chunk_size_prompts,
        narrative_agent_definition_text=source.narrative_agent_definition_text,
        target_words=source.target_words,
        reply_length=source.reply_length,
        language=source.language,
        model_settings=source.model_settings,
        **fields,
    )


def save_narrative_agent(
    session_id: uuid.UUID, *, definition_text: str | None = None, target_words: int | None = None
) -> Session:
    """Save the narrator's instructions and the target length.

    If two saves change the same value, the later value is kept. Raises WrongState while the chapter
    is being narrated.
    """
    change: dict[str, object] = {}
    if definition_text is not None:
        change["narrative_agent_definition_text"] = clean_text(
            definition_text, limit=NARRATIVE_AGENT_CHAR_LIMIT, label="The narrative instructions"
        )
    if target_words is not None:
        if not MIN_TARGET_WORDS <= target_words <= MAX_TARGET_WORDS:
            raise InvalidInput(
                f"The target length must be {MIN_TARGET_WORDS} to {MAX_TARGET_WORDS:,} words. "
                "The old one was kept."
            )
        change["target_words"] = target_words
    changeable = Session.objects.filter(pk=session_id).exclude(state=State.NARRATING)
    is_saved = changeable.update(**change, updated_at=timezone.now())
    chapter = get_chapter(session_id)
    if not is_saved:
        raise WrongState(
            "The chapter is being written from the saved instructions. "
            "Wait for it or cancel it, then change them."
        )
    return chapter


def choose_panel(session_id: uuid.UUID, agent_slot: int) -> None:
    """Store the slot of the panel that Tab 2 shows next."""
    chapter = get_chapter(session_id)
    check_takes_part(chapter, agent_slot)
    Session.objects.filter(pk=session_id).update(next_agent_slot=agent_slot)


def show_all_replies(session_id: uuid.UUID, is_wanted: bool) -> None:
    """Store whether Tab 2 also shows attempts that are not chosen."""
    chapter = get_chapter(session_id)
    Session.objects.filter(pk=chapter.pk).update(shows_all_replies=is_wanted)


def show_thoughts(session_id: uuid.UUID, is_wanted: bool) -> None:
    """Store whether Tab 2 also shows what characters think."""
    chapter = get_chapter(session_id)
    Session.objects.filter(pk=chapter.pk).update(shows_thoughts=is_wanted)


@transaction.atomic
def reset_chapter(session_id: uuid.UUID) -> Session:
    """Delete the chapter with all its texts, and create a new one under a new id. The mode, the
    length of replies, the language, the settings of models and the place in the story are not
    changed.

    A background job that still runs for the old chapter finds no row, and writes nothing.
    """
    old = get_chapter_in_locked_story(session_id)
    chapter = Session.objects.filter(pk=session_id)
    move(chapter, State.RESETTING, refusal="This chapter is being reset already.")
    chapter.delete()
    created = create_chapter(mode=old.mode, is_in_play=_has_no_lock(old), at_the_place_of=old)
    Session.objects.filter(pk=created.pk).update(
        model_settings=old.model_settings, language=old.language
    )
    return choose_reply_length(created.pk, old.reply_length)


@transaction.atomic
def delete_chapter(session_id: uuid.UUID) -> None:
    """Delete the chapter with everything that belongs to it."""
    get_chapter_in_locked_story(session_id).delete()


def free_title(title: str) -> str:
    """Return the title, or the title with the next free number if another chapter already has this
    title."""
    return title_of_copy(title) if Session.objects.filter(title=title).exists() else title


def title_of_copy(title: str) -> str:
    """Return the title with the next free number. "The Lamp" becomes "The Lamp (2)", then "The Lamp
    (3)"."""
    stem, last = title, 1
    if counted := re.fullmatch(r"(.*) \(([0-9]{1,3})\)", title):
        stem, last = counted[1], int(counted[2])
    endings = (f" ({number})" for number in count(last + 1))
    titles = (stem[: TITLE_CHAR_LIMIT - len(ending)].rstrip() + ending for ending in endings)
    # A long title is cut, so that there is room for the number.
    start = stem[: TITLE_CHAR_LIMIT - 12]
    taken = set(Session.objects.filter(title__startswith=start).values_list("title", flat=True))
    return next(title for title in titles if title not in taken)


@transaction.atomic
def _store_new(chapter: Session, tab1: Tab1Inputs, cast: list[CastMember]) -> Session:
    chapter.save(force_insert=True)
    tab1.session = chapter
    for one in cast:
        one.session = chapter
    tab1.save(force_insert=True)
    CastMember.objects.bulk_create(cast)
    return get_chapter(chapter.pk)


def _has_no_lock(chapter: Session) -> bool:
    """Return whether the chapter's mode has no lock. Such a chapter is in play from its
    beginning."""
    return chapter.state not in (State.DRAFT_TAB1, State.LOCKING) and not chapter.tab1_locked


def _check_chunk_size(prompts: int) -> int:
    if not MIN_CHUNK_SIZE_PROMPTS <= prompts <= MAX_CHUNK_SIZE_PROMPTS:
        raise InvalidInput(
            f"A summary can cover {MIN_CHUNK_SIZE_PROMPTS} to {MAX_CHUNK_SIZE_PROMPTS} prompts. "
            "Nothing was saved; the old number was kept."
        )
    return prompts


def _clean_tab1(text: str, label: str) -> str:
    return clean_text(text, limit=TAB1_CHAR_LIMIT, label=label)


def _clean_title(title: str) -> str:
    return clean_line(title, limit=TITLE_CHAR_LIMIT, label="The title")

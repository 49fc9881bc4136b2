import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from agents.prompting import layer_sources, prompt_files
from agents.prompting.forms.schemas import TurnDelta, WorldChapterLock, json_schema_for
from agents.prompting.prompt_files import PromptFileError, render_prompt
from agents.tests.replies import world_lock
from memory.fold.folding import fold
from memory.fold.records import Block
from memory.telling.session_state import Detail, memory_lines
from sessions.roster import Character

VARIABLES = {
    "world_lock": {},
    "context_summary": {"rules": render_prompt("delta_rules")},
    "delta_rules": {},
    "gamemaster.character": {},
    "gamemaster.character_minimal": {"character_name": "Mara"},
    "narrator": {},
    "narrator_minimal": {},
    "process_map": {"here": "Play, as Agent 1", "prompts": "9"},
    "process_map_medium": {"here": "Play, as Agent 1", "prompts": "9"},
    "gamemaster.protocol_character": {},
    "gamemaster.process_map_character": {},
    "gamemaster.small_system": {},
    "gamemaster.small_question": {"name": "Mara", "sentences": "three"},
    "gamemaster.your_reply": {"character_name": "Mara", "length": "Write two lines."},
    "gamemaster.your_reply_minimal": {"character_name": "Mara", "length": "Write two lines."},
    "reply_continue": {},
    "protocol_json": {},
    "protocol_narrator": {},
    "narrator_whole": {"target_words": "2500"},
    "narrator_scene": {"scene_number": "2", "scene_count": "9", "target_words": "600"},
    "narrator_continue": {"target_words": "2500", "done_word": "DONE"},
    "narrator_before_next": {},
    "repair": {"error": "range is missing"},
    "repair_xml": {"error": "range is missing"},
    "repair_call": {"error": "to is missing", "name": "resolve"},
    "format_reminder_json": {},
    "format_reminder_xml": {"shape": "<turn_delta>...</turn_delta>"},
    "answer_json": {"name": "resolve", "description": "Names it.", "schema": "{}"},
    "memory_addition": {"keys": '{"learned": []}', "rules": "- learned: what somebody learned."},
    "tools_json": {"tools": "- look: Looks around. {}"},
    "tools_xml": {"tools": '- look: Looks around. <call name="look"></call>'},
}
# The layers that both files about characters explain.
GIVEN = (
    *("CAST", "AGENT_IDENTITY", "STRUCTURED_MEMORY", "RECENT_CONTEXT", "RECALLED_PASSAGES"),
    "USER_PROMPT",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(prompt_files, "PROMPTS_FOLDER", tmp_path)
    for kept in (prompt_files._load, layer_sources._file_piece):
        kept.cache_clear()
    yield tmp_path
    for kept in (prompt_files._load, layer_sources._file_piece):
        kept.cache_clear()


class TestRenderPrompt:
    def test_it_puts_values_in_word_for_word(self, folder: Path) -> None:
        (folder / "greeting.md").write_text("Hello $who, you owe $$5 to ${whom}.\n")
        text = render_prompt("greeting", who="$whom \\1 {who}", whom="me")
        assert text == "Hello $whom \\1 {who}, you owe $5 to me."

    def test_a_missing_variable_is_an_error_with_file_and_variable(self, folder: Path) -> None:
        (folder / "greeting.md").write_text("Hello $who and $whom")
        with pytest.raises(PromptFileError, match=r"greeting\.md needs \$whom"):
            render_prompt("greeting", who="Mara")

    def test_an_unknown_variable_is_an_error_with_file_and_variable(self, folder: Path) -> None:
        (folder / "greeting.md").write_text("Hello")
        with pytest.raises(PromptFileError, match=r"greeting\.md does not know \$who"):
            render_prompt("greeting", who="Mara")

    def test_a_changed_file_is_read_again_only_when_debugging(
        self, folder: Path, settings: Settings
    ) -> None:
        path = folder / "greeting.md"
        path.write_text("old")
        os.utime(path, (1, 1))
        settings.DEBUG = False
        assert render_prompt("greeting") == "old"
        path.write_text("new")
        os.utime(path, (2, 2))
        assert render_prompt("greeting") == "old"
        settings.DEBUG = True
        assert render_prompt("greeting") == "new"


class TestThePrompts:
    @pytest.mark.parametrize("name", VARIABLES)
    def test_each_renders_with_its_variables(self, name: str) -> None:
        text = render_prompt(name, **VARIABLES[name])
        assert all(value in text for value in VARIABLES[name].values())

    @pytest.mark.parametrize(
        ("name", "headings"),
        [
            ("world_lock", ["WORLD_TEXT", "CHAPTER_TEXT", "AGENT_ROSTER"]),
            (
                "gamemaster.character",
                [f"- {name}:" for name in (*GIVEN, "YOUR_REPLY")],
            ),
            (
                "gamemaster.character_minimal",
                [f"- {name}:" for name in GIVEN],
            ),
            ("context_summary", ["STRUCTURED_MEMORY_SO_FAR", "RECENT_CONTEXT_CHUNK"]),
            *(
                (name, ["NARRATIVE_AGENT_DEFINITION", "STRUCTURED_MEMORY", "FULL_CHAPTER_CONTEXT"])
                for name in ("narrator", "narrator_minimal")
            ),
        ],
    )
    def test_each_agent_knows_its_inputs_in_their_order(
        self, name: str, headings: list[str]
    ) -> None:
        text = render_prompt(name, **VARIABLES[name])
        places = [text.index(heading) for heading in headings]
        assert places == sorted(places)

    @pytest.mark.parametrize(
        ("name", "model"), [("world_lock", WorldChapterLock), ("context_summary", TurnDelta)]
    )
    def test_the_summarizers_are_told_every_key_of_their_schema(
        self, name: str, model: type[WorldChapterLock] | type[TurnDelta]
    ) -> None:
        text = render_prompt(name, **VARIABLES[name])
        assert [key for key in _keys(json_schema_for(model)) if f'"{key}":' not in text] == []

    @pytest.mark.parametrize("name", ["gamemaster.character_minimal", "narrator_minimal"])
    def test_a_small_model_is_told_what_each_element_of_memory_means(self, name: str) -> None:
        delta = {
            "location_updates": {"where": "the quay", "notable_environment_changes": ["fog"]},
            "major_events": [{"event": "It sank.", "participants": ["Mara", "Ilse"]}],
            "character_actions": [{"name": "Mara", "did": "dived", "result": "cold"}],
            "state_changes": [{"key": "lamp", "before": "lit", "after": "dark"}],
            "relationship_shifts": [{"between": ["Mara", "Tom"], "change": "doubt"}],
            "items_clues_discovered": [{"thing": "list", "who_found": "Tom"}],
            "unresolved_threads": [{"thread": "who knocks", "stakes": "all"}],
            "canon_locks": ["The keeper is dead."],
            "contradictions_or_questions": ["Who rang?"],
        }
        lock = world_lock() | {"canon_locks": ["No magic."]}
        lock["world"] = lock["world"] | {"safety_or_boundaries": ["no gore"]}
        ruling = {"replaces": "No magic.", "canon": "Magic costs."}
        folded = fold(
            [
                Block("world_chapter_lock", 0, 0, lock),
                Block("turn_delta", 1, 7, delta),
                Block("canon_correction", 7, 7, ruling),
            ]
        )
        lines = memory_lines(folded, [Character(1, "red", "Mara")], detail=Detail.MINIMAL)
        tags = set(re.findall(r"<(\w+)", "\n".join(line.text for line in lines)))
        assert {"boundary", "canon", "no_longer_true", "now", "prompts", "told"} <= tags
        # Only characters are told passages of an earlier chapter.
        tags |= {"earlier_chapter"} if name.startswith("gamemaster") else set()
        told = render_prompt(name, **VARIABLES[name])
        assert sorted(tag for tag in tags if not re.search(rf"\b{tag}\b", told)) == []

    def test_what_a_small_model_reads_before_every_reply_is_short(self) -> None:
        assert len(render_prompt("gamemaster.character_minimal", character_name="Mara")) < 1_600


def _keys(schema: dict[str, object]) -> Iterator[str]:
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for key, value in properties.items():
            yield key
            yield from _keys(value)
    items = schema.get("items")
    if isinstance(items, dict):
        yield from _keys(items)

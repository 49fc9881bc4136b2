from memory.models import DraftChoice, MemoryBlock, NarrativeDraft, WorkingCopy
from sessions.records_admin import show_records

show_records(
    MemoryBlock,
    "__str__ chapter created_at",
    "json_payload",
    filters="type created_at",
)
show_records(
    NarrativeDraft,
    "__str__ chapter target_words created_at",
    "chapter_text",
    filters="created_at",
)
show_records(WorkingCopy, "__str__ chapter saved_at", "text", filters="saved_at")
show_records(DraftChoice, "__str__ chapter draft chosen_at")

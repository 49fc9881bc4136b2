from django.urls import URLPattern, path

from storyengine.pages import (
    calls,
    canon,
    chapter,
    consent,
    downloads,
    library,
    play,
    replies,
    trials,
    world,
)

app_name = "pages"

_CHAPTER = "chapters/<uuid:session_id>/"

urlpatterns: list[URLPattern] = [
    path("", library.library, name="library"),
    path("chapters/new", library.new_chapter, name="new"),
    path(_CHAPTER, library.open_chapter, name="chapter"),
    path(_CHAPTER + "rename", library.rename, name="rename"),
    path(_CHAPTER + "copy", library.copy, name="copy"),
    path(_CHAPTER + "delete", library.delete, name="delete"),
    path(_CHAPTER + "reset", library.reset, name="reset"),
    # Tab 1
    path(_CHAPTER + "world", world.show_world, name="world"),
    path(_CHAPTER + "world/save", world.save, name="save-world"),
    path(_CHAPTER + "world/example", world.example, name="example"),
    path(_CHAPTER + "lock", world.lock, name="lock"),
    path(_CHAPTER + "lock/status", world.lock_status, name="lock-status"),
    # Tab 2
    path(_CHAPTER + "play", play.show_play, name="play"),
    path(_CHAPTER + "play/status", play.status, name="play-status"),
    path(_CHAPTER + "play/panel", play.choose, name="panel"),
    path(_CHAPTER + "play/keep", play.keep, name="keep"),
    path(_CHAPTER + "play/set-aside", play.set_turn_aside, name="set-aside"),
    path(_CHAPTER + "play/memory", play.retry_memory, name="retry-memory"),
    path(_CHAPTER + "play/prompt", replies.send_prompt, name="prompt"),
    path(_CHAPTER + "play/reroll", replies.reroll, name="reroll"),
    path(_CHAPTER + "play/stop", replies.stop, name="stop"),
    path(_CHAPTER + "play/warm", replies.warm, name="warm"),
    path(_CHAPTER + "turns/<uuid:turn_id>/stream", replies.stream, name="stream"),
    path(_CHAPTER + "end", play.end, name="end"),
    path(_CHAPTER + "reopen", play.reopen_chapter, name="reopen"),
    path(_CHAPTER + "transcript", play.whole_transcript, name="transcript"),
    # What a model was sent, and what was used
    path(_CHAPTER + "calls/prompts/<int:number>", calls.show_prompt, name="prompt-calls"),
    path(_CHAPTER + "calls/memory/<int:number>", calls.show_block, name="memory-calls"),
    path(_CHAPTER + "calls/drafts/<uuid:draft_id>", calls.show_draft, name="draft-calls"),
    path(_CHAPTER + "calls/prompts/<int:number>/try", trials.show_layers, name="try"),
    path(_CHAPTER + "calls/prompts/<int:number>/try/run", trials.run, name="run-trial"),
    path(_CHAPTER + "trials/<uuid:trial_id>", trials.show_trial, name="trial"),
    path(_CHAPTER + "trials/<uuid:trial_id>/status", trials.status, name="trial-status"),
    path(_CHAPTER + "trials/<uuid:trial_id>/stop", trials.stop, name="stop-trial"),
    path(_CHAPTER + "trials/<uuid:trial_id>/adopt", trials.adopt, name="adopt-trial"),
    path(_CHAPTER + "calls/next", calls.show_next, name="next-call"),
    path(_CHAPTER + "usage", calls.show_usage, name="usage"),
    # Tab 3
    path(_CHAPTER + "chapter", chapter.show_chapter, name="draft"),
    path(_CHAPTER + "chapter/status", chapter.status, name="draft-status"),
    path(_CHAPTER + "chapter/save", chapter.save, name="save-draft"),
    path(_CHAPTER + "chapter/estimate", chapter.show_estimate, name="build-estimate"),
    path(_CHAPTER + "chapter/build", chapter.build, name="build"),
    path(_CHAPTER + "chapter/cancel", chapter.cancel, name="cancel"),
    path(_CHAPTER + "canon", canon.show_correction, name="canon"),
    path(_CHAPTER + "canon/correct", canon.correct, name="correct-canon"),
    path(_CHAPTER + "questions/<slug:key>", canon.show_question, name="question"),
    path(_CHAPTER + "questions/<slug:key>/answer", canon.answer_question, name="answer-question"),
    path(_CHAPTER + "downloads/transcript", downloads.transcript, name="download-transcript"),
    path(_CHAPTER + "downloads/everything", downloads.everything, name="download-everything"),
    path(_CHAPTER + "downloads/drafts/<uuid:draft_id>", downloads.draft, name="download-draft"),
    path("consent/", consent.show_consent, name="consent"),
    path("consent/allow", consent.allow, name="allow"),
    path("consent/withdraw", consent.withdraw_host, name="withdraw"),
    path("model-status", world.model_status, name="model-status"),
]

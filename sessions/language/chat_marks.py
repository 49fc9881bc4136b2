"""The words in the marks of chat templates, each once for the whole program.

Texts that are sent have these marks made ineffective (speaker_marks.py). In an answer, the first
three kinds end the reply or hide a thought (agents/llm/providers/answers/answer_text.py).
"""

# The words of tags with angle brackets, as patterns. Before a word, there may be a slash or the
# name of a family of models, as in "<seed:think>".
TURN_TAGS = (
    *("s", "bos", "eos", "eod", "eot", "pad", "unk", "sop", "eop", "[be]os_token", "eo[tm]_id"),
    *(r"(?:start|begin|beginning|end)_of_(?!thought)\w++", "im_(?:start|end)", "endoftext"),
)
# Words may stand before and behind these, as in "<inner_thoughts>" and "<think_fast>".
_THOUGHTS = (
    "think(?:ing)?|thoughts?|reason(?:ing)?|reflections?|analysis|rationale|deliberation|monologue"
    "|cot|scratch_?pad|contemplation|brainstorm(?:ing)?|ponder(?:ing)?"
)
_NO_END = "(?!(?:end|stop|close|start|begin)(?![a-z]))"
THOUGHT_TAGS = (
    rf"(?:{_NO_END}[a-z]{{1,12}}[_-]){{0,2}}(?:ant|inner|chainof)?(?:{_THOUGHTS})"
    rf"(?:[_-]{_NO_END}\w{{1,60}}+)?",
)
CALL_TAGS = (
    *("tools", "tool_calls?", "tool_response", "function", "function_calls?", "invoke"),
    *("parameter", "arg_key", "arg_value"),
)
# Tokens that a model keeps for later use.
RESERVED_TAGS = (r"extra_id_\d++", r"(?:reserved|special)_\d++", r"unused\d++")

# The words of marks with square brackets.
TURN_WORDS = ("INST", "SYSTEM_PROMPT", "MODEL_SETTINGS", "AVAILABLE_TOOLS", "BOS", "EOS", "gMASK")
THOUGHT_WORDS = ("THINK",)
CALL_WORDS = ("TOOL_CALLS", "TOOL_RESULTS", "TOOL_CONTENT", "ARGS", "CALL_ID")

# The headings of templates without marks of their own, as in "### Instruction:".
HEADINGS = ("Instructions?", "Response", "Input", "Output", "Human", "User", "Assistant", "System")

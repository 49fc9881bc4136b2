"""Finds replies that decline as a program does, instead of telling the story.

A person of a story declines too: “I can't help with that lever, it is rusted.” So the words count
only where no person would say them (they speak of guidelines, requests or language models), or
where the reply has nothing but an apology and a refusal without a reason.
"""

import re

from sessions.language.sentences import split_sentences

_CANNOT = (
    r"(?:(?:can(?:no|')t|can not|could not|couldn't|won't|will not|am not going to|'m not going to"
    r"|(?:am|'m) (?:unable|not able|not allowed|not permitted|not programmed|not designed) to"
    r"|(?:do not|don't|am not|'m not) (?:feel )?comfortable(?: with)?"
    r"|(?:must|have to|need to|will have to|'ll have to)(?: \w+ly)? (?:decline|refuse)(?: to)?"
    r"|not appropriate(?: for me)? to|inappropriate(?: for me)? to)\b)"
)
_ACT = (
    r"(?:help(?:ing)?|assist(?:ing)?|comply(?:ing)?|continu(?:e|ing)|engag(?:e|ing)|creat(?:e|ing)"
    r"|participat(?:e|ing)|tak(?:e|ing) part|fulfil(?:l|ling)?|provid(?:e|ing)|generat(?:e|ing)"
    r"|produc(?:e|ing)|writ(?:e|ing)|discuss(?:ing)?|support(?:ing)?|promot(?:e|ing)|proceed(?:ing)?"
    r"|process(?:ing)?|respond(?:ing)?|answer(?:ing)?|role-?play(?:ing)?|complet(?:e|ing)"
    r"|depict(?:ing)?|describ(?:e|ing)|shar(?:e|ing)|go(?:ing)? (?:on|along))"
)
_WORDS = r"(?:[\w'-]+,? ){{0,{}}}?"
_MODEL = r"(?:language model|ai(?: language)? model|ai assistant|virtual assistant|chatbot|llm)"
_POLICY = (
    r"(?:\b(?:my|our)(?: own)?(?: [\w-]+)? (?:guidelines|terms of (?:service|use))|\bmy policies"
    r"|\b(?:content|usage|community|safety|ethical|platform|openai'?s?) (?:[\w-]+ )?"
    r"(?:guidelines|polic(?:y|ies)|standards)|\bterms of (?:service|use)"
    r"|\bviolat\w+ (?:the |any )?(?:[\w-]+ )?(?:guidelines|polic(?:y|ies)))"
)
_MATTER = (
    r"(?:(?:this|that|your|such(?: an?)?|these|the) (?:[\w-]+ (?:of )?)?"
    r"(?:role-?play(?:ing)?|scenario|requests?|prompts?|instructions?|queries|query)"
    r"|(?:this|that|such(?: an?)?|the) (?:[\w-]+ (?:of )?)?(?:story(?:line)?|narrative|fiction)"
    r"|(?:this|that|such) (?:[\w-]+ (?:of )?)?content)"
)
_REQUEST = (
    rf"(?:{_MATTER}|(?:this|that|your|such(?: an?)?|these) (?:[\w-]+ of )?"
    r"(?:conversations?|discussions?|topics?|matters?|themes?))"
)
_TAIL = (
    r"(?:,? (?:here|any ?more|any further|further|right now|at this time|at the moment|today"
    r"|for you|as requested|with you|either))*"
)
# In these words, a person would name a reason that belongs to the story.
_NO_REASON = (
    r"(?=$|,? (?:as|because|since) (?:it|this|that|they|doing)\b|,? but\b"
    r"| (?:that|which) (?:involv|contain|violat|depict|goes|asks))"
)
_EXPLICIT = (
    r"(?:explicit|sexual(?:ly)?|graphic|violent|violence|harmful|inappropriate|illegal|offensive"
    r"|unethical|dangerous|nsfw|adult|hateful)"
)
# Words that only a program says.
_OF_A_PROGRAM = re.compile(
    "|".join(
        (
            rf"\bas an? {_WORDS.format(4)}(?:ai|artificial intelligence)\b.*"
            rf"{_CANNOT} {_WORDS.format(3)}{_ACT}\b",
            rf"{_CANNOT} {_WORDS.format(3)}{_ACT}\b.*\bas an? {_WORDS.format(4)}ai\b",
            rf"\bas an? {_WORDS.format(4)}{_MODEL}\b",
            rf"\bi(?:'m| am) (?:just |only |merely )?an? {_WORDS.format(3)}{_MODEL}\b",
            rf"{_CANNOT}.*{_POLICY}|{_POLICY}.*{_CANNOT}",
            rf"\b(?:against|breach\w*|violat\w+|breaking|allowed by|in line with) {_POLICY}",
            rf"{_POLICY}.*(?:(?:\bnot|n't) (?:allow|permit|let)|\bprevent|\bforbid|\bprohibit)",
            r"\bviolat\w+ (?:the |any |my |our )?(?:[\w-]+ )?(?:guidelines|polic(?:y|ies))\b",
            rf"{_CANNOT} {_WORDS.format(3)}{_ACT} {_WORDS.format(4)}{_MATTER}{_TAIL}{_NO_REASON}",
            rf"{_CANNOT} {_WORDS.format(3)}{_ACT} {_WORDS.format(4)}{_EXPLICIT} {_WORDS.format(2)}"
            r"(?:content|material|activit\w+|acts|themes?|scenarios?|scenes|information|topics?)\b",
            rf"\bi(?:'m| am) (?:programmed|designed|trained) to {_WORDS.format(2)}(?:assist|provide"
            r"|follow|help|avoid)\b",
            # Such words in other languages.
            r"\bals (?:eine? )?(?:ki-\w+|sprachmodell|ki kann ich (?:\w+ ){0,3}nicht\b)",
            r"\ben tant qu(?:e |')(?:une? )?(?:modèle de langage|ia,? je ne peux pas"
            r"|intelligence artificielle,? je ne peux pas)",
            r"\bcomo (?:un |uma? )?modelo de (?:lenguaje|linguagem)|\bcome modello linguistico",
            r"\bкак языковая модель",  # noqa: RUF001
            r"作为(?:一个|一名)?(?:ai|人工智能|大)?(?:语言模型|助手)|言語モデルとして",
        )
    )
)
_SORRY = (
    r"(?:(?:oh|well|unfortunately|regrettably|(?:my )?apologies|i (?:do )?apologi[sz]e"
    r"|i(?:'m| am) (?:so |very |really |truly |deeply )?sorry|sorry|i(?:'m| am) afraid)"
    r"(?: for (?:any|the) \w++)?+[,;: \u2013\u2014-]*+(?:(?:but|and|however|that)\b)?+[, ]*+)"
)
_THAT = rf"(?:that|this|it|{_REQUEST})"
_DO_THAT = (
    r"(?:help(?:ing)?(?: you)? with|assist(?:ing)?(?: you)?(?: with)?|comply(?:ing)? with"
    r"|engag(?:e|ing) (?:in|with)|participat(?:e|ing) in|provid(?:e|ing)|generat(?:e|ing)"
    r"|fulfil(?:l|ling)?|continu(?:e|ing)(?: with)?) (?:that|this)"
)
# A refusal without a reason, as a whole sentence. Only programs say the first of these sentences.
_I_CANNOT = rf"{_SORRY}*+i(?: really| simply| just)?(?: |(?='m)){_CANNOT}"
_ASSISTS = re.compile(rf"{_I_CANNOT} assist(?:ing)?(?: you)?(?: (?:with|in) {_THAT})?{_TAIL}")
_BARE = re.compile(
    rf"{_I_CANNOT} {_ACT}(?: you)? (?:with |to |in |on |about )?{_REQUEST}{_TAIL}"
    rf"|{_I_CANNOT} {_DO_THAT}{_TAIL}"
    rf"|(?!.*\b(?:won't|will not)\b){_I_CANNOT} (?:continu(?:e|ing)|comply(?:ing)?|proceed){_TAIL}"
    rf"|(?={_SORRY}){_I_CANNOT} (?:do (?:that|this)|help(?: you)?|talk about (?:that|this)){_TAIL}"
    r"|.{0,40}\b(?:ich kann (?:dir |ihnen |euch )?(?:dabei|damit|bei dieser (?:anfrage|bitte)) "
    r"(?:leider )?nicht (?:weiter)?helfen"
    r"|je ne peux pas (?:vous |t')?aider (?:avec (?:cela|ça)|à ce sujet)"
    r"|no puedo ayudar(?:te|le)? con eso|não posso ajudar com isso|non posso aiutarti con questo"
    r"|не могу (?:с этим )?помочь(?: с этим)?)"  # noqa: RUF001
    r"|.{0,12}我(?:无法|不能)(?:协助|满足|提供|继续|回答|帮助)(?:您|你)?的?(?:这个|该|此)?(?:请求|要求|内容)?"
)
# Words beside a refusal that tell nothing of the story either.
_FILLING = re.compile(
    rf"{_SORRY}++|(?:is there|let me know|please|let's|if you|feel free|how (?:can|may) i"
    r"|what (?:else )?(?:can|would)|thank you|i(?:'m| am) here to|i(?:'d| would) be (?:happy|glad)"
    r"|i can (?:help|assist)|perhaps we|maybe we|would you like|can i (?:help|assist)|i hope you"
    r"|i understand|instead)\b.*"
)
_QUOTED = re.compile(
    '"[^"\n]*(?:"|$)|\u201c[^\u201d\n]*(?:\u201d|$)|\u00ab[^\u00bb\n]*(?:\u00bb|$)'
)
_MARKS = str.maketrans({"\u2019": "'", "\u2018": "'", "*": "", "_": "", "#": "", "\n": " "})
_AROUND = ' \t"\u201c\u201d\u00ab\u00bb()[]>-.!?\u2026\u3002'
# A refusal stands in the beginning of its sentence. So the time is linear in the reply's length.
_LONGEST = 400
# Each refusal has one of these words. The other patterns take most of the time, and most sentences
# of a story need none of them.
_MAY_BE = re.compile(
    r"n't\b|not\b|unable|declin|refus|inappropriate|\bai\b|artificial|language model|assistant"
    r"|chatbot|\bllm\b|guideline|polic|standards|terms of|programmed|designed|trained"
    r"|sprachmodell|\bki\b|nicht|\bia\b|modèle|ne peux|modelo|modello|no puedo|não posso|non posso"
    r"|языковая|не могу|语言模型|助手|言語モデル|无法|不能"
)
# These words are looser than the patterns above, because nothing is lost if a model is asked once
# more.
_LOOKS_SO = re.compile(
    r"\b(?:can't|cannot|can not|unable to) assist\b|\bas an ai\b|\blanguage model\b"
    r"|\b(?:user|system)'?s? prompt\b|\bmy (?:own )?terms of service\b"
)


def is_refusal(text: str, *, of_small_model: bool = True) -> bool:
    """Return whether a model declines in this reply.

    The reply of a small model is a refusal if any words outside of speech are words that only a
    program says, or if the whole reply is a refusal without a reason. Any other model may write
    such words for a person of the story. So its reply is a refusal only if the whole reply consists
    of words that only a program says.
    """
    if not _MAY_BE.search(text.translate(_MARKS).casefold()):
        return False
    told = _QUOTED.sub(" ", text)
    is_spoken = not re.search(r"\w", told)
    if is_spoken:
        told = text
    sentences = [_plain(one) for one in split_sentences(told)]
    sentences = [one for one in sentences if one]
    of_a_program = [
        bool(_MAY_BE.search(one) and (_OF_A_PROGRAM.search(one) or _ASSISTS.fullmatch(one)))
        for one in sentences
    ]
    if of_small_model and any(of_a_program) and not is_spoken:
        return True
    is_bare = [
        is_sure or bool(_BARE.fullmatch(one))
        for one, is_sure in zip(sentences, of_a_program, strict=True)
    ]
    tells_nothing = all(
        bare or _FILLING.fullmatch(one) for one, bare in zip(sentences, is_bare, strict=True)
    )
    if of_small_model:
        return tells_nothing and any(is_bare)
    return tells_nothing and any(of_a_program) and told == text and not is_spoken


def looks_like_refusal(text: str) -> bool:
    """Return whether a reply may be a refusal. A model that costs nothing is then asked again."""
    return is_refusal(text) or bool(_LOOKS_SO.search(text.translate(_MARKS).casefold()))


def _plain(sentence: str) -> str:
    plain = sentence[:_LONGEST].translate(_MARKS).casefold()
    return " ".join(plain.split()).strip(_AROUND)

"""Tests of where a text names somebody."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.language.mentions import is_named_in

# ruff: noqa: RUF001  (letters and marks of other scripts)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Mossfoot", "The curtain moves. Mossfoot steps out."),
        (
            "Mossfoot",
            "It was Mossfoot\N{RIGHT SINGLE QUOTATION MARK}s lamp, the half-Mossfoot, _Mossfoot_.",
        ),
        ("Mossfoot", "Mossfoot-san!"),
        ("Ib", "Ib waits."),
        ("the ringer", "It is THE RINGER."),
        ("Jean-Luc", "There is Jean Luc."),
        ("Osk Brandt", "There is Osk\nBrandt."),
        ("René", "There is Rene."),
        ("Łukasz", "There is Lukasz."),
        ("Soren", "There is Søren."),
        ("İpek", "Ipek gelir."),
        ("שָׂרָה", "באה שרה."),
        ("محمد", "جاء مُحَمَّد."),
        ("李梅", "帘子动了一下，李梅走了出来。"),
        ("ハナ", "カーテンが揺れ、ハナが出てくる。"),
        ("花子", "そこへ花子が来る。"),
        ("มานี", "ม่านขยับแล้วมานีก็เดินออกมา"),
        ("ស្រីមុំ", "គាត់ឃើញស្រីមុំមក។"),
        ("Mossfoot", "Mossfoot가 나온다."),
        ("مريم", "تحركت الستارة ومريم خرجت."),
        ("علي", "وعلي دخل."),
        ("الحارس", "قال للحارس."),
        ("משה", "אמר למשה."),
        ("عبدالله", "جاء عبد الله."),
        ("민수", "민수만이 안다."),
        ("林", "林さんに聞く。"),
        ("Γιώργος", "Ρωτάω τον Γιώργο."),
        ("Анна", "Из-за занавеса слышен голос Анны."),
        ("Anna", "Verho liikkuu ja Annan ääni kuuluu."),
        ("Anna", "Das war Annas Stimme, und sie ist nicht da."),
    ],
)
def test_a_name_is_found(name: str, text: str) -> None:
    assert is_named_in(text, name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Will", "She will come tomorrow, willingly."),
        ("Ib", "Ibsen waits."),
        ("Don", "Don't touch it."),
        ("דוד", "הדוד שלי בא."),
        ("林", "林の中を歩く。"),
        ("光", "光が差す。"),
        ("Jean", "Jean-Luc waits."),
        ("Anna", "There is Hannah."),
        (" ", "Nothing."),
        ("ハナ", "ハナビが上がる。"),
        ("梅", "桃李梅花"),
        ("준", "준비가 되었다."),
        ("นก", "มันสนุกมาก"),
        ("ريم", "هو رجل كريم."),
        ("مريم", "المريمية"),
        ("Лев", "Слева стена."),
    ],
)
def test_a_part_of_another_word_is_no_name(name: str, text: str) -> None:
    assert not is_named_in(text, name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Will", "Will you sit?"),
        ("Will", "She waits. Will you sit?"),
        ("Will", "She asks: “Will you sit?”"),
        ("Will", "(Will you?)\n— Will you?\n*Will* you?\n- Will you?"),
        ("Rose", "Rose early, did she?"),
        ("Mark", "Mark my words."),
        ("May", "May I? It was in May, on May 3."),
        ("May", "It is May. On 5 May we left. The first of May."),
        ("Grace", "I beg Your Grace."),
        ("Crystal", "Crystal clear."),
        ("Rob", "Rob the merchant."),
        ("Faro", "Faro was lit. It was an old faro."),
        ("Вера", "Вера живёт в людях."),
    ],
)
def test_a_word_that_is_also_a_name_is_none_at_the_beginning_of_a_sentence(
    name: str, text: str
) -> None:
    assert not is_named_in(text, name)


@pytest.mark.parametrize(
    "told",
    [
        "There stands Will.",
        "“Stay,” Will told her.",
        "Will, sit down.",
        "WILL!",
        "Will's hand shakes.",
        "Will said no.",
        "*Will* smiles.",
        "Will is by the door.",
        "I tell Mara that Will is here.",
        "Mr. Will is late.",
        "Will you sit? It was Will.",
    ],
)
def test_such_a_word_is_the_name_where_something_shows_it(told: str) -> None:
    assert is_named_in(told, "Will")


def test_the_name_of_somebody_else_is_not_taken_for_it() -> None:
    assert not is_named_in("There is Will Turner.", "Will", ["Will Turner"])
    assert is_named_in("There are Will Turner and Will.", "Will", ["Will Turner"])
    assert not is_named_in("李梅花来了。", "李梅", ["李梅花"])
    assert not is_named_in("Пришла Александра.", "Александр", ["Александра"])
    assert is_named_in("Пришла Александра.", "Александра", ["Александр"])


_BESIDE = {
    "ハナ": (
        ["", "、", "そこに"],
        ["は", "が", "を", "に", "の", "と", "も", "さん", "ちゃんが", "。"],
    ),
    "李梅": (["", "，", "看见", "“"], ["", "走了", "的", "说：", "！", "”"]),
    "민수": (
        ["", " ", "“"],
        [
            "",
            *"은는이가을를의도만와과",
            "에게",
            "에게는",
            "한테서",
            "씨가",
            "님",
            "야",
            "처럼",
            "입니다",
            "이랑",
        ],
    ),
    "지민": (["", "그 "], ["이가", "이는", "아", "으로", "까지도"]),
    "مريم": (["", "و", "ب", "ل", "ف", "ك", "ول", "فب"], ["", " ", "،", "؟"]),
    "חנוך": (["", *"ובלהמשכ", "ול", "שה", "וה"], ["", " ", ".", "?"]),
    "มานี": (["", " ", "กับ", "เห็น", "คุณ"], ["", "ก็", "เดิน", " ", "และ"]),
    "Надя": (["", " ", "«"], ["", ".", "»"]),
    "Maeve": (["", "d'", "—", "“", "*", "half-"], ["", "'s", "’s", "—", "*", "-like", ",", "…"]),
}


@given(st.sampled_from(sorted(_BESIDE)), st.data())
def test_a_name_is_found_with_all_that_a_script_writes_beside_it(
    name: str, data: st.DataObject
) -> None:
    before, behind = (data.draw(st.sampled_from(signs)) for signs in _BESIDE[name])
    start, end = (
        data.draw(st.sampled_from(["", "«", "\n\n", "1914 "])),
        data.draw(st.sampled_from(["", "。", " x"])),
    )
    assert is_named_in(f"{start}{before}{name}{behind}{end}", name)


@given(st.text(max_size=60), st.text(min_size=1, max_size=8))
def test_any_text_can_be_looked_through(text: str, name: str) -> None:
    found = is_named_in(text, name)
    assert not (found and not name.strip())
    assert is_named_in(f"{text}\n", name) == found

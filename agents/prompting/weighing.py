"""Weighs texts, so that their tokens can be estimated without a tokenizer."""


def weigh(text: str) -> float:
    """Return the weight of a text, which is the sum of the weights of its characters.

    A character of English prose has the weight 1. A character that usually costs more tokens has a
    higher weight.
    """
    if text.isascii():
        return len(text)
    plain = len(text.encode("ascii", "ignore"))
    # A character beyond the basic plane has two units in UTF-16. So the number of units tells
    # without a loop how many such characters there are.
    rare = len(text.encode("utf-16-le", "surrogatepass")) // 2 - len(text)
    return plain + 3 * (len(text) - plain - rare) + 8 * rare

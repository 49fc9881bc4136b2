"""Reads the data of server-sent events. The chat protocol uses no other part of the events."""

from codecs import BOM_UTF8

from agents.llm.providers.bounds import MOST_JSON, TooMuch

# The fields whose values are data. Older servers of llama.cpp send a refusal under "error".
_FIELDS = (b"data:", b"error:")


class EventData:
    """A reader of a stream, which takes pieces of any length.

    The library's own decoder reads a reply byte by byte and passes each event through several
    generators. That is too slow for a hundred replies at once.
    """

    def __init__(self) -> None:
        # The first line may have a byte order mark, which is not part of it.
        self._is_first = True
        # The pieces of the line that has not ended yet. They are not joined for each further piece,
        # because the time would grow with the square of the line's length.
        self._line: list[bytes] = []
        self._line_length = 0
        self._data: list[bytes] = []
        self._data_length = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the data of the events that end in this piece. Raises TooMuch if an event has more
        than MOST_JSON bytes."""
        found: list[bytes] = []
        if b"\n" in piece or b"\r" in piece:
            lines = b"".join([*self._line, piece]).splitlines(keepends=True)
            # A line that ends with a carriage return is kept for the next piece, which may begin
            # with the line feed.
            piece = b"" if lines[-1].endswith(b"\n") else lines.pop()
            self._line, self._line_length = [], 0
            if self._is_first and lines:
                lines[0] = lines[0].removeprefix(BOM_UTF8)
                self._is_first = False
            for line in lines:
                # This quick check comes first, because there may be millions of lines without data.
                if (self._data or line.startswith(_FIELDS)) and (data := self._take(line)):
                    found.append(data)
        self._line.append(piece)
        self._line_length += len(piece)
        if self._line_length + self._data_length > MOST_JSON:
            raise TooMuch
        return found

    def end(self) -> list[bytes]:
        """Return the data of the last event, if the stream ended without the empty line behind it.
        The data may have broken off."""
        return [data for line in (b"".join(self._line), b"") if (data := self._take(line))]

    def _take(self, line: bytes) -> bytes:
        """Return the data of the event that ends with this line, or b"" if no event ends here."""
        line = line.rstrip(b"\r\n")
        if line.startswith(_FIELDS):
            self._data.append(line.partition(b":")[2].removeprefix(b" "))
            self._data_length += len(line)
        elif not line and self._data:
            data, self._data, self._data_length = b"\n".join(self._data), [], 0
            return data
        return b""

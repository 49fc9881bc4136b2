"""Server-sent events, as far as a chat stream uses them: the data of each, and nothing else."""

from agents.providers.bounds import MOST_JSON, TooMuch


class EventData:
    """Takes a stream in pieces, however they are cut. An event that the end cuts off is none.

    The library's own decoder takes a reply apart byte by byte and passes each event through several
    generators: with a hundred replies at once, that takes more time than there is.
    """

    def __init__(self) -> None:
        # The line that has not ended, in the pieces that it came in: to join them with each further
        # one would take time that grows with the square of its length.
        self._line: list[bytes] = []
        self._line_length = 0
        self._data: list[bytes] = []
        self._data_length = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that this piece ends; raises TooMuch for an endless one."""
        found: list[bytes] = []
        if b"\n" in piece or b"\r" in piece:
            lines = b"".join([*self._line, piece]).splitlines(keepends=True)
            # A carriage return may be half of a line's end.
            piece = b"" if lines[-1].endswith(b"\n") else lines.pop()
            self._line, self._line_length = [], 0
            for line in lines:
                # Asked first, because there may be millions that bring nothing.
                if (self._data or line.startswith(b"data:")) and (data := self._take(line)):
                    found.append(data)
        self._line.append(piece)
        self._line_length += len(piece)
        if self._line_length + self._data_length > MOST_JSON:
            raise TooMuch
        return found

    def _take(self, line: bytes) -> bytes:
        """The data of the event that this line ends, if it does."""
        line = line.rstrip(b"\r\n")
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
            self._data_length += len(line)
        elif not line and self._data:
            data, self._data, self._data_length = b"\n".join(self._data), [], 0
            return data
        return b""

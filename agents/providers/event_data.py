"""Server-sent events, as far as a chat stream uses them: the data of each, and nothing else."""

# A model's word takes some hundred bytes. What never ends would be kept until there is no memory.
MOST_BYTES = 4_000_000


class EventData:
    """Takes a stream in pieces, however they are cut. An event that the end cuts off is none.

    The library's own decoder takes a reply apart byte by byte and passes each event through several
    generators: with a hundred replies at once, that takes more time than there is.
    """

    def __init__(self) -> None:
        self._unfinished = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that this piece ends; raises ValueError for an endless one."""
        received = self._unfinished + piece
        lines = received.splitlines(keepends=True)
        # A carriage return may be half of a line's end.
        is_whole = received.endswith(b"\n")
        self._unfinished = b"" if is_whole or not lines else lines.pop()
        found = [data for line in lines if (data := self._take(line.rstrip(b"\r\n")))]
        if len(self._unfinished) + sum(map(len, self._data)) > MOST_BYTES:
            raise ValueError("An event of the stream is too long.")
        return found

    def _take(self, line: bytes) -> bytes:
        """The data of the event that this line ends, if it does."""
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        elif not line and self._data:
            data, self._data = b"\n".join(self._data), []
            return data
        return b""

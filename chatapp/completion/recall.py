"""What followed the last time the same text stood before the cursor, in the file itself."""


def recall(prefix: str, suffix: str) -> tuple[int, str]:
    """Find the longest end of `prefix` that stands elsewhere in the file.

    Returns its length and what follows it there, up to the line's end; (0, "") if there is none. Of
    several equally long ones, the nearest before the cursor counts, then the first one after it.
    """
    backwards = prefix[::-1]  # ends become beginnings, and the nearest occurrence the first

    def places(length: int) -> tuple[int, int]:
        return backwards.find(backwards[:length], 1), suffix.find(prefix[-length:])

    def occurs(length: int) -> bool:
        return length <= len(prefix) and max(places(length)) >= 0

    if not prefix or not occurs(1):
        return 0, ""
    longest, too_long = 1, 2
    while occurs(too_long):  # if an end occurs, so does every shorter one: double, then bisect
        longest, too_long = too_long, too_long * 2
    while too_long - longest > 1:
        middle = (longest + too_long) // 2
        longest, too_long = (middle, too_long) if occurs(middle) else (longest, middle)
    before, after = places(longest)
    text, start = (prefix, len(prefix) - before) if before >= 0 else (suffix, after + longest)
    end = text.find("\n", start)
    return longest, text[start:] if end < 0 else text[start:end]

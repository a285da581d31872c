# Empties the ring of a device (heapledger_wire::rtt::Ring, or a channel of SEGGER's RTT) while it runs. Each time the firmware finds no room
# in it (heapledger::chip::Sending says so), gdb stops it for a moment, takes what is there, and lets it go on: nothing is lost, however
# small the ring is. What it takes goes to a file, or to a pipe from which `heapledger receive` makes a ledger meanwhile:
#
#     mkfifo ring
#     heapledger receive ring -o board.hl &
#
#     source heapledger-rtt.gdb
#     heapledger-rtt ring
#     continue
#
# Whenever the firmware stops for another reason, what is there is taken as well. Probes that read memory without a stop have servers of
# their own for that (OpenOCD: rtt server), from which `heapledger receive tcp://` reads. It needs a gdb with Python.

python
import gdb, os, re, shlex

ID = b"SEGGER RTT\0\0\0\0\0\0"
# The firmware calls it when a frame has found no room.
FULL = "heapledger_line_full"

class HeapledgerRtt(gdb.Command):
    """Empty a ring while the device runs: heapledger-rtt FILE [FUNCTION [ADDRESS]].

It is emptied whenever the device calls FUNCTION, heapledger_line_full unless said otherwise: one that is called often, a tick's, brings
events sooner. ADDRESS, an expression, is where the ring is to be found; without it, what the program has in memory is searched.
heapledger-rtt-end ends it."""

    def __init__(self):
        super().__init__("heapledger-rtt", gdb.COMMAND_DATA, gdb.COMPLETE_FILENAME)
        self.out = self.full = None

    def invoke(self, text, from_tty):
        self.dont_repeat()
        words = shlex.split(text)
        if not 1 <= len(words) <= 3:
            raise gdb.GdbError("heapledger-rtt FILE [FUNCTION [ADDRESS]]")
        if self.out is not None:
            raise gdb.GdbError("a ring is being emptied already: heapledger-rtt-end ends that")
        function = words[1] if len(words) > 1 else FULL
        self.at = int(gdb.parse_and_eval(words[2])) if len(words) > 2 else None
        if not has_symbol(function):
            raise gdb.GdbError("the program has no %s" % function)
        self.total = 0
        self.name = words[0]
        try:
            # A pipe is opened once: its reader takes the end of that for the end of all.
            self.out = os.open(self.name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise gdb.GdbError("%s: %s" % (self.name, error.strerror))
        self.full = Full(function, self)
        gdb.events.stop.connect(self.stopped)
        gdb.events.exited.connect(self.ends)

    def stopped(self, event):
        self.take()

    def ends(self, event=None):
        if self.out is None:
            return
        gdb.events.stop.disconnect(self.stopped)
        gdb.events.exited.disconnect(self.ends)
        os.close(self.out)
        self.out = None
        self.full.delete()
        gdb.write("%d bytes of the ring are in %s\n" % (self.total, self.name))

    def take(self):
        try:
            self.take_all()
        except (gdb.error, OSError) as error:
            gdb.write("the ring is not emptied: %s\n" % error)

    def take_all(self):
        if self.at is None:
            self.at = found()
        if self.at is None:
            return
        memory = gdb.selected_inferior()
        # Whatever the language of the program.
        word = gdb.parse_and_eval("$sp").type.sizeof
        order = "big" if "big" in gdb.execute("show endian", to_string=True) else "little"
        number = lambda at: int.from_bytes(bytes(memory.read_memory(at, word)), order)
        if bytes(memory.read_memory(self.at, len(ID))) != ID:
            # It is not begun yet, or the device has started anew.
            return
        channels = number(self.at + len(ID))
        channel = self.at + len(ID) + 2 * word
        for which in range(min(channels, 16)):
            name = number(channel + which * 6 * word)
            if name and bytes(memory.read_memory(name, 11)) == b"heapledger\0":
                channel += which * 6 * word
                break
        buffer, size, written, read = (number(channel + place * word) for place in (1, 2, 3, 4))
        if not (0 < size <= 1 << 24 and written < size and read < size):
            gdb.write("the ring at %#x is damaged: %d bytes, written up to %d, read up to %d\n" % (self.at, size, written, read))
            return
        parts = [(read, written)] if read <= written else [(read, size), (0, written)]
        for begin, end in parts:
            if begin < end:
                data = bytes(memory.read_memory(buffer + begin, end - begin))
                self.total += len(data)
                while data:
                    data = data[os.write(self.out, data):]
        memory.write_memory(channel + 4 * word, written.to_bytes(word, order))

class HeapledgerRttEnd(gdb.Command):
    """Take what is in the ring, and empty it no longer."""

    def __init__(self):
        super().__init__("heapledger-rtt-end", gdb.COMMAND_DATA)

    def invoke(self, text, from_tty):
        self.dont_repeat()
        if RTT.out is None:
            raise gdb.GdbError("no ring is being emptied")
        RTT.take()
        RTT.ends()

class Full(gdb.Breakpoint):
    def __init__(self, name, rtt):
        super().__init__(name, internal=True)
        self.silent = True
        self.rtt = rtt

    def stop(self):
        self.rtt.take()
        return False

def has_symbol(name):
    try:
        # Whatever the language of the program.
        return " at " in gdb.execute("info address %s" % name, to_string=True)
    except gdb.error:
        return False

def found():
    """Where the program has a ring in its memory, if it has begun one."""
    sections = re.findall(r"(0x[0-9a-f]+) - (0x[0-9a-f]+) is (\S+)", gdb.execute("info files", to_string=True))
    for begin, end, name in sections:
        begin, end = int(begin, 16), int(end, 16)
        if name.startswith((".text", ".rodata", ".vector", ".ARM")) or begin == end:
            continue
        try:
            at = gdb.selected_inferior().search_memory(begin, end - begin, ID)
        except gdb.MemoryError:
            continue
        if at is not None:
            return at
    return None

RTT = HeapledgerRtt()
HeapledgerRttEnd()
end

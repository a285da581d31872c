# Receives what firmware sends of its heap, from where a window starts to where it stops (heapledger::chip::Sending, Mark::Starts and
# Mark::Stops): gdb stops there for a moment, starts `heapledger receive`, and ends it again. Each window has a ledger of its own.
#
#     source heapledger-receive.gdb
#     heapledger-receive tcp://localhost:4444 window.hl
#     continue
#
# The command heapledger is looked for in PATH. It needs a gdb with Python.

python
import gdb, shlex, signal, subprocess, time

class HeapledgerReceive(gdb.Command):
    """Receive a window's events: heapledger-receive SOURCE [FILE], as for the command `heapledger receive`."""

    def __init__(self):
        super().__init__("heapledger-receive", gdb.COMMAND_DATA)
        self.process = None
        self.words = None

    def invoke(self, text, from_tty):
        words = shlex.split(text)
        if not 1 <= len(words) <= 2:
            raise gdb.GdbError("heapledger-receive SOURCE [FILE]")
        for name in ("heapledger_window_starts", "heapledger_window_stops"):
            if not has_symbol(name):
                raise gdb.GdbError("the program has no %s: it sends no windows" % name)
        self.words = words
        if self.process is None:
            Window("heapledger_window_starts", self.start)
            Window("heapledger_window_stops", self.stop)

    def start(self):
        if self.process is not None:
            return
        command = ["heapledger", "receive", self.words[0]] + (["-o", self.words[1]] if len(self.words) == 2 else [])
        try:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        except OSError as error:
            gdb.write("heapledger cannot be started: %s\n" % error)
            return
        # It says so when it is connected: before that nothing may be sent.
        said = self.process.stderr.readline()
        gdb.write(said)
        if "receiving from" not in said:
            self.process.wait()
            self.process = None

    def stop(self):
        if self.process is None:
            return
        # What is on its way shall come.
        time.sleep(0.5)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        out, errors = self.process.communicate()
        gdb.write(out + errors)
        self.process = None

class Window(gdb.Breakpoint):
    def __init__(self, name, work):
        super().__init__(name, internal=True)
        self.work = work

    def stop(self):
        self.work()
        return False

def has_symbol(name):
    try:
        # Whatever the language of the program.
        return " at " in gdb.execute("info address %s" % name, to_string=True)
    except gdb.error:
        return False

HeapledgerReceive()
end

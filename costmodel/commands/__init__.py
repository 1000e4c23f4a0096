"""The commands of the command line."""

import signal
import threading

# Until main() takes over, Ctrl-C ends the program without a traceback from the middle of an import.
if (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, signal.SIG_DFL)

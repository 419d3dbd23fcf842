"""Long calls: progress, cancellation, Ctrl-C, threads."""

import os
import signal
import tempfile
import threading
import time
import unittest

import ccllab

FOUR = "servers:2 gpus:2 nvswitch=100GB/s,1us nics:1x25GB/s,2us"


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.four = ccllab.topology(FOUR)

    def compare(self, progress=None, **more):
        return ccllab.compare(self.four, "allgather", "1K:64M", ["nccl", "ring", "hm"], progress=progress, **more)

    def test_progress_comes_to_its_end(self):
        seen = []
        self.compare(seen.append, threads=2)
        self.assertTrue(all(isinstance(at, ccllab.Progress) for at in seen))
        self.assertEqual(seen[-1].done, seen[-1].total)
        self.assertGreater(len(seen), 3)

    def test_what_was_finished_is_kept(self):
        cancel = ccllab.Cancel()
        with self.assertRaises(ccllab.Cancelled) as raised:
            self.compare(lambda at: cancel.cancel() if at.done > 8 else None, cancel=cancel, threads=1)
        partial = raised.exception.partial
        self.assertTrue(partial.interrupted)
        states = {row["status"] for row in partial}
        self.assertEqual(states, {"ok", "interrupted"})
        self.assertEqual((raised.exception.kind, raised.exception.exit_code), ("cancelled", 130))

    def test_a_call_that_is_cancelled_before_does_not_begin(self):
        cancel = ccllab.Cancel()
        cancel.cancel()
        program = ccllab.synthesize(self.four, "allgather", "ring").lower(self.four, "1M")
        with self.assertRaises(ccllab.Cancelled):
            self.compare(cancel=cancel)
        with self.assertRaises(ccllab.Cancelled):
            ccllab.synthesize(self.four, "allgather", "cegis", "1M", cancel=cancel)
        self.assertGreater(ccllab.simulate(self.four, program, "1M").time_s, 0)

    def test_ctrl_c(self):
        """A signal during the call: it ends, KeyboardInterrupt has what was finished."""

        cancel = ccllab.Cancel()

        def interrupt(at):
            if at.done == 9:
                os.kill(os.getpid(), signal.SIGINT)
                while not cancel.cancelled:  # the main thread does so
                    time.sleep(0.001)

        # A suite in the background is started with the signal ignored: this would wait without an end.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        with self.assertRaises(KeyboardInterrupt) as raised:
            self.compare(interrupt, threads=1, cancel=cancel)
        self.assertTrue(raised.exception.partial.interrupted)
        self.assertFalse(cancel.cancelled)  # it may be given to the next call

    def test_what_the_progress_function_raises(self):
        def wrong(at):
            raise KeyError("mine")

        for here in (False, True):
            with self.subTest(here), self.assertRaises(KeyError) as raised:
                if here:  # in a thread that is not the main one, the call is made there
                    self.in_thread(lambda: self.compare(wrong))
                else:
                    self.compare(wrong)
            self.assertTrue(raised.exception.partial.interrupted)

    def in_thread(self, function):
        out = []

        def work():
            try:
                out.append((function(), None))
            except BaseException as error:
                out.append((None, error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if out[0][1] is not None:
            raise out[0][1]
        return out[0][0]

    def test_several_threads_get_the_same(self):
        alone = self.compare(threads=1).to_dict()
        found = []
        threads = [threading.Thread(target=lambda: found.append(self.compare(threads=2).to_dict())) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [alone] * 3)

    def test_a_notebook_keeps_points(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "lab.db")
            cancel = ccllab.Cancel()
            with self.assertRaises(ccllab.Cancelled):
                self.compare(lambda at: cancel.cancel() if at.done > 8 else None, cancel=cancel, notebook=path)
            whole = self.compare(notebook=path)
            self.assertEqual([row["time_s"] for row in self.compare(notebook=path)], [r["time_s"] for r in whole])

    def test_threads_and_seed(self):
        for wrong in ({"threads": -1}, {"seed": -1}, {"seed": 1 << 64}):
            with self.subTest(wrong), self.assertRaises(ccllab.UsageError):
                self.compare(**wrong)


if __name__ == "__main__":
    unittest.main()

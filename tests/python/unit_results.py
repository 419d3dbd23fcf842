"""What results are: columns, rows, pictures, errors with their places."""

import os
import re
import subprocess
import tempfile
import unittest
from unittest import mock

import ccllab
from ccllab import _arrays

PAIR = "servers:1 gpus:2 nvswitch=100GB/s,1us"
FOUR = "servers:2 gpus:2 nvswitch=100GB/s,1us nics:1x25GB/s,2us"
DATA = os.path.join(os.environ["CCLLAB_SOURCE"], "tests", "cli", "data")


def raised(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except ccllab.CcllabError as error:
        return error
    raise AssertionError("it was taken")


class Results(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pair, cls.four = ccllab.topology(PAIR), ccllab.topology(FOUR)
        cls.schedule = ccllab.synthesize(cls.four, "allgather", "ring", "1M")
        cls.program = cls.schedule.lower(cls.four, "1M")
        cls.run_ = ccllab.simulate(cls.four, cls.program, "1M")

    def test_a_time_by_hand(self):
        """One transfer each way: half of the message over the two links to the switch and from it."""
        program = ccllab.synthesize(self.pair, "allgather", "direct", channels=1).lower(self.pair, "256M", batches=1)
        run = ccllab.simulate(self.pair, program, 1 << 28, batches=1)
        self.assertAlmostEqual(run.time_s / ((1 << 27) / 100e9 + 2e-6), 1, places=2)
        self.assertAlmostEqual(run.algbw_GBps, (1 << 28) / run.time_s / 1e9)
        self.assertAlmostEqual(run.busbw_GBps, run.algbw_GBps / 2)

    def test_topologies(self):
        self.assertEqual((self.four.nranks, self.four.profile), (4, None))
        self.assertEqual(self.four.devices["rank"].count(-1), self.four.ndevices - 4)
        links = self.four.links
        self.assertEqual({len(column) for column in links.values()}, {self.four.nlinks})
        self.assertIn(25e9, list(links["bandwidth_Bps"]))
        half = self.four.edit("degrade:nic:0=50%")
        self.assertEqual(min(half.links["bandwidth_Bps"]), 12.5e9)
        self.assertEqual(min(self.four.links["bandwidth_Bps"]), 25e9)
        self.assertEqual(self.four.edit("fail:gpu:3").nranks, 3)
        again = ccllab.topology_text(self.four.to_json())
        self.assertEqual(again.to_json(), self.four.to_json())
        self.assertEqual(ccllab.topology("dgx-h100").profile, "nccl-h100")
        self.assertIsNone(ccllab.topology("dgx-h100", profile="none").profile)
        self.assertIn("dgx-h100", [entry["name"] for entry in ccllab.library()])
        self.assertEqual(self.four.summary()["schema"], "ccllab/topology-summary/1")

    def test_schedules_and_programs(self):
        transfers = self.schedule.transfers
        self.assertEqual({len(column) for column in transfers.values()}, {self.schedule.ntransfers})
        self.assertEqual(set(transfers["src"]), {0, 1, 2, 3})
        self.assertEqual(len(self.program.thread_blocks["rank"]), self.program.nthread_blocks)
        self.assertEqual(len(self.program.steps["type"]), self.program.nsteps)
        self.assertLessEqual(set(self.program.steps["type"]), {"s", "r", "rcs", "cpy", "nop"})
        with tempfile.TemporaryDirectory() as folder:
            for of, name in ((self.schedule, "ring.json"), (self.program, "ring.xml")):
                of.save(os.path.join(folder, name))
                self.assertEqual(type(ccllab.read(os.path.join(folder, name))), type(of))
            back = ccllab.read(os.path.join(folder, "ring.xml"))
        self.assertEqual(ccllab.simulate(self.four, back, "1M").time_s, self.run_.time_s)
        self.assertIn('"gpus"', self.program.to_mscclpp(self.four))

    def test_options_are_those_of_the_tables(self):
        task = self.schedule.lower(self.four, "1M", order="hpds", allocate="state", granularity="task", proto="LL")
        self.assertEqual((task.granularity, task.proto), ("task", "LL"))
        self.assertEqual(ccllab.simulate(self.four, task, "1M").granularity, "task")
        self.assertEqual(ccllab.synthesize(self.four, "allgather", "ring", channels=2).nchannels, 2)
        hpds = ccllab.synthesize(self.four, "allgather", "hpds", "1M").lower(self.four, "1M")
        self.assertEqual(hpds.granularity, "task")  # the synthesizer's way
        ccllab.synthesize(self.four, "allgather", "cegis", "1M", effort=0, time_limit=60, capacity="ceiling")

    def test_plugins_have_options(self):
        source = os.environ["CCLLAB_SOURCE"]
        with tempfile.TemporaryDirectory() as folder:
            plugin = os.path.join(folder, "biring.so")
            build = [os.environ["CCLLAB_CC"], "-std=c11", "-shared", "-fPIC", "-I", source, "-o", plugin]
            subprocess.run(build + [os.path.join(source, "examples", "biring.c")], check=True)
            ccllab.load_plugin(plugin)
        cluster = ccllab.topology("servers:1 gpus:4 nvswitch=300GB/s,1us")
        self.assertIn("biring", [entry["name"] for entry in ccllab.synthesizers()])
        steps = [ccllab.synthesize(cluster, "allgather", "biring", biring_right=n).nsteps for n in (None, 1, 3)]
        self.assertEqual(steps, [2, 2, 3])
        with self.assertRaisesRegex(ccllab.UsageError, "biring-right wants a whole number from 1 "):
            ccllab.synthesize(cluster, "allgather", "biring", biring_right=0)

    def test_a_former_schedule_is_an_option(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "demand.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"format": "ccllab-demand-1", "alltoallv": [[0,9,5,4],[1,0,2,1],[7,3,0,2],[1,2,3,0]]}')
            demand = ccllab.Demand(path)
        former = ccllab.synthesize(self.four, demand, "alltoallv")
        again = ccllab.synthesize(self.four, demand, "alltoallv", warm=former)
        self.assertEqual(list(again.transfers["dst"]), list(former.transfers["dst"]))
        self.assertIn("ways of the former schedule", again.origin)
        for other in ("plan.json", demand):
            with self.assertRaises(ccllab.UsageError):
                ccllab.synthesize(self.four, demand, "alltoallv", warm=other)

    def test_a_comparison_is_a_table(self):
        table = ccllab.compare(self.four, "allgather", "64K,1M", ["nccl", "ring"], {"mine": self.program}, threads=1)
        self.assertEqual(len(table), 6)
        self.assertEqual({row["name"] for row in table}, {"nccl", "ring", "mine"})
        self.assertEqual([len(table.winners), table[0]["size_bytes"]], [2, 65536])
        self.assertEqual({len(column) for column in table.columns.values()}, {6})
        mine = [row for row in table if row["name"] == "mine" and row["size_bytes"] == 1 << 20]
        self.assertEqual(mine[0]["time_s"], self.run_.time_s)
        gap = ccllab.compare(self.four, "allgather", "64M", ["ring", "packing"], gap=1.0)  # within twice the bound
        self.assertEqual([row["name"] for row in gap], ["ring"])
        only = ccllab.compare(self.four, "allgather", 1 << 20, [], [self.program])
        self.assertEqual([row["name"] for row in only], ["ring"])
        wanted = {"topology", "collective", "size_bytes", "bound_s", "winner", "time_s", "busbw_GBps", "gap"}
        self.assertLessEqual(wanted, set(table.columns))

    def test_columns_without_numpy(self):
        with mock.patch.object(_arrays, "numpy", lambda: None):
            links = self.run_.links
            self.assertEqual(links["bytes"].typecode, "d")
            blocks = self.run_.thread_blocks
        self.assertEqual(list(links["bytes"]), list(self.run_.links["bytes"]))
        self.assertEqual(list(blocks["id"]), list(self.run_.thread_blocks["id"]))

    def test_columns_with_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy")
        for column in (self.run_.links["bytes"], self.run_.thread_blocks["busy_s"], self.schedule.transfers["src"]):
            self.assertIsInstance(column, numpy.ndarray)
        self.assertEqual(self.run_.links["bytes"].dtype, numpy.float64)
        table = ccllab.compare(self.four, "allgather", "64K,1M", ["ring"])
        self.assertEqual(table.columns["time_s"].dtype, numpy.float64)

    def test_pictures(self):
        for html in (self.run_._repr_html_(), self.four._repr_html_(), self.run_.draw()._repr_html_()):
            self.assertRegex(html, "(?s)<svg .*</svg>")
        table = ccllab.compare(self.four, "allgather", "64K,1M", ["ring"])
        self.assertIn("<th>busbw (GB/s)</th>", table._repr_html_())
        self.assertIn("<svg", table._repr_html_())
        for rows in ("block", "gpu", "link", "phase"):
            self.assertIn("<svg", self.run_.timeline(rows).svg())
        for page in (table.page(), self.run_.page()):
            self.assertTrue(page.startswith("<!DOCTYPE html>") or page.startswith("<!doctype html>"))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.svg")
            self.run_.timeline(title="a title").save(path)
            with open(path, encoding="utf-8") as file:
                self.assertIn("a title", file.read())
            self.assertEqual(raised(self.run_.timeline().save, os.path.join(folder, "t.gif")).kind, "usage")

    def test_version(self):
        with open(os.path.join(os.environ["CCLLAB_SOURCE"], "base", "base.h"), encoding="utf-8") as file:
            self.assertEqual(re.search(r'CCL_VERSION "(.*?)"', file.read())[1], ccllab.__version__)


class Errors(unittest.TestCase):
    def test_a_place_in_a_file(self):
        path = os.path.join(DATA, "malformed.xml")
        error = raised(ccllab.read, path)
        self.assertIsInstance(error, ccllab.InputError)
        self.assertEqual((error.kind, error.file, error.line, error.column), ("input", path, 6, 5))
        self.assertEqual((str(error), error.exit_code), (f"{path}:6:5: {error.text}", 2))
        with open(path, encoding="utf-8") as file:
            error = raised(ccllab.read_text, file.read(), "mine.xml")
        self.assertEqual((error.file, error.line, error.column), ("mine.xml", 6, 5))
        error = raised(ccllab.topology_text, '{"name": 1}', "c.json")
        self.assertEqual((error.file, error.line), ("c.json", 1))
        self.assertEqual(raised(ccllab.read_text, " \n").kind, "input")

    def test_kinds(self):
        pair = ccllab.topology(PAIR)
        cases = [
            ("input", lambda: ccllab.topology("no-such-cluster")),
            ("input", lambda: pair.edit("fail:gpu:7")),
            ("file", lambda: ccllab.read("/no/such/file")),
            ("file", lambda: ccllab.Demand("/no/such/file")),
            ("usage", lambda: ccllab.synthesize(pair, "allgather", "rnig")),
            ("usage", lambda: ccllab.synthesize(pair, "allgather", "ring", chanels=2)),
            ("usage", lambda: ccllab.synthesize(pair, "allgather", "ring", channels="two")),
            ("usage", lambda: ccllab.synthesize(pair, "allgather", "ring", root=1)),
            ("usage", lambda: ccllab.synthesize(pair, "broadcast", "ring", root=2)),
            ("usage", lambda: ccllab.compare(pair, "allgather", "1M:1K")),
            ("usage", lambda: ccllab.compare(pair, "allgather", 0)),
            ("usage", lambda: ccllab.compare(pair, "allgather", "1M", [])),
            ("unsupported", lambda: ccllab.synthesize(pair, "allgather", "tree")),
            ("usage", lambda: ccllab.synthesize(pair, "allgather\0", "ring")),
        ]
        for kind, function in cases:
            with self.subTest(kind):
                self.assertEqual(raised(function).kind, kind)
        self.assertIn('did you mean "ring"', raised(ccllab.synthesize, pair, "allgather", "rnig").text)
        self.assertIn('did you mean "channels"', raised(ccllab.synthesize, pair, "allgather", "ring", chanels=2).text)
        none = raised(ccllab.compare, pair, "allgather", "1M", ["tree"])
        self.assertEqual((none.kind, none.exit_code), ("infeasible", 1))
        self.assertIn("AllReduce", none.partial.contenders[0]["why_not"])

    def test_other_ranks(self):
        pair, four = ccllab.topology(PAIR), ccllab.topology(FOUR)
        schedule = ccllab.synthesize(pair, "allgather", "ring", "1M")
        program = schedule.lower(pair, "1M")
        for function in (schedule.lower, lambda t, s: ccllab.simulate(t, program, s)):
            self.assertIn("has 4 GPUs", raised(function, four, "1M").text)

    def test_wrong_programs(self):
        pair = ccllab.topology(PAIR)
        wrong = ccllab.read(os.path.join(DATA, "missing_2.xml"))
        verdict = wrong.verify()
        self.assertFalse(verdict)
        self.assertEqual((verdict.fault.kind, verdict.fault.rank, verdict.fault.chunk), ("missing", 1, 1))
        self.assertIsNone(verdict.fault.thread_block)
        self.assertEqual(raised(ccllab.simulate, pair, wrong, "1M").kind, "wrong")
        self.assertGreater(ccllab.simulate(pair, wrong, "1M", verify=False).time_s, 0)
        stuck = raised(ccllab.simulate, pair, ccllab.read(os.path.join(DATA, "deadlock_2.xml")), "1M", verify=False)
        self.assertIsInstance(stuck, ccllab.DeadlockError)
        self.assertGreater(stuck.deadlock["cycle_length"], 0)

    def test_warnings_go_to_logging(self):
        cluster = ccllab.topology(FOUR, ["set:tb_rate:net=1GB/s"])
        program = ccllab.synthesize(cluster, "allgather", "ring").lower(cluster, "1M")
        with self.assertLogs("ccllab", "WARNING") as logs:
            ccllab.simulate(cluster, program, "1M")
        self.assertIn("stored and forwarded", logs.output[0])
        table = ccllab.compare(cluster, "allgather", "1M", ["ring"])
        self.assertIn("stored and forwarded", table.warnings[0])


if __name__ == "__main__":
    unittest.main()

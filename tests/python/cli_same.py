"""The package gives what the program gives: every number of its JSON, for the same question."""

import json
import os
import subprocess
import tempfile
import unittest

import ccllab

CLUSTER = "heteccl-h20-4+8"


def program(*arguments):
    environment = dict(os.environ)
    environment.pop("LD_PRELOAD", None)
    done = subprocess.run(
        [os.environ["CCLLAB_BIN"], *arguments, "--json"], capture_output=True, text=True, env=environment
    )
    return json.loads(done.stdout)


class Same(unittest.TestCase):
    maxDiff = None

    def test_compare(self):
        edits = ["degrade:nic:0=50%", "scale:latency:net=2"]
        made = ccllab.compare(ccllab.topology(CLUSTER, edits), "allgather", "64K:64M:32", ["nccl", "ring", "hm"])
        said = program(
            "compare", "-t", CLUSTER, "-c", "allgather", "--sizes", "64K:64M:32", "--with", "nccl,ring,hm",
            "--degrade", "nic:0=50%", "--scale", "latency:net=2",
        )  # fmt: skip
        self.assertEqual(made.to_dict(), said)

    def test_compare_with_the_profile_of_its_gpus(self):
        made = ccllab.compare(ccllab.topology("dgx-h100"), "broadcast", ["1M"], root=3)
        said = program("compare", "-t", "dgx-h100", "-c", "broadcast", "--root", "3", "--sizes", "1M")
        self.assertEqual(made.profile, "nccl-h100")
        self.assertEqual(made.to_dict(), said)
        # Here NCCL chooses by the cluster without the profile, and would choose otherwise with it.
        made = ccllab.compare(ccllab.topology("dgx-a100*2"), "allreduce", ["8M", "128M"], "nccl")
        said = program("compare", "-t", "dgx-a100*2", "-c", "allreduce", "--sizes", "8M,128M", "--with", "nccl")
        self.assertEqual(made.to_dict(), said)

    def test_simulate_and_verify(self):
        cluster = ccllab.topology(CLUSTER)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "hm.xml")
            program("synth", "-t", CLUSTER, "-c", "allreduce", "-w", "hm", "--size", "1M", "-o", path)
            read = ccllab.read(path)
            schedule = ccllab.synthesize(cluster, "allreduce", "hm", "1M")
            self.assertEqual(schedule.lower(cluster, "1M").to_xml(), read.to_xml())
            for options, words in (({}, []), ({"granularity": "task", "batches": 3}, ["-g", "task", "-b", "3"])):
                run = ccllab.simulate(cluster, read, "1M", **options)
                said = program("simulate", "-t", CLUSTER, path, "--size", "1M", *words)
                self.assertEqual({**run.to_dict(), "input": path}, said)
                self.assertEqual(run.time_s, said["time_s"])
                self.assertEqual(run.events, said["events"])
                used = [(a, b, n) for a, b, n in zip(*(run.links[k] for k in ("from", "to", "bytes"))) if n > 0]
                self.assertEqual(used, [(k["from"], k["to"], k["bytes"]) for k in said["links"] if k["bytes"] > 0])
            verdict, said = read.verify(), program("verify", path)
            self.assertTrue(verdict)
            self.assertEqual([verdict.collective, verdict.origin], [said["collective"], said["origin"]])

    def test_bound(self):
        of = program("bound", "-t", CLUSTER, "-c", "allreduce", "--size", "1G")["bounds"][0]
        made = ccllab.bound(ccllab.topology(CLUSTER), "allreduce", "1G")
        for name in ("time_s", "latency_s", "bandwidth_s", "busbw_GBps", "proof", "tight", "parts", "links"):
            self.assertEqual(getattr(made, name), of[name], name)

    def test_names_of_fields_are_those_of_the_schemas(self):
        """Every key of a result that the package has as an attribute or column is described by the library."""
        described = ccllab.schema("simulate")["properties"]
        of_ours = {"program", "_of"}
        self.assertEqual(set(ccllab.Run.__dataclass_fields__) - of_ours - set(described), set())
        self.assertEqual(described["schema"]["enum"], ["ccllab/simulate/1"])
        bounds = ccllab.schema("bound")["properties"]
        each = bounds["bounds"]["items"]["properties"]
        self.assertEqual(set(ccllab.Bound.__dataclass_fields__) - set(bounds) - set(each), set())


if __name__ == "__main__":
    unittest.main()

"""`pip install` of the package without a network, and CMake's installation: what is there, and that it is whole."""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.join(os.environ["CCLLAB_SOURCE"], "python")


def ccllab_files(folder):
    return sorted(os.path.basename(path) for path in glob.glob(os.path.join(folder, "ccllab", "*.*")))


class Package(unittest.TestCase):
    def setUp(self):
        environment = {"PYTHONPATH": "", "LD_PRELOAD": "", "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        self.environment = {**os.environ, **environment}
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def test_pip(self):
        for module in ("pip", "setuptools", "wheel"):
            if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode:
                self.skipTest(f"no {module}")
        copy = os.path.join(self.folder, "source")  # setuptools builds in place
        shutil.copytree(SOURCE, copy)
        target = os.path.join(self.folder, "target")
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-cache-dir"]
        done = subprocess.run(
            [*pip, "--no-compile", "--root-user-action=ignore", "--target", target, copy],
            capture_output=True,
            text=True,
            env=self.environment,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(ccllab_files(target), ccllab_files(SOURCE))
        self.assertIn("py.typed", ccllab_files(target))
        version = "import ccllab, importlib.metadata as m; print(m.version('ccllab'), ccllab.__version__)"
        said = subprocess.run(
            [sys.executable, "-c", version],
            capture_output=True,
            text=True,
            env={**self.environment, "PYTHONPATH": target},
        )
        self.assertEqual(len(set(said.stdout.split())), 1, said.stdout + said.stderr)

    def test_without_a_library_it_says_what_to_do(self):
        code = "import ccllab\ntry: ccllab.library()\nexcept ccllab.MissingError as e: print(e.exit_code, e)"
        environment = {**self.environment, "CCLLAB_LIBRARY": "/no/such/library.so", "PYTHONPATH": SOURCE}
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        self.assertRegex(said.stdout, "^4 cannot load libccllab.so.*CCLLAB_LIBRARY")

    def test_importing_loads_little(self):
        """numpy, pandas and the library itself come when they are used."""
        code = (
            "import sys, ccllab\n"
            "print([m for m in ('numpy', 'pandas', 'logging', 'json', 'asyncio') if m in sys.modules])\n"
            "print('libccllab' in open('/proc/self/maps').read())"
        )
        environment = {**self.environment, "PYTHONPATH": SOURCE}
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        self.assertEqual(said.stdout.splitlines()[1:], ["False"], said.stdout + said.stderr)
        self.assertNotIn("numpy", said.stdout)


if __name__ == "__main__":
    unittest.main()

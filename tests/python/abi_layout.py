"""Structs, defaults, enumerators and prototypes are those of the C headers, and the checker sees where they are not."""

import ctypes
import unittest
from unittest import mock

import layout
from ccllab import _structs as c


def altered(kind, change):
    """The struct with its members changed."""
    fields = change([(name, member) for name, member in kind._fields_])
    more = {name: getattr(kind, name) for name in ("C_NAME", "WHOLE", "INIT", "DEFAULTS")}
    return type(kind.__name__, (ctypes.Structure,), {"_fields_": fields, **more})


class Layout(unittest.TestCase):
    def test_all_is_as_the_headers_have_it(self):
        self.assertEqual(layout.differences(c.STRUCTS), [])
        self.assertGreater(len(c.STRUCTS), 35)

    def test_two_members_that_change_places_are_seen(self):
        self.assertNotEqual(layout.differences([altered(c.TbUse, lambda f: [f[1], f[0], *f[2:]])]), [])

    def test_a_member_that_is_missing_is_seen(self):
        self.assertNotEqual(layout.differences([altered(c.SimOptions, lambda f: f[:3] + f[4:])]), [])
        self.assertNotEqual(layout.differences([altered(c.Way, lambda f: f[:2])]), [])

    def test_a_number_of_another_kind_is_seen(self):
        wrong = altered(c.LinkUse, lambda f: [(f[0][0], ctypes.c_uint64), f[1]])
        self.assertNotEqual(layout.differences([wrong]), [])

    def test_another_default_is_seen(self):
        with mock.patch.dict(c.SynthOptions.DEFAULTS, {"effort": 2}):
            self.assertNotEqual(layout.differences([c.SynthOptions]), [])

    def test_another_prototype_is_seen(self):
        other = layout.PROTOTYPES.replace("uint32_t width_px", "uint64_t width_px")
        self.assertNotEqual(other, layout.PROTOTYPES)
        with mock.patch.object(layout, "PROTOTYPES", other), self.assertRaises(AssertionError):
            layout.differences([])

    def test_an_enumerator_of_another_value_is_seen(self):
        with mock.patch.object(c, "ENUMS", [c.STATUSES[1:]]):
            self.assertNotEqual(layout.differences([]), [])


if __name__ == "__main__":
    unittest.main()

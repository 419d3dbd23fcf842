"""What a C compiler says of the structs, enumerators and prototypes that the package declares."""

import ctypes
import os
import subprocess
import tempfile

from ccllab import _structs as c
from ccllab._prototypes import PROTOTYPES

INTEGER, POINTER, REAL, STRUCT = 1, 5, 8, 12  # of __builtin_classify_type()
TEXT = ctypes.c_char_p


def kind_of(member):
    if issubclass(member, ctypes.Structure):
        return STRUCT
    if issubclass(member, ctypes.Array) or issubclass(member, ctypes._Pointer) or member in (TEXT, ctypes.c_void_p):
        return POINTER
    return REAL if member is ctypes.c_double else INTEGER


def leaves(kind, value, path=""):
    """(path, type, value) of all members that are no structs."""
    for name, member in kind._fields_:
        inner = getattr(value, name)
        where = path + name.rstrip("_")
        if issubclass(member, ctypes.Structure):
            yield from leaves(member, inner, where + ".")
        elif issubclass(member, ctypes.Array) and member._type_ is ctypes.c_double:
            yield from ((f"{where}[{i}]", ctypes.c_double, inner[i]) for i in range(len(inner)))
        else:
            yield where, member, inner


def declared(structs):
    """Lines that the program below should print."""
    lines = [f"{name} {value}" for name, value in c.CONSTANTS.items()]
    lines += [f"{name} {place}" for enum in c.ENUMS for place, name in enumerate(enum)]
    for kind in structs:
        if kind.WHOLE:
            lines.append(f"{kind.C_NAME} {ctypes.sizeof(kind)}")
        for name, member in kind._fields_:
            field = getattr(kind, name)
            what = f"{field.offset} {field.size} {kind_of(member)}"
            lines.append(f"{kind.C_NAME}.{name.rstrip('_')} {what}")
        if kind.INIT:
            for where, member, value in leaves(kind, c.fresh(kind)):
                if member is TEXT:
                    value = (value or b"").decode()
                elif kind_of(member) == POINTER:
                    value = int(bool(value))
                lines.append(f"{kind.INIT}.{where} {float(value).hex() if member is ctypes.c_double else value}")
    return [line.replace("True", "1").replace("False", "0") for line in lines]


def program(structs):
    out = ["#include <stdio.h>", '#include "report/report.h"', '#include "validate/nccl/nccl.h"', PROTOTYPES]
    out.append("int main(void) {")
    for name in list(c.CONSTANTS) + [name for enum in c.ENUMS for name in enum]:
        out.append(f'printf("{name} %llu\\n", (unsigned long long)({name}));')
    for kind in structs:
        of = kind.C_NAME
        if kind.WHOLE:
            out.append(f'printf("{of} %zu\\n", sizeof({of}));')
        for name, _ in kind._fields_:
            member = name.rstrip("_")
            at = f"(({of} *)0)->{member}"
            out.append(
                f'printf("{of}.{member} %zu %zu %d\\n", offsetof({of}, {member}), sizeof({at}), '
                f"__builtin_classify_type({at}));"
            )
        if kind.INIT:
            out.append(f"{{ const {of} x = {kind.INIT};")
            for where, member, _ in leaves(kind, kind()):
                form, value = "%lld", f"(long long)x.{where}"
                if member is TEXT:
                    form, value = "%s", f'x.{where} ? x.{where} : ""'
                elif member is ctypes.c_double:
                    form, value = "%a", f"x.{where}"
                elif kind_of(member) == POINTER:
                    form, value = "%d", f"x.{where} != 0"
                out.append(f'printf("{kind.INIT}.{where} {form}\\n", {value});')
            out.append("}")
    return "\n".join(out + ["}", ""])


def compiled(text):
    """What a C program prints."""
    with tempfile.TemporaryDirectory() as folder:
        source, binary = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
        with open(source, "w") as file:
            file.write(text)
        cc = [os.environ["CCLLAB_CC"], "-std=gnu11", "-Wall", "-Werror", "-I", os.environ["CCLLAB_SOURCE"]]
        done = subprocess.run(cc + [source, "-o", binary], capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(done.stderr)
        return subprocess.run([binary], check=True, capture_output=True, text=True).stdout


def differences(structs):
    """Lines that differ, of the package and of the headers."""
    there = []
    for line in compiled(program(structs)).splitlines():
        name, value, *more = line.split(" ") if " " in line else (line, "")
        there.append(" ".join([name, float.fromhex(value).hex() if value.startswith("0x") else value, *more]))
    return [(a, b) for a, b in zip(declared(structs), there) if a != b] or (
        [] if len(there) == len(declared(structs)) else [("lengths", "differ")]
    )

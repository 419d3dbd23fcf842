"""The version of the package: that of the library it is made for (base/base.h; a test compares them)."""

VERSION = "0.2.0"

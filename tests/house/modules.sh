#!/bin/sh
# Installed device modules are found from the program's own place, and a moved tree keeps working.
# Usage: modules.sh CMAKE BUILD LIBDIR FAKE-MODULE MULTIARCH-PROGRAM BUILD-TYPE
set -eu
cmake=$1 build=$2 libdir=$3 module=$4 multiarch=$5 build_type=$6
unset CCL_DEVICE_PATH
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

found() { # program: the fake is its device cuda 0
    "$@" | grep -q '^cuda,0,true,.*fake'
}

# shellcheck disable=SC2086 # arguments are words
place() { # prefix, library folder: no other module is there
    mkdir -p "$1/$2/ccllab"
    rm -f "$1/$2"/ccllab/libccl_device_*.so
    found "$1/bin/$program" $arguments && { echo "$1: a device without its module"; exit 1; }
    cp "$module" "$1/$2/ccllab/"
    found "$1/bin/$program" $arguments || { echo "$1: the module in $2 is not found"; exit 1; }
}

# The tree as this build installs it, then moved.
program=ccllab arguments='devices --csv'
case $libdir in
/*) echo "the library folder $libdir is not in the prefix" ;;
*)
    "$cmake" --install "$build" --prefix "$temporary/first" --config "$build_type" >"$temporary/log" ||
        { cat "$temporary/log"; exit 1; }
    mv "$temporary/first" "$temporary/moved"
    place "$temporary/moved" "$libdir"
    ;;
esac

# The same code configured for another library folder.
program=$(basename "$multiarch") arguments=
mkdir -p "$temporary/multiarch/bin"
cp "$multiarch" "$temporary/multiarch/bin/"
place "$temporary/multiarch" lib/x86_64-linux-gnu
echo "installed modules are found"

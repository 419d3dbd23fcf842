#!/bin/sh
# Runs a test of the Python package. Usage: run.sh PYTHON FILE; the environment says which library (CMakeLists.txt).
set -eu
python=$1 file=$2
[ -x "$python" ] || { echo "no python3"; exit 77; }
case $CCLLAB_SANITIZERS in
none) ;;
*thread*) echo "the thread sanitizer wants a python3 that is built with it"; exit 77 ;;
*)
    # The runtime comes first; what the interpreter itself never frees is not looked at.
    runtime=$("$CCLLAB_CC" -print-file-name=libasan.so)
    [ -e "$runtime" ] || { echo "no libasan.so to load before python3"; exit 77; }
    export CCLLAB_PRELOAD="$runtime" ASAN_OPTIONS=exitcode=99:handle_sigill=1:detect_leaks=0
    ;;
esac
export PYTHONPATH="$CCLLAB_SOURCE/python:$CCLLAB_SOURCE/tests/python" PYTHONDONTWRITEBYTECODE=1
if [ -n "${CCLLAB_PRELOAD:-}" ]; then
    exec env LD_PRELOAD="$CCLLAB_PRELOAD" "$python" -W error "$file"
fi
exec "$python" -W error "$file"

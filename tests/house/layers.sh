#!/bin/sh
# A module includes public headers of modules below it and its own; outside libraries stay where they
# belong. A module's public headers are the one of its name and those of its folders that this one includes. An internal header that many modules share is named below. Usage: layers.sh SOURCE-FOLDER. The checker first proves that it can fail.
set -eu
root=$1
modules=$(sed -n 's/^set(CCL_MODULES \(.*\))$/\1/p' "$root/CMakeLists.txt")
[ -n "$modules" ] || { echo "no module list in CMakeLists.txt"; exit 1; }

check() { # folder with the modules; prints violations
    below= public=
    for module in $modules cli; do
        public="$public $module/$module.h"
        [ ! -f "$1/$module/$module.h" ] ||
            public="$public $(sed -n "s,^#include \"\($module/.*\)\"\$,\1,p" "$1/$module/$module.h" | tr '\n' ' ')"
    done
    for module in $modules cli; do
        below="$below $module"
        for folder in "$1/$module" "$1/tests/$module"; do
            [ -d "$folder" ] || continue
            find "$folder" -name '*.[ch]' | sort | xargs -r awk -v module="$module" -v below="$below" \
                -v public=" $public " -v modules="$modules cli" -v root="$1/" '
                BEGIN {
                    n = split(below, b, " "); for (i = 1; i <= n; i++) may[b[i]] = 1
                    n = split(modules, m, " "); for (i = 1; i <= n; i++) known[m[i]] = 1
                    owner["jansson.h"] = "base"
                    owner["expat.h"] = "topologies schedule"
                    owner["hwloc.h"] = "topologies"
                    owner["sqlite3.h"] = owner["libpq-fe.h"] = "search"
                    owner["pthread.h"] = "base runtime cli"
                    owner["cairo.h"] = owner["cairo-pdf.h"] = "draw"
                    owner["glpk.h"] = owner["z3.h"] = "synth"
                    owner["bliss/bliss_C.h"] = "graph"
                    owner["check.h"] = "tests"
                    # Tests that need something made by a module above theirs.
                    also["lower"] = also["runtime"] = also["draw"] = "synth"
                    also["training"] = "search"
                    # Internal headers that every module may include.
                    shared["base/json.h"] = shared["base/rng_inline.h"] = 1
                    # These may end their process: one file each calls them, in child processes.
                    only["glpk.h"] = "synth/solvers/solver_glpk.c"
                    only["z3.h"] = "synth/solvers/solver_z3.c"
                    only["hwloc.h"] = "topologies/here/here_tree.c"
                    only["bliss/bliss_C.h"] = "graph/bliss.c"
                }
                function bad(why) {
                    file = FILENAME; sub(root, "", file); print file ":" FNR ": " why; count++
                }
                /^[ \t]*#[ \t]*include/ {
                    match($0, /[<"][^>"]*[>"]/); name = substr($0, RSTART + 1, RLENGTH - 2)
                    test = index(FILENAME, root "tests/") == 1
                    if (name in owner && !(test && (name == "check.h" || name == "pthread.h" || name == "expat.h" || name == "jansson.h")) &&
                        index(" " owner[name] " ", " " module " ") == 0)
                        bad("<" name "> belongs to " owner[name])
                    else if (name in only && FILENAME != root only[name])
                        bad("<" name "> belongs to " only[name])
                    split(name, part, "/")
                    if (!(part[1] in known)) next
                    if (test && also[module] != "" && part[1] == also[module] && index(public, " " name " ")) next
                    if (!(part[1] in may)) bad("\"" name "\" is above " module)
                    else if (part[1] != module && !(name in shared) && !index(public, " " name " "))
                        bad("\"" name "\" is private to " part[1])
                }'
        done
    done
}

# The checker must see each kind of violation.
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
mkdir -p "$temporary/base" "$temporary/sim" "$temporary/lower" "$temporary/tests/base"
echo '#include "sim/sim.h"' >"$temporary/base/up.c"
echo '# include <base/clocale.h>' >"$temporary/sim/private.c"
echo '#include <expat.h>' >"$temporary/sim/outside.c"
echo '#include "sim/sim.h"' >"$temporary/tests/base/unit_up.c"
echo '#include <glpk.h>' >"$temporary/sim/solver.c"
echo '#include "base/base.h"' >"$temporary/sim/fine.c"
echo '#include "base/json.h"' >>"$temporary/sim/fine.c"
echo '#include "sim/private.h"' >>"$temporary/sim/fine.c"
echo '#include "sim/part/part.h"' >"$temporary/sim/sim.h"
printf '#include "sim/%s"\n' sim.h part/part.h >"$temporary/lower/fine.c"
echo '#include "sim/part/other.h"' >"$temporary/lower/private.c"
found=$(check "$temporary" | cut -d: -f1 | tr '\n' ' ')
want="base/up.c tests/base/unit_up.c sim/outside.c sim/private.c sim/solver.c lower/private.c "
[ "$found" = "$want" ] || { echo "the checker is blind: found '$found', not '$want'"; exit 1; }

violations=$(check "$root")
[ -z "$violations" ] || { echo "$violations"; exit 1; }
echo "layers hold: $modules cli"

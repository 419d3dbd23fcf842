#!/bin/sh
# What modules really use, from their objects: a symbol comes from the module itself or from one below it.
# Usage: links.sh NM SOURCE-FOLDER LIBRARY... (libccl_MODULE.a). The checker first proves that it can fail.
set -eu
nm=$1 root=$2
shift 2
modules=$(sed -n 's/^set(CCL_MODULES \(.*\))$/\1/p' "$root/CMakeLists.txt")
[ -n "$modules" ] || { echo "no module list in CMakeLists.txt"; exit 1; }
modules="$modules cli"
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

# A line each: MODULE d SYMBOL (defines), MODULE u SYMBOL (uses).
symbols() { # library...
    for library in "$@"; do
        module=$(basename "$library" .a)
        "$nm" "$library" 2>/dev/null | awk -v module="${module#libccl_}" '
            NF == 3 && $2 ~ /^[A-TV-Z]$/ && $3 ~ /^ccl_/ { print module, "d", $3 }
            $1 == "U" && $2 ~ /^ccl_/ { print module, "u", $2 }'
    done
}

# Beside the order: modules that do without others below them.
check() { # file of symbols, modules in order; prints violations
    awk -v modules="$2" '
        BEGIN {
            n = split(modules, m, " ")
            for (i = 1; i <= n; i++) level[m[i]] = i
            never["draw", "search"] = never["draw", "validate"] = never["training", "search"] = 1
            never["validate", "search"] = 1
        }
        $2 == "d" { of[$3] = $1; next }
        { user[++k] = $1; what[k] = $3 }
        END {
            for (i = 1; i <= k; i++) {
                from = of[what[i]]
                if (from == "" || from == user[i]) continue
                if (level[from] > level[user[i]])
                    print user[i] " uses " what[i] " of " from ", which is above it"
                else if ((user[i], from) in never)
                    print user[i] " uses " what[i] " of " from ": it is to do without"
            }
        }' "$1" | sort -u
}

# The checker must see each kind of violation.
printf '%s\n' 'low d ccl_low' 'high d ccl_high' 'low u ccl_high' 'high u ccl_low' 'high u ccl_other' \
    'draw u ccl_find' 'search d ccl_find' >"$temporary/made"
found=$(check "$temporary/made" "low high search draw" | cut -d' ' -f1-3 | tr '\n' ',')
want="draw uses ccl_find,low uses ccl_high,"
[ "$found" = "$want" ] || { echo "the checker is blind: found '$found', not '$want'"; exit 1; }

symbols "$@" >"$temporary/symbols"
for module in ${modules% cli}; do
    grep -q "^$module d " "$temporary/symbols" || { echo "$module defines nothing: which libraries are these?"; exit 1; }
done
violations=$(check "$temporary/symbols" "$modules")
[ -z "$violations" ] || { echo "$violations"; exit 1; }
echo "links hold: $modules"

# Sourced by tools/check and tools/quickstart: what the build needs, from the distribution.
# $ccl_more_packages: further ones. Nothing to do, and nothing said, when all of it is there; elsewhere than on Debian CMake will tell.
ccl_missing=
if command -v dpkg-query >/dev/null 2>&1; then
    for package in gcc g++ libc6-dev cmake ninja-build pkg-config libjansson-dev libexpat1-dev libz3-dev libglpk-dev libbliss-dev libsqlite3-dev libibverbs-dev libhwloc-dev libcairo2-dev fonts-dejavu-core check \
        libsubunit-dev iproute2 ${ccl_more_packages:-}; do
        # pkgconf stands in for pkg-config.
        dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q ' installed$' ||
            { [ "$package" = pkg-config ] && command -v pkg-config >/dev/null 2>&1; } ||
            ccl_missing="$ccl_missing $package"
    done
fi
if [ -n "$ccl_missing" ]; then
    if [ "$(id -u)" = 0 ]; then
        echo "installing$ccl_missing" >&2
        apt-get update -qq >&2
        # shellcheck disable=SC2086
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            $ccl_missing >&2
    else
        echo "missing packages:$ccl_missing" >&2
        echo "run: sudo apt-get install$ccl_missing" >&2
        exit 4
    fi
fi

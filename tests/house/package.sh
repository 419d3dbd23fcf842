#!/bin/sh
# The Debian package: made by CPack, with what it should hold, installed into a scratch root, used there, and removed without a trace.
# Usage: package.sh CPACK BUILD SOURCE SANITIZERS VERSION
set -eu
cpack=$1 build=$2 source=$3 sanitizers=$4 version=$5
command -v dpkg-deb >/dev/null 2>&1 || { echo "no dpkg-deb"; exit 77; }
[ "$sanitizers" = none ] || { echo "packages are not sanitized"; exit 77; }
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
bad=0
say() { echo "$*"; bad=1; }

# Not packed tightly: that takes longer than the rest.
"$cpack" --config "$build/CPackConfig.cmake" -G DEB -B "$temporary/made" -D CPACK_DEBIAN_COMPRESSION_TYPE=gzip \
    >"$temporary/log" 2>&1 || { cat "$temporary/log"; exit 1; }
deb=$(ls "$temporary"/made/*.deb)
field() { dpkg-deb -f "$deb" "$1"; }
[ "$(field Package)" = ccllab ] || say "Package is $(field Package)"
[ "$(field Version)" = "$version" ] || say "Version is $(field Version), not $version"
for library in libjansson4 libexpat1 libglpk40 libsqlite3-0 libcairo2; do
    field Depends | grep -q "$library" || say "Depends lacks $library: $(field Depends)"
done
dpkg-deb -c "$deb" | awk '{ sub(/^\./, "", $6); print $6 }' >"$temporary/files"
for file in /usr/bin/ccllab '/usr/lib.*/libccllab.so' "/usr/lib.*/libccllab.so.$version" /usr/include/ccllab/ccllab.h \
    '/usr/lib.*/pkgconfig/ccllab.pc' '/usr/lib.*/cmake/ccllab/ccllabConfig.cmake' '/usr/share/man/man1/ccllab.1' \
    /usr/share/bash-completion/completions/ccllab /usr/share/zsh/site-functions/_ccllab \
    /usr/share/fish/vendor_completions.d/ccllab.fish /usr/share/ccllab/schemas/compare-1.json \
    /usr/lib/python3/dist-packages/ccllab/__init__.py /usr/lib/python3/dist-packages/ccllab/py.typed \
    /usr/share/doc/ccllab/python/examples/notebook.py /usr/share/doc/ccllab/LICENSE /usr/share/doc/ccllab/CHANGELOG.md /usr/share/doc/ccllab/docs/tutorial.md; do
    grep -qx "$file" "$temporary/files" || say "the package lacks $file"
done
grep -v '^/usr/' "$temporary/files" | grep -vx / && say "the paths above are outside of /usr"
# Its scripts make the library known to the loader, and nothing else.
for script in postinst postrm; do
    dpkg-deb -I "$deb" $script | grep -vE '^(#!/bin/sh|set -e|if \[ .*; then|fi|[[:space:]]*ldconfig|)$' |
        grep . && say "$script does what stands above"
done
mkdir "$temporary/bin"
printf '#!/bin/sh\n: >"%s"\n' "$temporary/ldconfig" >"$temporary/bin/ldconfig" # in place of this machine's
chmod +x "$temporary/bin/ldconfig"

root=$temporary/root
mkdir -p "$root"
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/triggers"
    : >"$root/var/lib/dpkg/status"
    # The scratch root has no other packages.
    PATH=$temporary/bin:$PATH dpkg --root="$root" --force-depends --force-script-chrootless -i "$deb" >"$temporary/log" 2>&1 || { cat "$temporary/log"; exit 1; }
else
    dpkg-deb -x "$deb" "$root"
fi
[ "$("$root/usr/bin/ccllab" --version | cut -d+ -f1)" = "ccllab $version" ] || say "--version: $("$root/usr/bin/ccllab" --version)"
"$root/usr/bin/ccllab" bound -t dgx-h100 -c allreduce --size 64M >/dev/null || say "bound fails"
# A program on the installed library.
library=$(dirname "$(find "$root/usr/lib" -name libccllab.so)")
cp "$source/tests/house/consumer.c" "$temporary/"
cc -std=c11 -I"$root/usr/include/ccllab" "$temporary/consumer.c" -o "$temporary/consumer" -L"$library" -lccllab
LD_LIBRARY_PATH=$library "$temporary/consumer" >/dev/null || say "a program on the installed library fails"

# Python finds the library of its own tree; what it compiles for itself goes with the package.
if [ -x /usr/bin/python3 ]; then
    env -u CCLLAB_LIBRARY -u LD_LIBRARY_PATH -u PYTHONDONTWRITEBYTECODE PYTHONPATH="$root/usr/lib/python3/dist-packages" /usr/bin/python3 -c '
import ccllab, sys
table = ccllab.compare(ccllab.topology("dgx-h100"), "allreduce", "1M", ["nccl", "ring"])
assert len(table) == 2 and ccllab.__version__ == sys.argv[1]
assert ccllab.__file__.startswith(sys.argv[2])
maps = open("/proc/self/maps").read()
assert sys.argv[2] + "/usr/lib" in [line for line in maps.splitlines() if "libccllab.so" in line][0], maps
' "$version" "$root" || say "the Python package fails"
fi

if [ "$(id -u)" = 0 ]; then
    [ -e "$temporary/ldconfig" ] || say "ldconfig was not called"
    PATH=$temporary/bin:$PATH dpkg --root="$root" --force-script-chrootless -r ccllab >"$temporary/log" 2>&1 || { cat "$temporary/log"; exit 1; }
    left=$(find "$root" -path "$root/var" -prune -o -type f -print)
    [ -z "$left" ] || say "left behind after removal: $left"
fi
exit $bad

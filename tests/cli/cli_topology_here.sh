#!/bin/sh
# `topology here` on machines that stand-ins of the vendors' libraries and a file in hwloc's form pose as.
# Usage: cli_topology_here.sh PROGRAM SOURCE_DIR
set -eu
ccllab=$1 source=$2
command -v cc >/dev/null 2>&1 || { echo "no compiler"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
say() { echo "$*"; bad=1; }
mkdir "$dir/nvidia" "$dir/amd" "$dir/empty"
cc -shared -fPIC "$source/tests/cli/fakevendor.c" -o "$dir/nvidia/libnvidia-ml.so.1"
cp "$dir/nvidia/libnvidia-ml.so.1" "$dir/amd/librocm_smi64.so"

# Two NUMA nodes, a PCIe switch in each, and behind each switch two GPUs and a NIC.
node() { # number, its bits
    cat <<END
<object type="Package" os_index="$1" cpuset="$2" complete_cpuset="$2" nodeset="$2" complete_nodeset="$2">
<object type="NUMANode" os_index="$1" cpuset="$2" complete_cpuset="$2" nodeset="$2" complete_nodeset="$2" local_memory="1024"/>
<object type="Core" os_index="0" cpuset="$2" complete_cpuset="$2" nodeset="$2" complete_nodeset="$2">
<object type="PU" os_index="$1" cpuset="$2" complete_cpuset="$2" nodeset="$2" complete_nodeset="$2"/>
</object>
<object type="Bridge" bridge_type="0-1" depth="0" bridge_pci="0000:[$3]">
<object type="Bridge" bridge_type="1-1" depth="1" bridge_pci="0000:[$4]" pci_busid="0000:$5:00.0" pci_type="0604 [1000:c030] [0000:0000] 00" pci_link_speed="63.0">
END
    for last in 1 2; do
        echo "<object type=\"PCIDev\" pci_busid=\"0000:${5%0}$last:00.0\" pci_type=\"0302 [10de:2330] [10de:16c1] a1\" pci_link_speed=\"63.0\"/>"
    done
    cat <<END
<object type="PCIDev" pci_busid="0000:${5%0}3:00.0" pci_type="0207 [15b3:1021] [15b3:0041] 00" pci_link_speed="63.0">
<object type="OSDev" name="mlx5_$1" osdev_type="3"/>
</object>
</object>
</object>
</object>
END
}
{
    echo '<?xml version="1.0" encoding="UTF-8"?>'
    echo '<!DOCTYPE topology SYSTEM "hwloc2.dtd">'
    echo '<topology version="2.0">'
    echo '<object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3" nodeset="0x3" complete_nodeset="0x3" allowed_nodeset="0x3">'
    node 0 0x1 10-1f 11-13 10
    node 1 0x2 20-2f 21-23 20
    echo '</object></topology>'
} >"$dir/machine.xml"
sed '/<object type="PCIDev".*10de/d' "$dir/machine.xml" >"$dir/no-gpu.xml"

here() { # name of what is tried, folder of the library, file of hwloc, shape; then options
    what=$1 library=$2 tree=$3 shape=$4
    shift 4
    rc=0
    env LD_LIBRARY_PATH="$dir/$library" HWLOC_XMLFILE="$dir/$tree" FAKE_SHAPE="$shape" \
        "$ccllab" "$@" >"$dir/out" 2>"$dir/err" || rc=$?
}
has() { grep -qE "$1" "$dir/out" || { say "$what: no $1 in"; cat "$dir/out" "$dir/err"; }; }
warns() { grep -qE "$1" "$dir/err" || { say "$what: no $1 in"; cat "$dir/err"; }; }
hwloc=
"$ccllab" doctor | grep -q '^hwloc .*left out' || hwloc=1

here switch nvidia machine.xml switch topology show here
[ "$rc" = 0 ] || say "$what: exit code $rc"
has '4 GPUs' && has 'H100' && has 'nvlink  *6  *450.00 ' && has 'nvlink  *2  *425.00 '
warns '1 gpus? ha(s|ve) fewer than 18 NVLinks'
if [ -n "$hwloc" ]; then
    has '2 NICs, 2 hosts' && has 'pcie .* 24.00 ' && has 'net  *4  *50.00 '
    warns 'speed of 2 NICs not given: assumed 400 Gbit/s'
    # Without the vendor's library GPUs are known by their PCI class, and have no links.
    here class empty machine.xml none topology show here
    [ "$rc" = 0 ] && has '4 GPUs' && has '4 x H100' || say "$what: exit code $rc"
    warns 'no direct links'
fi
here mesh nvidia machine.xml mesh topology here -o "$dir/here.json"
[ "$rc" = 0 ] && [ "$("$ccllab" topology show "$dir/here.json" | grep -cE 'nvlink  *12  *150.00 ')" = 1 ] || say "$what: no mesh in the file"
here two nvidia machine.xml mesh simulate -t here -c allreduce --with ring --size 1M
[ "$rc" = 0 ] && has 'allreduce of 1M' || say "$what: exit code $rc"
here amd amd no-gpu.xml none topology show here
[ "$rc" = 0 ] && has '4 x MI250' && has 'xgmi  *8 ' || say "$what: exit code $rc"

# No GPU: one line that says where it was looked for, exit code 4.
for shape in none no-driver broken; do
    here $shape nvidia no-gpu.xml $shape topology here
    [ "$rc" = 4 ] && [ "$(wc -l <"$dir/err")" = 1 ] && [ ! -s "$dir/out" ] || say "$shape: exit code $rc: $(cat "$dir/err")"
done
here nothing empty no-gpu.xml none topology here
[ "$rc" = 4 ] && [ "$(wc -l <"$dir/err")" = 1 ] || say "$what: exit code $rc"
warns 'no GPU on this machine \(no NVML \(libnvidia-ml.so.1\); no ROCm SMI \(librocm_smi64.so\); '
warns 'host:N'
here nothing empty no-gpu.xml none doctor
[ "$rc" = 0 ] && has '^topology here: no GPU' && has '^GLPK .*GPL-3' && has '^host ' || say "doctor: exit code $rc"
here nothing nvidia no-gpu.xml mesh doctor --json
[ "$rc" = 0 ] && has '"here": "4 x H100, [02] NICs"' && has '"name": "Z3", "built_in": true, "version": "' || say "doctor --json: exit code $rc"
exit $bad

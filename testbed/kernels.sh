#!/usr/bin/env bash
# Fetches kernels of Debian into the directory that is named. They are unpacked and never installed: the agent
# is tried on them in virtual machines. To be run as root on Debian, once.
#
#   testbed/kernels.sh DIR       makes DIR/bookworm, DIR/trixie and DIR/trixie-backports, each with vmlinuz
#                                and lib/modules/VERSION

set -euo pipefail
export LC_ALL=C

. "$(dirname "${BASH_SOURCE[0]}")/debian.sh"

(( $# == 1 )) || fail "name the directory that is to hold kernels"
mkdir -p "$1"
into=$(realpath "$1")
suites=()
for suite in bookworm trixie trixie-backports; do
    [[ -e $into/$suite/vmlinuz ]] || suites+=("$suite")
done
(( ${#suites[@]} )) || exit 0

is_debian || fail "kernels come from Debian's packages: this is no Debian"
[[ $(dpkg --print-architecture) == amd64 ]] || fail "virtual machines of this architecture are not known here"

work=$(mktemp -d "$into/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 143' HUP INT TERM

# The packages that the newest kernel of the suite is in, by those that they name.
packages_of() {
    local package=$1 next
    [[ $package == linux-image-amd64 ]] || echo "$package"
    for next in $(own_apt apt-cache depends --no-recommends --no-suggests "$package" |
        sed -nE 's/^ *Depends: (linux-(image|binary|modules)-[0-9].*)/\1/p'); do
        packages_of "$next"
    done
}

for suite in "${suites[@]}"; do
    use_suite "$work/apt-$suite" "$suite" deb
    mkdir -p "$work/$suite"
    own_apt apt-get update >/dev/null
    mapfile -t packages < <(packages_of linux-image-amd64 | sort -u)
    (( ${#packages[@]} )) || fail "$suite has no kernel that linux-image-amd64 names"
    (cd "$work/$suite" && own_apt apt-get download "${packages[@]}" >/dev/null)
    for package in "$work/$suite"/*.deb; do
        dpkg-deb --extract "$package" "$work/$suite"
        rm "$package"
    done
    # Both have moved between versions.
    modules=$(find "$work/$suite" -path '*/lib/modules/*/kernel' -prune -printf '%h\n' | head -n 1)
    kernel=$(find "$work/$suite" -name 'vmlinuz*' | head -n 1)
    [[ $modules && $kernel ]] || fail "$suite: ${packages[*]} have no kernel where it is known to be"
    version=${modules##*/}
    made=$work/made-$suite
    mkdir -p "$made/lib/modules"
    mv "$kernel" "$made/vmlinuz"
    mv "$modules" "$made/lib/modules/$version"
    # What no virtual machine has.
    (cd "$made/lib/modules/$version/kernel" && rm -rf sound drivers/{gpu,media,infiniband,staging,scsi,iio,hid,usb} \
        drivers/net/{ethernet,wireless})
    depmod -b "$made" "$version"
    mv "$made" "$into/$suite"
    echo "$suite: Linux $version"
done

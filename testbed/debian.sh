# Packages of a suite of Debian, fetched with lists of their own: what the machine's apt knows and trusts stays as
# it is. To be sourced.
# shellcheck shell=bash

fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# Whether this is a Debian, whose packages can be trusted.
is_debian() {
    [[ -r $keyring ]] && command -v apt-get >/dev/null
}

# Has own_apt work with a suite, below a directory; with the kinds of packages that are named, deb or deb-src.
use_suite() {
    local kind mirror
    apt_dir=$1
    # The mirror that this machine has its packages from.
    mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources \
        2>/dev/null | grep -v '^ *#' | grep -oE '[a-z+]+://[^ ]+/debian/?( |$)' | head -n 1 | tr -d ' ') ||
        true
    [[ $mirror ]] || fail "none of apt's sources is a mirror of Debian: name one in /etc/apt/sources.list.d"
    mkdir -p "$apt_dir/lists/partial" "$apt_dir/cache/archives/partial"
    for kind in "${@:3}"; do
        echo "$kind [signed-by=$keyring] $mirror $2 main"
    done >"$apt_dir/sources.list"
}

# own_apt TOOL ARGUMENTS: apt-get or apt-cache with that suite.
own_apt() {
    "$1" -q -o APT::Sandbox::User=root -o Dir::Etc::SourceList="$apt_dir/sources.list" \
        -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$apt_dir/lists" \
        -o Dir::Cache="$apt_dir/cache" "${@:2}"
}

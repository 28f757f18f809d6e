# What both commands need first: packages, cargo, and who builds. To be sourced.
# shellcheck shell=bash

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Says what begins, and how long after the start.
step() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# Namespaces and BPF need root; building does not, and leaves nothing that belongs to root.
become_root() {
    (( EUID == 0 )) && return
    command -v sudo >/dev/null || fail "this needs root, and there is no sudo: run it as root"
    # By its full name: this may be another directory than it was called from.
    exec sudo --preserve-env=CI,CARGO_HOME,RUSTUP_HOME,CARGO_TARGET_DIR,KUBEBUILDER_ASSETS,XDG_CACHE_HOME \
        "$PWD/testbed/$(basename "$0")" "$@"
}

# Command or file, and the Debian or Ubuntu package that brings it.
PARTS=(
    cc:gcc
    c++:g++
    /usr/include/stdio.h:libc6-dev
    clang:clang
    /usr/include/bpf/bpf_helpers.h:libbpf-dev
    ip:iproute2
    strace:strace
    faketime:faketime
    nginx:nginx
    wrk:wrk
    promtool:prometheus
    mkfs.ext4:e2fsprogs
    losetup:mount
    containerd:containerd
    runc:runc
    /usr/lib/cni/loopback:containernetworking-plugins
    /usr/share/doc/busybox-static:busybox-static
    zstd:zstd
    objcopy:binutils
    protoc:protobuf-compiler
    /usr/include/google/protobuf/any.proto:libprotobuf-dev
    etcd:etcd-server
    etcdctl:etcd-client
)

install_packages() {
    local part missing=()
    for part in "${PARTS[@]}"; do
        case ${part%%:*} in
            /*) [[ -e ${part%%:*} ]] || missing+=("${part#*:}") ;;
            *) command -v "${part%%:*}" >/dev/null || missing+=("${part#*:}") ;;
        esac
    done
    (( ${#missing[@]} )) || return 0
    command -v apt-get >/dev/null ||
        fail "please install ${missing[*]}: this is no Debian or Ubuntu, and I only know those"
    step "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -q update
    apt-get -q install -y --no-install-recommends "${missing[@]}"
}

# Any browser will do that is Chromium; Ubuntu has none among its packages.
install_browser() {
    local name
    for name in chromium-headless-shell chromium chromium-browser google-chrome; do
        command -v "$name" >/dev/null && return
    done
    PARTS=(
        chromium-headless-shell:chromium-headless-shell
        /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf:fonts-dejavu-core
    )
    install_packages || fail "please install Chromium or Chrome: the dashboard is tested in it"
}

# Real parts of a cluster: etcd and kubectl from the distribution, and programs of Kubernetes that
# KUBEBUILDER_ASSETS has or that are built once, beside what follows, and kept.
install_cluster() {
    PARTS=(
        etcd:etcd-server
        openssl:openssl
        dpkg-source:dpkg-dev
        pkill:procps
        iptables:iptables
        conntrack:conntrack
    )
    install_packages
    # Ubuntu has no kubectl among its packages.
    PARTS=(kubectl:kubernetes-client)
    install_packages || echo "SKIPPED: tests with kubelets: install kubectl"
    [[ ${KUBEBUILDER_ASSETS:-} ]] && return
    export KUBEBUILDER_ASSETS=${XDG_CACHE_HOME:-$HOME/.cache}/volvox/kubernetes
    has_cluster && return
    step "building Kubernetes in the background, once, into $KUBEBUILDER_ASSETS"
    mkdir -p "$KUBEBUILDER_ASSETS"
    nice testbed/kubernetes.sh "$KUBEBUILDER_ASSETS" >"$KUBEBUILDER_ASSETS/build.log" 2>&1 &
    KUBERNETES_BUILD=$!
}

# Kernels for virtual machines, and a second clang: the programs are tried as both make them.
install_kernels() {
    PARTS=(
        qemu-system-x86_64:qemu-system-x86
        modprobe:kmod
        cpio:cpio
        busybox:busybox-static
        xz:xz-utils
    )
    install_packages
    local newest
    newest=$(apt-cache search --names-only '^clang-[0-9]+$' | grep -oE '^clang-[0-9]+' | sort -V | tail -n 1)
    PARTS=("$newest:$newest")
    [[ -z $newest ]] || install_packages
    export VOLVOX_KERNELS=${VOLVOX_KERNELS:-${XDG_CACHE_HOME:-$HOME/.cache}/volvox/kernels}
    step "kernels for virtual machines, in $VOLVOX_KERNELS"
    testbed/kernels.sh "$VOLVOX_KERNELS" || echo "SKIPPED: tests on other kernels"
}

has_cluster() {
    local program
    for program in kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy; do
        [[ -x $KUBEBUILDER_ASSETS/$program ]] || return
    done
}

# Waits until they are built; without them the tests that need them are skipped.
await_cluster() {
    [[ ${KUBERNETES_BUILD:-} ]] && ! wait "$KUBERNETES_BUILD" &&
        tail -n 5 "$KUBEBUILDER_ASSETS/build.log"
    has_cluster && return
    echo "SKIPPED: tests in a cluster: name a directory that has Kubernetes and etcd by" \
        "KUBEBUILDER_ASSETS"
}

# The user who called sudo, or root.
BUILDER=${SUDO_USER:-root}

find_cargo() {
    local home
    home=$(getent passwd "$BUILDER" | cut -d: -f6)
    export CARGO_HOME=${CARGO_HOME:-$home/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$home/.rustup}
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
    PATH=$CARGO_HOME/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:$PATH
    command -v cargo >/dev/null ||
        fail "cargo is missing for user $BUILDER: install Rust 1.90 or newer, see https://rustup.rs"
    step "$(cargo --version)"
}

# Runs a command that builds.
as_builder() {
    if [[ $BUILDER == root ]]; then
        "$@"
    else
        runuser -u "$BUILDER" -- "$@"
    fi
}

# Gives back what cargo made when it ran as root.
give_back() {
    [[ $BUILDER == root ]] || chown -R "$BUILDER:" "$CARGO_TARGET_DIR"
}

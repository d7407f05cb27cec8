# shellcheck shell=bash
# Sourced by the scripts beside it, after `set -Eeuo pipefail`: error messages, and what a fresh Debian or Ubuntu
# machine needs before it can build.

step() { printf '\n== %s\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# explain_failure STATUS SCRIPT LINE COMMAND  reports the command that ended the script.
explain_failure() {
    # A failed subshell fails the command that contains it: report that one, and only once.
    [ "$BASH_SUBSHELL" -eq 0 ] || return 0
    local reason=
    case $1 in
        124) reason=' (time limit)' ;;
        126) reason=' (not executable)' ;;
        127) reason=' (not found, or a shared library is missing)' ;;
        137) reason=' (killed; is memory short?)' ;;
    esac
    printf 'error: %s:%s: status %s%s from: %s\n' "$2" "$3" "$1" "$reason" "${4%%$'\n'*}" >&2
}
trap 'explain_failure "$?" "${BASH_SOURCE[0]}" "$LINENO" "$BASH_COMMAND"' ERR

# For example debian12 or ubuntu24.04.
release=unknown
# shellcheck source=/dev/null
[ ! -r /etc/os-release ] || release=$(source /etc/os-release && echo "${ID:-unknown}${VERSION_ID:-}")

# What Swift's programs need to start, and its compiler to link. Package names carry versions, which differ by release.
case $release in
    debian12) swift_packages=(libcurl4 libgcc-12-dev libstdc++-12-dev) ;;
    ubuntu22.04) swift_packages=(libcurl4 libgcc-11-dev libstdc++-11-dev) ;;
    ubuntu24.04) swift_packages=(libcurl4t64 libgcc-13-dev libstdc++-13-dev) ;;
    # Names without versions: larger, but every release has them.
    *) swift_packages=(g++ libcurl4-openssl-dev libedit-dev libncurses-dev libsqlite3-dev libxml2-dev) ;;
esac
case $release in
    debian12 | ubuntu22.04 | ubuntu24.04)
        swift_packages+=(binutils libedit2 libncurses6 libsqlite3-0 libxml2) ;;
esac
# shellcheck disable=SC2034  # used by the scripts that source this file
build_packages=("${swift_packages[@]}" ca-certificates git libc6-dev libssl-dev pkg-config zlib1g-dev)
# shellcheck disable=SC2034
build_flags=(--explicit-target-dependency-import-check error)

# The Debian packages among the arguments that are not installed, one a line.
missing_packages() {
    local package
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || echo "$package"
    done
}

# Prints `sudo` where commands for root need it.
sudo_prefix() {
    [ "$(id -u)" -eq 0 ] || echo sudo
}

# apt_get SECONDS ARGUMENT…  runs apt-get as root, without questions, under a time limit.
apt_get() {
    local limit=$1 status=0 as_root
    shift
    mapfile -t as_root < <(sudo_prefix)
    timeout --kill-after=20 "$limit" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get --yes --quiet -o DPkg::Lock::Timeout=120 "$@" </dev/null >&2 || status=$?
    [ "$status" -ne 124 ] || fail "apt-get $1 took longer than $limit s; start again, it goes on from there"
    [ "$status" -eq 0 ] || fail "apt-get $* ended with status $status"
}

# Installs Debian packages, as root or through sudo, and only those that are missing.
need_packages() {
    command -v dpkg-query >/dev/null ||
        fail "dpkg-query was not found: this is not Debian or Ubuntu; install the equivalents of these: $*"
    local missing
    mapfile -t missing < <(missing_packages "$@")
    [ "${#missing[@]}" -gt 0 ] || return 0
    [ -z "$(sudo_prefix)" ] || command -v sudo >/dev/null ||
        fail "Debian packages are missing, and this user is not root and has no sudo: ${missing[*]}"
    step "installing ${missing[*]}"
    # The lists of a fresh machine may be empty or stale.
    apt_get 300 update
    # Downloads first: the time limit may end a download, which can be continued, but not an installation halfway.
    apt_get 1800 install --no-install-recommends --download-only "${missing[@]}"
    apt_get 900 install --no-install-recommends "${missing[@]}"
}

swift_oldest=6.2   # tools version of Package.swift
swift_tested=6.3.1 # the release that Pando is developed and tested with

# Prints the commands that install Swift on this release and architecture.
swift_instructions() {
    local architecture platform suffix sudo folder file
    architecture=$(uname -m)
    sudo=$(sudo_prefix)
    sudo=${sudo:+$sudo }
    case $release in
        debian12 | ubuntu22.04 | ubuntu24.04) platform=$release ;;
    esac
    case $architecture in
        x86_64) suffix= ;;
        aarch64) suffix=-aarch64 ;;
    esac
    if [ -z "${platform+set}" ] || [ -z "${suffix+set}" ]; then
        echo "https://www.swift.org/install/linux/ lists Swift's archives; none is known for $release on $architecture."
        return
    fi
    folder=https://download.swift.org/swift-$swift_tested-release/${platform/./}$suffix/swift-$swift_tested-RELEASE
    file=swift-$swift_tested-RELEASE-$platform$suffix.tar.gz
    cat <<END
These commands install Swift $swift_tested for $release on $architecture:

    ${sudo}apt-get update
    ${sudo}apt-get install --yes --no-install-recommends ca-certificates curl
    curl -fLO $folder/$file
    ${sudo}mkdir -p /opt/swift
    ${sudo}tar -xzf $file -C /opt/swift --strip-components=1
    export PATH=/opt/swift/usr/bin:\$PATH
END
}

# Ends the script where `swift` is not on PATH. Before packages are installed, which may take minutes.
need_swift() {
    command -v swift >/dev/null ||
        fail "swift was not found on PATH; Pando needs Swift $swift_oldest or newer.
$(swift_instructions)"
}

# Ends the script where `swift` does not start or is too old. After packages are installed: without them it does not
# start.
check_swift() {
    local output version status=0
    output=$(timeout --kill-after=5 60 swift --version 2>&1) || status=$?
    [ "$status" -eq 0 ] || fail "swift --version ended with status $status: ${output:-no output}"
    version=$(sed -n 's/.*Swift version \([0-9][0-9.]*\).*/\1/p' <<<"$output" | head -n 1)
    [ -n "$version" ] || fail "swift --version names no version: ${output:-no output}"
    [ "$(printf '%s\n%s\n' "$swift_oldest" "$version" | sort -V | head -n 1)" = "$swift_oldest" ] ||
        fail "Swift $version ($(command -v swift)) is too old: Pando needs $swift_oldest or newer.
$(swift_instructions)"
}

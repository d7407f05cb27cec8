# Sourced by deploy/run and deploy/test: what a fresh Debian machine needs before it can build.

step() { printf '\n== %s\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# The Debian packages among the arguments that are not installed, one a line.
missing_packages() {
    local package
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || echo "$package"
    done
}

# Installs Debian packages, as root or through sudo, and only those that are missing.
need_packages() {
    command -v dpkg-query >/dev/null || fail "dpkg-query not found: install the equivalents of these yourself: $*"
    local missing as_root=()
    mapfile -t missing < <(missing_packages "$@")
    [ "${#missing[@]}" -gt 0 ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "missing Debian packages, and neither root nor sudo: ${missing[*]}"
        as_root=(sudo)
    fi
    step "installing ${missing[*]}"
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -y -qq -o DPkg::Lock::Timeout=120)
    # The lists of a fresh machine may be empty or stale.
    timeout 300 "${as_root[@]}" "${apt[@]}" update </dev/null >&2
    timeout 600 "${as_root[@]}" "${apt[@]}" install --no-install-recommends "${missing[@]}" </dev/null >&2
}

need_swift() {
    local wanted="6.2" version page=https://www.swift.org/install/linux/debian/12
    command -v swift >/dev/null || fail "swift not found: install Swift $wanted or newer ($page) and put it on PATH"
    version=$(swift --version 2>/dev/null | sed -n 's/.*Swift version \([0-9][0-9.]*\).*/\1/p' | head -n 1)
    [ -n "$version" ] || fail "swift --version says nothing we understand; Swift $wanted or newer is needed"
    [ "$(printf '%s\n%s\n' "$wanted" "$version" | sort -V | head -n 1)" = "$wanted" ] ||
        fail "Swift $version is too old: $wanted or newer is needed ($page)"
}

build_packages=(ca-certificates git libc6-dev libssl-dev pkg-config zlib1g-dev)
build_flags=(--explicit-target-dependency-import-check error)

#!/bin/sh
# Names what is missing before anything is downloaded, and the package that brings it.
python="${1:-python3}"
problem=0
say() { echo "tilewright: $1" >&2; problem=1; }

if ! command -v "$python" > /dev/null 2>&1; then
    say "no $python found. Install Python 3.11 or newer (Debian/Ubuntu: apt install python3, Fedora: dnf install python3, macOS: brew install python)."
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    say "$("$python" --version) is too old. Install Python 3.11 or newer, or name one: make PYTHON=python3.12 ..."
elif ! "$python" -c 'import venv, ensurepip' > /dev/null 2>&1; then
    say "$python has no venv module. Install it (Debian/Ubuntu: apt install python3-venv)."
fi

compiler="${CXX:-}"
if [ -z "$compiler" ]; then
    for c in g++ c++ clang++; do
        if command -v "$c" > /dev/null 2>&1; then compiler="$c"; break; fi
    done
fi
if [ -z "$compiler" ] || ! command -v "$compiler" > /dev/null 2>&1; then
    say "no C++ compiler found. Install one (Debian/Ubuntu: apt install g++, Fedora: dnf install gcc-c++, Arch: pacman -S gcc, macOS: xcode-select --install) or set CXX."
fi
exit $problem

#!/bin/bash
# What `make demo` shows: a few things a sandbox must do, and a few it must not. Exits non-zero if one of them goes wrong.
#     demo.sh build/krait
set -uo pipefail
krait=$1
out=$(mktemp -d "${TMPDIR:-/tmp}/krait-demo.XXXXXX")
bad=0

title() { printf '\n\e[1m# %s\e[0m\n' "$1"; }
show() { printf '\e[2m$ %s\e[0m\n' "$1"; }
# expect STATUS COMMAND… : runs it and compares its exit status.
expect() {
    local want=$1 got=0
    shift
    "$@" || got=$?
    if [ "$got" != "$want" ]; then
        printf 'expected exit status %s, got %s\n' "$want" "$got"
        bad=1
    fi
}

title "Python, in a sandbox of its own"
show "krait run -c 'import os; print(…)'"
expect 0 "$krait" run -c 'import os, sys; print("Hello from Python", sys.version.split()[0], "as uid", os.getuid(), "in", os.getcwd())'

title "The machine's secrets are not there"
show "krait run -c 'open(\"/etc/shadow\")'"
expect 0 "$krait" run -c '
try:
    open("/etc/shadow")
    raise SystemExit("opened /etc/shadow")
except OSError as e:
    print("refused:", e)'

title "Nor is the network"
show "krait run -c 'socket.create_connection((\"192.0.2.1\", 80))'"
expect 0 "$krait" run -c '
import socket
try:
    socket.create_connection(("192.0.2.1", 80), timeout=3)
    raise SystemExit("connected")
except OSError as e:
    print("refused:", e)'

title "Limits hold, and the end names its cause"
show "krait run --memory 256M -c 'x = bytearray(10**9)'"
expect 1 "$krait" run --memory 256M -c '
try:
    x = bytearray(10**9)
except MemoryError:
    print("MemoryError, as Python expects it")
    raise SystemExit(1)'
show "krait run --timeout 1s -c 'while True: pass'"
expect 124 "$krait" run --timeout 1s -c 'while True: pass'

title "numpy and matplotlib are already imported; figures come out as files"
show "krait run --preload data --figures $out -c 'plt.plot(…); plt.show()'"
expect 0 "$krait" run --preload data --figures "$out" -c '
import numpy as np, matplotlib.pyplot as plt
t = np.linspace(0, 6.3, 200)
plt.plot(t, np.sin(t)); plt.title("from the sandbox"); plt.show()
print("mean of sin²:", round(float(np.mean(np.sin(t) ** 2)), 3))'
ls -l "$out"
if [ -z "$(ls -A "$out")" ]; then
    echo "no figure was saved"
    bad=1
fi

title "What to try next"
cat <<TRY
  $krait doctor                            which layers hold on this machine, each one tried
  $krait run script.py arg                 a sandboxed python3
  $krait run --workspace DIR script.py     with files in and out
  $krait run --json -c 'print(1)'          everything about a run as one JSON object
  $krait dump seccomp | less               every system call: allowed, refused, and why
TRY
exit $bad

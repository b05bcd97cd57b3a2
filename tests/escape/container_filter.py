"""A stand-in for a hardened container: what a process is left with when another vendor's container holds krait.

Called by ways.py for the way `contained`. It does to the calling process what a container engine's defaults do: no
capability, not even in the bounding set, no_new_privs, and a filter in front of the calls that such defaults refuse:
namespaces, mounts, tracing, keys, clocks, modules (EPERM), clone3 (ENOSYS, so that libc falls back to clone, whose
flags can be judged). Landlock stays allowed. Invariant: what it refuses cannot be had back by what is
started afterwards.
"""
from __future__ import annotations

import ctypes
import os
import struct

AUDIT_ARCH_X86_64 = 0xC000003E
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
EPERM, ENOSYS = 1, 38
NAMESPACES = 0x7E020000
SYS_CLONE, SYS_CLONE3, SYS_SOCKET, SYS_PERSONALITY = 56, 435, 41, 135
AF_VSOCK, AF_ALG = 40, 38

REFUSED = {
    "ptrace": 101,
    "syslog": 103,
    "modify_ldt": 154,
    "pivot_root": 155,
    "adjtimex_set": 305,
    "acct": 163,
    "settimeofday": 164,
    "mount": 165,
    "umount2": 166,
    "swapon": 167,
    "swapoff": 168,
    "reboot": 169,
    "sethostname": 170,
    "setdomainname": 171,
    "iopl": 172,
    "ioperm": 173,
    "create_module": 174,
    "init_module": 175,
    "delete_module": 176,
    "get_kernel_syms": 177,
    "query_module": 178,
    "quotactl": 179,
    "nfsservctl": 180,
    "chroot": 161,
    "lookup_dcookie": 212,
    "clock_settime": 227,
    "mbind": 237,
    "set_mempolicy": 238,
    "get_mempolicy": 239,
    "kexec_load": 246,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "migrate_pages": 256,
    "unshare": 272,
    "move_pages": 279,
    "vhangup": 153,
    "perf_event_open": 298,
    "fanotify_init": 300,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "setns": 308,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "kcmp": 312,
    "finit_module": 313,
    "kexec_file_load": 320,
    "bpf": 321,
    "userfaultfd": 323,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "set_mempolicy_home_node": 450,
}


def program() -> bytes:
    """The filter as classic BPF: one comparison a call, which is enough for a test."""
    code: list[tuple[int, int, int, int]] = []

    def add(op: int, yes: int, no: int, k: int) -> None:
        code.append((op, yes, no, k))

    load, equal, at_least, masked, give = 0x20, 0x15, 0x35, 0x45, 0x06
    add(load, 0, 0, 4)
    add(equal, 1, 0, AUDIT_ARCH_X86_64)
    add(give, 0, 0, KILL)
    add(load, 0, 0, 0)
    add(at_least, 0, 1, 0x40000000)  # x32
    add(give, 0, 0, ERRNO | ENOSYS)
    for number in sorted(REFUSED.values()):
        add(equal, 0, 1, number)
        add(give, 0, 0, ERRNO | EPERM)
    add(equal, 0, 1, SYS_CLONE3)
    add(give, 0, 0, ERRNO | ENOSYS)
    add(equal, 0, 4, SYS_CLONE)
    add(load, 0, 0, 16)  # args[0], low half
    add(masked, 0, 1, NAMESPACES)
    add(give, 0, 0, ERRNO | EPERM)
    add(give, 0, 0, ALLOW)
    add(equal, 0, 5, SYS_SOCKET)
    add(load, 0, 0, 16)
    add(equal, 1, 0, AF_VSOCK)
    add(equal, 0, 1, AF_ALG)
    add(give, 0, 0, ERRNO | EPERM)
    add(give, 0, 0, ALLOW)
    add(equal, 0, 7, SYS_PERSONALITY)
    add(load, 0, 0, 16)
    for value, left in ((0, 4), (8, 3), (0x20000, 2), (0x20008, 1), (0xFFFFFFFF, 0)):
        add(equal, left + 1, 0, value)
    add(give, 0, 0, ERRNO | EPERM)
    add(give, 0, 0, ALLOW)
    return b"".join(struct.pack("HBBI", *line) for line in code)


def install(uid: int) -> None:
    """Confines this process; it is an ordinary user afterwards. Needs root only to change the uid."""
    libc = ctypes.CDLL(None, use_errno=True)

    def prctl(*args: int) -> int:
        return libc.prctl(*[ctypes.c_ulong(a) for a in args])

    for cap in range(64):
        prctl(
            24, cap, 0, 0, 0
        )  # PR_CAPBSET_DROP: refused to who is not root, and then there is nothing to drop
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    if prctl(38, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    code = ctypes.create_string_buffer(program())
    head = struct.pack("HxxxxxxQ", (len(code) - 1) // 8, ctypes.addressof(code))
    if libc.prctl(22, ctypes.c_ulong(2), ctypes.c_char_p(head), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp filter")
    prctl(4, 1, 0, 0, 0)  # what is started is dumpable again, as after any exec

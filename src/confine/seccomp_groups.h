/* Reasons that many rows of the system-call table share, one sentence for each group. Read by seccomp_rules.c alone. */
#pragma once

/* clang-format off */
#define KR_SC_GROUPS(X) \
    X(IO, "works on descriptors the process already holds") \
    X(SPLICE, "moves pipe buffers without mapping user pages into them; os.splice and coreutils use it") \
    X(FILE, "ordinary file work: the cell's mounts, Landlock and the files' modes decide which files") \
    X(CHOWN, "without capabilities only among own groups; contained, it would reach files Landlock leaves open") \
    X(SETIDBIT, "no file is ever made set-user-id or set-group-id: a set-id program is the classic way to root") \
    X(CREATE, "the mode counts only when the call creates a file; then it must not carry set-id bits") \
    X(DEVICE, "files, pipes and sockets may be made, device nodes never") \
    X(XATTR, "attributes can carry privilege and escape byte quotas; copying tools continue after this error") \
    X(MEMORY, "changes only the caller's own address space, which its memory limits bound") \
    X(SIGNAL, "the caller's own signal state") \
    X(KILL, "reaches only the cell's pid namespace; contained, only the Landlock domain (signal scope)") \
    X(SIGVALUE, "stays inside the pid namespace; contained sessions need no signal that carries a value") \
    X(PIDFD, "asyncio watches children with it; without a pid namespace it would name any process of the container") \
    X(PROCESS, "starts, runs and awaits the caller's own threads and children; the process limit bounds them") \
    X(SELF, "tells the caller about itself and its machine, changes nothing") \
    X(GROUP, "ordinary job control; contained, all must stay in one process group, so that one signal ends it") \
    X(LIMIT, "the caller's own limits: a hard limit can be lowered, never raised") \
    X(SCHED, "reaches only the cell's processes, and real-time classes need a capability; contained, only itself") \
    X(TIME, "reads clocks, sleeps, sets the caller's own timers") \
    X(EVENT, "waits for descriptors the process already holds") \
    X(INOTIFY, "tells which files of /usr the host and other cells open; its instances are shared by all of them") \
    X(SOCKET, "works on sockets that socket() or socketpair() let through") \
    X(NAMED, "names only sockets of the cell; contained, those of the whole container would be in reach") \
    X(SYSV, "the cell has an ipc namespace of its own; contained, the container's segments would be in reach") \
    X(IOCTL, "commands that read a terminal's or socket's state or set up a cell's terminal; never input to one") \
    X(FCNTL, "flags, locks, pipe sizes and seals; never who gets a signal, nor leases and notices that stall others") \
    X(PRCTL, "options that name the caller or read its state; none that loosens it or stacks filters and tracers") \
    X(PERSON, "reading it, or the plain personality; others make data executable or addresses predictable") \
    X(LANDLOCK, "the session restricts itself with it after this filter; it can only tighten") \
    X(SETID, "a session has one id, which it may set again, and no capability; should one be left, this is a wall") \
    X(TRACE, "reads, writes or steers another process's memory or descriptors") \
    X(NAMESPACE, "changes what the process sees, and opens kernel code meant for root") \
    X(MOUNT, "the cell's file tree is fixed when user code starts") \
    X(HANDLE, "opens files by number, past every directory that would refuse (the Shocker escape)") \
    X(SURFACE, "kernel surface that sandboxed Python has no use for") \
    X(URING, "its requests never pass this filter, and it has been the kernel's richest source of exploits") \
    X(AIO, "kernel AIO: only databases use it, and they fall back to threads") \
    X(FANOTIFY, "watches whole file systems, beyond the cell") \
    X(MQUEUE, "POSIX queues: Python has no call for them, and their notification code has had use-after-free bugs") \
    X(SECCOMP, "the filter is complete: another cannot loosen it, but a listener would hand calls to another process") \
    X(KEYS, "keyrings are not namespaced: keys of the host and of neighbours could leak") \
    X(NUMA, "moves pages between memory nodes of the host; numeric libraries work without it") \
    X(MODULE, "loads code into the kernel") \
    X(MACHINE, "state of the whole machine, not of the cell") \
    X(CLOCK, "sets the clock of the whole machine") \
    X(BLIND, "its arguments are in memory, where a filter cannot read them") \
    X(RETIRED, "no kernel of today implements it on x86-64") \
    X(NEW, "newer than the libraries we support need: they ask for it and fall back") \
    X(UPROBE, "only the kernel's own probe trampolines make this call; kernels since 6.14 let those past every filter")
/* clang-format on */

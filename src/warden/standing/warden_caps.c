/* The warden's capabilities. Called at its start, before anything is opened or forked, and again when it has entered a
 * user namespace of its own, where the kernel gives it all of them anew. */
#include "warden_caps.h"
#include "caps.h"
#include "instance.h"
#include <linux/capability.h>
#include <unistd.h>

/* clang-format off */
const struct kr_warden_cap kr_warden_caps[] = {
    {CAP_CHOWN, "CAP_CHOWN", 0, "the folder of a sandbox and what lies in it are the server's"},
    {CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE", 0, "folders of the server and of the caller, whatever their modes"},
    {CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", 0, "the shelf's keeper looks below folders that a session closed"},
    {CAP_FOWNER, "CAP_FOWNER", 0, "the shelf's keeper sets the project of folders that are the server's"},
    {CAP_KILL, "CAP_KILL", 0, "engine and cells are other users; they are signalled and ended"},
    {CAP_MKNOD, "CAP_MKNOD", 0, "device nodes that cells do not share with the host"},
    {CAP_SETFCAP, "CAP_SETFCAP", 1, "a map that names our own root asks for it (user_namespaces(7), Linux 5.12)"},
    {CAP_SETGID, "CAP_SETGID", 0, "the engine's group, the maps of cells"},
    {CAP_SETPCAP, "CAP_SETPCAP", 0, "bounding sets are emptied: the engine's, and this one"},
    {CAP_SETUID, "CAP_SETUID", 0, "the engine's user, the maps of cells"},
    {CAP_SYS_ADMIN, "CAP_SYS_ADMIN", 0, "mounts, namespaces, id maps of mounts, the shelf's loop device and quotas"},
    {CAP_SYS_RESOURCE, "CAP_SYS_RESOURCE", 0,
     "descriptors beyond the hard limit, protection from the kernel's killer, growing an ext4 shelf"},
};
/* clang-format on */
const size_t kr_warden_caps_count = sizeof kr_warden_caps / sizeof *kr_warden_caps;

/* Before: whatever krait was started with. After: at most the rows above, in the permitted and the bounding set, and
 * no_new_privs: no program that the warden or a child of it runs (mkfs, Python) can have more. A plain user has nothing
 * to give up and no means to; no_new_privs alone counts there. */
int kr_warden_caps_drop(struct kr_err *err)
{
    int nested = geteuid() == 0 && kr_host_uid() != 0;
    uint64_t keep = 0;
    int r = kr_no_new_privs(err);
    for (size_t i = 0; i < kr_warden_caps_count; i++)
        if (nested || !kr_warden_caps[i].nested)
            keep |= KR_CAP(kr_warden_caps[i].cap);
    return r < 0 ? r : kr_caps_keep(keep, err);
}

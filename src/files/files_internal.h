/* What the files of files.h share. Not for others. */
#pragma once
#include "files.h"
#include <fcntl.h>
#include <sys/stat.h>

/* Our temporary files, in the workspace's top folder: a fixed beginning, so that those a killed process left can be
 * found. */
#define KR_FILES_TEMP ".krait-upload-"

/* openat2(2) beneath the workspace, through no link and no mount; "" is the workspace. A descriptor or -errno. */
int kr_files_at(int ws, const char *relative, int flags, unsigned mode);
/* Makes the error of a failed call: names the path and the reason. Returns -code. */
int kr_files_fail(struct kr_err *err, int code, const char *path);
/* A descriptor (O_PATH) of the folder that holds a relative path (not ""), made if `make`; *ret_name points to its last
 * part. -errno without err set. */
int kr_files_parent(int ws, char *relative, bool make, const char **ret_name);
void kr_files_info_of(const struct stat *st, struct kr_file_info *ret);
/* Gives the owner all rights on a folder, if it lacks some. 0 or -errno. fd may be O_PATH. */
int kr_files_open_up(int fd);

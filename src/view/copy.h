/* Small files of the host, copied into the family's root. */
#pragma once

/* Copies a file, following links; one that is not there or may not be read is left out. 0 or -errno. */
int kr_copy_file(int from_dir, const char *from, int to_dir, const char *to);
/* Copies a folder with what is in it: files, folders and links as links. At most 4096 entries, 8 folders deep, 16 MiB;
 * what exceeds that is left out. A folder that is not there is left out as well. 0 or -errno. */
int kr_copy_tree(const char *from, const char *to);

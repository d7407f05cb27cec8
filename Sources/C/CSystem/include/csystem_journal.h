// Files, for the journal and whatever else must survive a power cut. Every function answers -errno on failure;
// none of them retries a failed sync.
#ifndef PANDO_CSYSTEM_JOURNAL_H
#define PANDO_CSYSTEM_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

enum { PANDO_DISK_READ = 0, PANDO_DISK_READ_WRITE = 1, PANDO_DISK_CREATE = 2 };

/// Makes the directory (mode 0700) and syncs its parent: 1. When it is already there: 0.
int pando_disk_make_directory(const char *path);
/// A descriptor of the directory, to give to the functions below.
int pando_disk_open_directory(const char *path);
/// 1 on file systems of which it is known that what is written over a file's bytes takes their place on the disk: ext2 to
/// ext4. 0 on all others: some write it elsewhere, always or where a copy shares the place (XFS), and need room for that;
/// some have another one below.
int pando_disk_overwrites_in_place(int directory);
/// The names in the directory, each ended by NUL, as far as they fit; answers the bytes needed for all of them.
int64_t pando_disk_list(int directory, char *names, size_t capacity);
/// Opens a file of the directory; PANDO_DISK_CREATE makes it (mode 0600) or empties it.
int pando_disk_open(int directory, const char *name, int mode);
int pando_disk_close(int file);
int64_t pando_disk_size(int file);
/// Reads until `count` bytes or the end of the file; answers how many.
int64_t pando_disk_read(int file, void *bytes, size_t count, uint64_t offset);
/// Writes all the bytes at `offset`: one `pwrite`, and more only when the kernel writes less than asked.
int pando_disk_write(int file, const void *bytes, size_t count, uint64_t offset);
/// fdatasync(2).
int pando_disk_sync(int file);
/// Takes room on the disk for the bytes from `start` to `end`, so that writing them cannot fail for want of it; the
/// file's size stays. Where the file system cannot promise that, asks whether there is room now. -ENOSPC or -EDQUOT
/// when there is none.
int pando_disk_reserve(int file, uint64_t start, uint64_t end);
int pando_disk_truncate(int file, uint64_t byte_count);
int pando_disk_rename(int directory, const char *from, const char *to);
int pando_disk_remove(int directory, const char *name);
/// fsync(2) of the directory: names made, changed and removed.
int pando_disk_sync_directory(int directory);
/// Opens the lock file, locks it (flock: one open file description at a time, freed by the kernel when the process
/// dies) and writes the process id into it; answers the descriptor that holds the lock. -EWOULDBLOCK when somebody
/// else holds it, and `owner` is then the process id found in the file, or 0.
int pando_disk_lock(int directory, const char *name, int64_t *owner);
/// EWOULDBLOCK, the one errno of which the journal must know the number.
int pando_disk_would_block(void);
/// True for ENOSPC and EDQUOT: no room, and there may be some later.
int pando_disk_is_full(int error);
/// True for EMFILE and ENFILE: too many files are open, and there may be fewer later.
int pando_disk_lacks_descriptors(int error);
/// True for ENOENT: nothing has that name.
int pando_disk_is_missing(int error);
/// The text of an errno, in English; never NULL.
const char *pando_disk_error_text(int error);

#endif

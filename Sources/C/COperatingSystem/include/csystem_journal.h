// Files, for data that must survive a power failure. Every function returns -errno on failure; none of them retries a
// failed sync.
#ifndef PANDO_CSYSTEM_JOURNAL_H
#define PANDO_CSYSTEM_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

enum { PANDO_DISK_READ = 0, PANDO_DISK_READ_WRITE = 1, PANDO_DISK_CREATE = 2 };

/// Makes the directory (mode 0700), or finds it, and makes its name durable: a sync of its parent, or of the whole file
/// system where the parent cannot be read. 1 for a new one, 0 for one that exists.
int pando_disk_make_directory(const char *path);
/// The same for one that must not exist: EEXIST for whatever is there, also a symbolic link to nothing. 0.
int pando_disk_make_new_directory(const char *path);
/// A descriptor of the directory, for the functions below.
int pando_disk_open_directory(const char *path);
/// 1 on file systems that are known to write over a file's bytes in the same disk blocks: ext2, ext3, ext4. 0 on all
/// others: some write to other blocks, always or where a copy shares them (XFS), and need free space for that; some are
/// a layer above another file system.
int pando_disk_overwrites_in_place(int directory);
/// Writes the names in the directory, each ended by NUL, as far as they fit. Returns the bytes needed for all of them.
int64_t pando_disk_list(int directory, char *names, size_t capacity);
/// Opens a regular file of the directory; PANDO_DISK_CREATE makes it (mode 0600) or empties it. Never waits for the other end of a
/// FIFO: -ENXIO for a FIFO, a device or a socket, -EISDIR for a directory.
int pando_disk_open(int directory, const char *name, int mode);
int pando_disk_close(int file);
int64_t pando_disk_size(int file);
/// Reads `count` bytes, or up to the end of the file. Returns how many.
int64_t pando_disk_read(int file, void *bytes, size_t count, uint64_t offset);
/// Writes all the bytes at `offset`: one `pwrite`, and more only when the kernel writes less than asked.
int pando_disk_write(int file, const void *bytes, size_t count, uint64_t offset);
/// fdatasync(2).
int pando_disk_sync(int file);
/// Allocates disk space for the bytes from `start` to `end` (fallocate(2)), so that writing them cannot fail with ENOSPC;
/// the file's size stays. Where the file system cannot do that, checks whether there is enough space now. -ENOSPC or
/// -EDQUOT when there is not.
int pando_disk_reserve(int file, uint64_t start, uint64_t end);
/// Asks the kernel to drop the clean pages of the file (posix_fadvise(2)). A file system that cannot do that is no error.
void pando_disk_drop_cache(int file);
int pando_disk_truncate(int file, uint64_t byte_count);
int pando_disk_rename(int directory, const char *from, const char *to);
int pando_disk_remove(int directory, const char *name);
/// fsync(2) of the directory: makes new, changed and removed names durable.
int pando_disk_sync_directory(int directory);
/// Locks the directory itself, which cannot be removed while a file is in it, and returns the descriptor that holds the lock. On
/// a file system that does not lock directories, the descriptor holds none. -EWOULDBLOCK when another process holds it; `owner`
/// is then the process id found in the lock file of that name, or 0.
int pando_disk_lock_directory(int directory, const char *name, int64_t *owner);
/// Opens the lock file, locks it (flock: one open file description at a time, freed by the kernel when the process
/// dies) and writes the process id into it. Returns the descriptor that holds the lock. -EWOULDBLOCK when another process
/// holds it; `owner` is then the process id found in the file, or 0.
int pando_disk_lock(int directory, const char *name, int64_t *owner);
/// 1 when the name is that of the open file: the same device and inode. 0 for another file, and for none.
int pando_disk_is_same(int directory, const char *name, int file);
/// The value of EWOULDBLOCK.
int pando_disk_would_block(void);
/// Whether the error is ENOSPC, EDQUOT or EFBIG (the process's file size limit): no space now, but perhaps later.
int pando_disk_is_full(int error);
/// Whether the error is EMFILE or ENFILE: too many files are open now, but perhaps fewer later.
int pando_disk_lacks_descriptors(int error);
/// Whether the error is ENOMEM: the kernel has no memory now, but perhaps later.
int pando_disk_lacks_memory(int error);
/// Whether the error is ENOENT: there is no file of that name.
int pando_disk_is_missing(int error);
/// Whether the error is EEXIST: there is something of that name.
int pando_disk_is_taken(int error);
/// Whether the error is ENOTDIR: what should be a directory is something else.
int pando_disk_is_no_directory(int error);
/// Whether the error is ENXIO: what should be a regular file is a FIFO, a device or a socket.
int pando_disk_is_special(int error);
/// Whether the error of a sync is EINVAL, of a file system without syncs, such as squashfs, which is never written. Not EROFS: where
/// the kernel has remounted a file system for reading only, after errors, what was written last may be in memory only.
int pando_disk_lacks_sync(int error);
/// Writes the present name of an open file, without its directory. -ENOENT when it has none any more.
int pando_disk_name(int file, char *name, size_t capacity);
/// The id of this process.
int64_t pando_disk_process_id(void);
/// Whether the error is EACCES or EPERM: the user of this process may not do that.
int pando_disk_is_not_permitted(int error);
/// The space of the file system of a directory (fstatvfs(3)): all of it, and what is free for this user.
/// Returns 0, or -errno.
int pando_disk_space(int directory, uint64_t *byte_count, uint64_t *free_byte_count);
/// Whether the error is EROFS: the file system is mounted read-only.
int pando_disk_is_read_only(int error);
/// The id of the user as whom this process opens files (geteuid(2)).
uint32_t pando_disk_user_id(void);
/// The message of an errno, in English; never NULL.
const char *pando_disk_error_text(int error);

#endif

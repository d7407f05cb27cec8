// What a disk would have of the files in one directory, and the power cut. calls.c says what for.
//
// Every function is called with the lock held, or before there is a second thread.

#ifndef POWERCUT_DISK_H
#define POWERCUT_DISK_H

#include <pthread.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

// A file that was in the directory at some time.
struct inode;

struct settings {
    const char *directory, *stash, *report, *lie, *counted;
    uint64_t after, delay_limit, seed;
    int log;  // -1 for none
};

extern struct settings settings;
extern pthread_mutex_t lock;
extern struct stat directory;  // st_ino is 0 until it is there
extern int directory_is_durable;

_Noreturn void fail(const char *what);
uint64_t below(uint64_t limit);
double now(void);

// The file that is this one, or that is open under this descriptor, if it is one of ours; else NULL.
struct inode *find(const struct stat *status);
struct inode *find_open(int file);
off_t size_of(const struct inode *inode);
// Takes note of a file that has come; so many of its bytes are durable.
struct inode *track(int parent, const char *name, off_t durable_size);
void add_durable_name(const char *name, struct inode *inode);

// from == "": made. to == "": removed. Else renamed.
void note_change(const char *from, const char *to, struct inode *inode);
// Bytes from `start` to `end` are about to change: keeps what the disk has of them.
void remember(struct inode *inode, off_t start, off_t end);

// What a sync that begins now will have made durable when it comes back.
struct moment {
    uint64_t stamp, change_count;
    off_t size;
    double began;
};
struct moment moment_of(const struct inode *inode);  // NULL: of the directory
void settle(struct inode *inode, const struct moment *moment);
void settle_names(const struct moment *moment);

// Counts an operation, by its kind and the name it touches ("" for none). Answers whether it is the one that is
// cut.
int count(const char *kind, const char *name);
// Makes the real directory what a machine could find when it comes back, and ends the process.
_Noreturn void cut(const char *kind);

#endif

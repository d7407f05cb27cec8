#define _GNU_SOURCE
#include "disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SECTOR = 512, NAME_BYTES = 256, PATH_BYTES = 4096 };

// A sector that may differ from what the disk has.
struct sector {
    uint64_t stamp;  // of the last write to it
    unsigned char durable[SECTOR];
};

struct inode {
    struct inode *next;
    dev_t device;
    ino_t number;
    int id;    // its name in the stash
    int file;  // open for reading and writing
    off_t durable_size;
    struct sector **sectors;  // by index; NULL: as on the disk
    size_t sector_limit;
    double settled;  // when its last completed sync began
    int is_left;     // at the cut: some name still leads to it
};

struct name {
    char text[NAME_BYTES];
    struct inode *inode;
};

struct change {
    char from[NAME_BYTES], to[NAME_BYTES];
    struct inode *inode;
};

struct settings settings = {.lie = "", .counted = "", .log = -1};
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // guards all that follows
struct stat directory;
int directory_is_durable;
static uint64_t operations, stamps;
static struct inode *inodes;
static int inode_count;
static struct name *durable_names;
static size_t durable_count;
static struct change *changes;
static size_t change_count;
static uint64_t settled_change_count;  // of all there were, so many are durable and no longer in `changes`
static uint64_t sector_counts[3];      // what the cut made of them: old, new, torn

_Noreturn void fail(const char *what) {
    dprintf(2, "powercut: %s: %s\n", what, strerror(errno));
    abort();
}

// SplitMix64, as in the simulated disk.
uint64_t below(uint64_t limit) {
    uint64_t z = settings.seed += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return (z ^ (z >> 31)) % limit;
}

double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

// Files and names

struct inode *find(const struct stat *status) {
    for (struct inode *inode = inodes; inode != NULL; inode = inode->next)
        if (inode->number == status->st_ino && inode->device == status->st_dev) return inode;
    return NULL;
}

struct inode *find_open(int file) {
    struct stat status;
    return fstat(file, &status) == 0 && S_ISREG(status.st_mode) ? find(&status) : NULL;
}

off_t size_of(const struct inode *inode) {
    struct stat status;
    if (fstat(inode->file, &status) != 0) fail("fstat");
    return status.st_size;
}

struct inode *track(int parent, const char *name, off_t durable_size) {
    struct stat status;
    struct inode *inode = calloc(1, sizeof *inode);
    if (inode == NULL || fstatat(parent, name, &status, 0) != 0) fail(name);
    char link[PATH_BYTES];
    inode->id = ++inode_count;
    snprintf(link, sizeof link, "%s/%d", settings.stash, inode->id);
    if (linkat(parent, name, AT_FDCWD, link, 0) != 0) fail(link);
    inode->file = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDWR | O_CLOEXEC);
    if (inode->file < 0) fail(link);
    inode->device = status.st_dev;
    inode->number = status.st_ino;
    inode->durable_size = durable_size;
    inode->next = inodes;
    return inodes = inode;
}

// Of `names`, `count` in all.
static void apply(const struct change *change, struct name **names, size_t *count);

void add_durable_name(const char *name, struct inode *inode) {
    struct change make = {.inode = inode};
    snprintf(make.to, sizeof make.to, "%s", name);
    apply(&make, &durable_names, &durable_count);
}

void note_change(const char *from, const char *to, struct inode *inode) {
    changes = realloc(changes, (change_count + 1) * sizeof *changes);
    if (changes == NULL || strlen(from) >= NAME_BYTES || strlen(to) >= NAME_BYTES) fail("a name");
    struct change *change = &changes[change_count++];
    strcpy(change->from, from);
    strcpy(change->to, to);
    change->inode = inode;
}

static void apply(const struct change *change, struct name **names, size_t *count) {
    for (size_t i = 0; i < *count;) {
        int goes = strcmp((*names)[i].text, change->from) == 0 || strcmp((*names)[i].text, change->to) == 0;
        if (goes) (*names)[i] = (*names)[--*count];
        else i++;
    }
    if (change->to[0] == 0) return;
    *names = realloc(*names, (*count + 1) * sizeof **names);
    if (*names == NULL) fail("names");
    strcpy((*names)[*count].text, change->to);
    (*names)[(*count)++].inode = change->inode;
}

void remember(struct inode *inode, off_t start, off_t end) {
    if (end <= start) return;
    size_t last = (size_t)(end - 1) / SECTOR;
    if (last >= inode->sector_limit) {
        size_t limit = 2 * last + 1;
        inode->sectors = realloc(inode->sectors, limit * sizeof *inode->sectors);
        if (inode->sectors == NULL) fail("sectors");
        for (size_t i = inode->sector_limit; i < limit; i++) inode->sectors[i] = NULL;
        inode->sector_limit = limit;
    }
    stamps++;
    for (size_t index = (size_t)start / SECTOR; index <= last; index++) {
        if (inode->sectors[index] == NULL) {
            struct sector *sector = calloc(1, sizeof *sector);  // zeros behind the file's end
            if (sector == NULL) fail("a sector");
            if (pread(inode->file, sector->durable, SECTOR, (off_t)(index * SECTOR)) < 0) fail("pread");
            inode->sectors[index] = sector;
        }
        inode->sectors[index]->stamp = stamps;
    }
}

struct moment moment_of(const struct inode *inode) {
    uint64_t known = settled_change_count + change_count;
    return (struct moment){stamps, known, inode != NULL ? size_of(inode) : 0, now()};
}

// A sector that was written again since the sync began stays as old as it was: a disk may keep less.
void settle(struct inode *inode, const struct moment *moment) {
    for (size_t i = 0; i < inode->sector_limit; i++) {
        if (inode->sectors[i] == NULL || inode->sectors[i]->stamp > moment->stamp) continue;
        free(inode->sectors[i]);
        inode->sectors[i] = NULL;
    }
    inode->durable_size = moment->size;
    inode->settled = moment->began;
}

// Another thread's fsync may have come home first.
void settle_names(const struct moment *moment) {
    while (change_count > 0 && settled_change_count < moment->change_count) {
        apply(&changes[0], &durable_names, &durable_count);
        memmove(changes, changes + 1, --change_count * sizeof *changes);
        settled_change_count++;
    }
}

int count(const char *kind, const char *name) {
    if (strcmp(settings.counted, "names") == 0 && name[0] == 0) return 0;
    operations++;
    if (settings.log >= 0) dprintf(settings.log, "%s %s\n", kind, name);
    return operations == settings.after;
}

// The cut

// Makes the file what the disk has of it.
static void survive(struct inode *inode) {
    off_t size = size_of(inode), low = size, high = inode->durable_size;
    if (low > high) low = inode->durable_size, high = size;
    off_t length = low + (off_t)below((uint64_t)(high - low) + 1);
    for (size_t index = 0; index < inode->sector_limit; index++) {
        off_t start = (off_t)(index * SECTOR);
        if (inode->sectors[index] == NULL || start >= length) continue;
        unsigned char *old = inode->sectors[index]->durable, new[SECTOR];
        memcpy(new, old, SECTOR);
        if (pread(inode->file, new, SECTOR, start) < 0) fail("pread");
        switch (below(4)) {
        case 0:
        case 1: sector_counts[1]++; break;
        case 2: {  // torn: one part new, the other old
            size_t part = below(SECTOR + 1);
            if (below(2) == 0) memcpy(new, old, part);
            else memcpy(new + part, old + part, SECTOR - part);
            sector_counts[2]++;
            break;
        }
        default: memcpy(new, old, SECTOR); sector_counts[0]++;
        }
        if (syscall(SYS_pwrite64, inode->file, new, SECTOR, start) != SECTOR) fail("pwrite");
    }
    if (syscall(SYS_ftruncate, inode->file, length) != 0) fail("ftruncate");
}

static void remove_all(const char *path) {
    DIR *stream = opendir(path);
    if (stream == NULL) return;
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;)
        if (entry->d_name[0] != '.') syscall(SYS_unlinkat, dirfd(stream), entry->d_name, 0);
    closedir(stream);
}

static void report(const char *kind, double at, size_t kept_count) {
    FILE *file = settings.report != NULL ? fopen(settings.report, "w") : NULL;
    if (file == NULL) return;
    fprintf(file, "{\"operation\": %" PRIu64 ", \"kind\": \"%s\", \"at\": %.6f, ", operations, kind, at);
    fprintf(file, "\"sectors\": {\"old\": %" PRIu64 ", \"new\": %" PRIu64 ", \"torn\": %" PRIu64 "}, ",
            sector_counts[0], sector_counts[1], sector_counts[2]);
    fprintf(file, "\"names\": {\"kept\": %zu, \"lost\": %zu}, ", kept_count, change_count - kept_count);
    fprintf(file, "\"settled\": {");
    // By every name the files had since the directory was synced.
    for (size_t i = 0; i < durable_count; i++)
        fprintf(file, "\"%s\": %.6f, ", durable_names[i].text, durable_names[i].inode->settled);
    for (size_t i = 0; i < change_count; i++)
        if (changes[i].to[0] != 0) fprintf(file, "\"%s\": %.6f, ", changes[i].to, changes[i].inode->settled);
    fprintf(file, "\"\": 0}}\n");
    fclose(file);
}

// The lock is held, and never let go again.
_Noreturn void cut(const char *kind) {
    double at = now();
    struct name *names = NULL;
    size_t name_count = 0, kept_count = 0;
    for (size_t i = 0; i < durable_count; i++) {
        struct change make = {.inode = durable_names[i].inode};
        strcpy(make.to, durable_names[i].text);
        apply(&make, &names, &name_count);
    }
    if (below(2) == 0) {
        kept_count = below(change_count + 1);
        for (size_t i = 0; i < kept_count; i++) apply(&changes[i], &names, &name_count);
    } else {
        for (size_t i = 0; i < change_count; i++)
            if (below(2) == 0) apply(&changes[i], &names, &name_count), kept_count++;
    }
    int is_gone = directory.st_ino != 0 && !directory_is_durable && below(2) == 0;
    if (is_gone) name_count = 0;

    // Its files are in the stash, all of them.
    remove_all(settings.directory);
    for (size_t i = 0; i < name_count; i++) {
        struct inode *inode = names[i].inode;
        if (!inode->is_left) survive(inode);
        inode->is_left = 1;
        char from[PATH_BYTES], to[PATH_BYTES];
        snprintf(from, sizeof from, "%s/%d", settings.stash, inode->id);
        snprintf(to, sizeof to, "%s/%s", settings.directory, names[i].text);
        if (linkat(AT_FDCWD, from, AT_FDCWD, to, 0) != 0) fail(to);
    }
    if (is_gone) syscall(SYS_unlinkat, AT_FDCWD, settings.directory, AT_REMOVEDIR);
    remove_all(settings.stash);
    report(kind, at, kept_count);
    for (;;) syscall(SYS_kill, getpid(), SIGKILL);
}


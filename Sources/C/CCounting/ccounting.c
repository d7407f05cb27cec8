#include "ccounting.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

extern void *(*_swift_allocObject)(void const *metadata, size_t byte_count, size_t alignment_mask);
extern void *(*_swift_retain)(void *object);
extern void *(*_swift_retain_n)(void *object, uint32_t count);
extern void (*_swift_release)(void *object);
extern void (*_swift_release_n)(void *object, uint32_t count);
extern _Atomic(_Bool) _swift_enableSwizzlingOfAllocationAndRefCountingFunctions_forInstrumentsOnly;

static _Thread_local pando_counts counts;
static pthread_mutex_t installation = PTHREAD_MUTEX_INITIALIZER;
static int users;
static void *(*own_alloc)(void const *, size_t, size_t);
static void *(*own_retain)(void *);
static void *(*own_retain_n)(void *, uint32_t);
static void (*own_release)(void *);
static void (*own_release_n)(void *, uint32_t);

// The runtime's callers may keep values in any register but r11 across these calls.
#define PRESERVING __attribute__((preserve_most))

static void *counting_alloc(void const *metadata, size_t byte_count, size_t alignment_mask) {
    counts.allocations++;
    return own_alloc(metadata, byte_count, alignment_mask);
}

// Before it calls the functions below, the runtime removes the tag bits of what may be a string. A string of 9 to 15 bytes
// lies in the value itself, and without the tag its last bytes look like an address: the runtime would count references
// there. The highest of the 48 bits of an object's address are 0x55 or 0x56 (the heap of a program that is loaded anywhere)
// or 0x7e and more (mapped memory, and other processors). Of texts, only one of 14 bytes looks so whose last one is U, V, ~
// or not ASCII.
PRESERVING static int is_object(void *object) {
    uintptr_t address = (uintptr_t)object, highest = address >> 40;
    return object == NULL || highest == 0x55 || highest == 0x56 || (highest >= 0x7e && highest <= 0xff);
}

PRESERVING static void *counting_retain(void *object) {
    if (!is_object(object)) return object;
    counts.retains++;
    return own_retain(object);
}
PRESERVING static void *counting_retain_n(void *object, uint32_t count) {
    if (!is_object(object)) return object;
    counts.retains++;
    return own_retain_n(object, count);
}
PRESERVING static void counting_release(void *object) {
    if (!is_object(object)) return;
    counts.releases++;
    own_release(object);
}
PRESERVING static void counting_release_n(void *object, uint32_t count) {
    if (!is_object(object)) return;
    counts.releases++;
    own_release_n(object, count);
}

void pando_counting_start(void) {
    pthread_mutex_lock(&installation);
    if (users++ == 0) {
        // Elsewhere nothing would be counted, and no test could fail.
        void *object = malloc(1);
        if (!object || !is_object(object)) abort();
        free(object);
        own_alloc = _swift_allocObject;
        own_retain = _swift_retain;
        own_retain_n = _swift_retain_n;
        own_release = _swift_release;
        own_release_n = _swift_release_n;
        _swift_allocObject = counting_alloc;
        _swift_retain = (void *(*)(void *))counting_retain;
        _swift_retain_n = (void *(*)(void *, uint32_t))counting_retain_n;
        _swift_release = (void (*)(void *))counting_release;
        _swift_release_n = (void (*)(void *, uint32_t))counting_release_n;
        atomic_store(&_swift_enableSwizzlingOfAllocationAndRefCountingFunctions_forInstrumentsOnly, 1);
    }
    pthread_mutex_unlock(&installation);
    counts = (pando_counts){0};
}

pando_counts pando_counting_stop(void) {
    pando_counts result = counts;
    pthread_mutex_lock(&installation);
    if (--users == 0) {
        atomic_store(&_swift_enableSwizzlingOfAllocationAndRefCountingFunctions_forInstrumentsOnly, 0);
        _swift_allocObject = own_alloc;
        _swift_retain = own_retain;
        _swift_retain_n = own_retain_n;
        _swift_release = own_release;
        _swift_release_n = own_release_n;
    }
    pthread_mutex_unlock(&installation);
    return result;
}

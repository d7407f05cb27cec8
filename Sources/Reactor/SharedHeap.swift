import CSystem

/// Has threads give back each other's memory without waiting for each other, where it is small enough: up to 152 bytes. Once,
/// before threads are there.
///
/// What a loop has read of a request, the database thread gives back. In glibc that takes the lock of the heap that the
/// loop allocates from, for more than 120 bytes: 20 000 to 90 000 waits a second under 350 000 writes, and 5 to 8 % of the
/// processor time of each. What is given back without the lock is joined with its neighbours later.
package func letThreadsShareHeaps() {
    pando_heap_free_across_threads()
}

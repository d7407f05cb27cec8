// The functions of zlib that Pando calls. zlib.h is included only in czlib.c.
#ifndef PANDO_CZLIB_H
#define PANDO_CZLIB_H

#include <stddef.h>

/// A stream that deflates or inflates. Must not be moved: zlib keeps a pointer to it.
typedef struct pando_zlib_stream pando_zlib_stream;

typedef enum {
    PANDO_ZLIB_OK,
    /// The end of the compressed data was written, or read.
    PANDO_ZLIB_END,
    /// The input is not compressed data.
    PANDO_ZLIB_BAD_DATA,
    PANDO_ZLIB_NO_MEMORY,
} pando_zlib_status;

typedef enum {
    PANDO_ZLIB_NO_FLUSH,
    /// All input so far is written, up to a byte boundary (RFC 7692 §7.2.1).
    PANDO_ZLIB_SYNC_FLUSH,
    PANDO_ZLIB_FINISH,
} pando_zlib_flush;

/// The result of one step: how many bytes of input were consumed, and how many of output written.
typedef struct {
    pando_zlib_status status;
    size_t consumed;
    size_t written;
    /// Of inflating: whether the consumed bytes end exactly where a block ends, with other blocks to follow.
    int is_at_block_end;
} pando_zlib_step;

/// `window_bits` is zlib's: 9…15, negative for raw deflate, 16 more for gzip. NULL when there is no memory.
pando_zlib_stream *pando_deflate_new(int level, int window_bits, int memory_level);
pando_zlib_stream *pando_inflate_new(int window_bits);
void pando_deflate_free(pando_zlib_stream *stream);
void pando_inflate_free(pando_zlib_stream *stream);

/// Starts a new stream in the same memory.
void pando_deflate_reset(pando_zlib_stream *stream);
void pando_inflate_reset(pando_zlib_stream *stream);

/// After the last block of raw deflate: goes on with the next byte, and keeps the window.
void pando_inflate_continue(pando_zlib_stream *stream);

/// Bytes that zlib has allocated for the stream, without malloc's own.
size_t pando_zlib_byte_count(const pando_zlib_stream *stream);

/// One step: reads at most `input_count` bytes and writes at most `output_count` bytes, both below 4 GiB.
pando_zlib_step pando_deflate_step(
    pando_zlib_stream *stream, const void *input, size_t input_count, void *output, size_t output_count,
    pando_zlib_flush flush);
pando_zlib_step pando_inflate_step(
    pando_zlib_stream *stream, const void *input, size_t input_count, void *output, size_t output_count);

#endif

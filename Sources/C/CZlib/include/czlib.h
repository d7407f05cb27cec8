// The few functions of zlib that Pando calls. Everything about zlib's names stays behind this header.
#ifndef PANDO_CZLIB_H
#define PANDO_CZLIB_H

#include <stddef.h>

/// A stream that deflates or inflates. Never moves: zlib keeps a pointer to its own state.
typedef struct pando_zlib_stream pando_zlib_stream;

typedef enum {
    PANDO_ZLIB_OK,
    /// The end of the compressed data was made, or found.
    PANDO_ZLIB_END,
    /// What was to be inflated is no compressed data.
    PANDO_ZLIB_BAD_DATA,
    PANDO_ZLIB_NO_MEMORY,
} pando_zlib_status;

typedef enum {
    PANDO_ZLIB_NO_FLUSH,
    /// Everything given so far comes out, and ends at a byte (RFC 7692 §7.2.1).
    PANDO_ZLIB_SYNC_FLUSH,
    PANDO_ZLIB_FINISH,
} pando_zlib_flush;

/// What one step took and made.
typedef struct {
    pando_zlib_status status;
    size_t taken;
    size_t made;
} pando_zlib_step;

/// `window_bits`: as zlib has it: 9…15, negative for raw deflate, 16 more for gzip. NULL when memory is short.
pando_zlib_stream *pando_deflate_new(int level, int window_bits, int memory_level);
pando_zlib_stream *pando_inflate_new(int window_bits);
void pando_deflate_free(pando_zlib_stream *stream);
void pando_inflate_free(pando_zlib_stream *stream);

/// Begins anew, in the memory there is.
void pando_deflate_reset(pando_zlib_stream *stream);
void pando_inflate_reset(pando_zlib_stream *stream);

/// One step: reads at most `input_count` bytes, writes at most `output_count`, either below 4 GiB.
pando_zlib_step pando_deflate_step(
    pando_zlib_stream *stream, const void *input, size_t input_count, void *output, size_t output_count,
    pando_zlib_flush flush);
pando_zlib_step pando_inflate_step(
    pando_zlib_stream *stream, const void *input, size_t input_count, void *output, size_t output_count);

#endif

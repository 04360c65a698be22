/* What functions of whole columns need in WebAssembly, in C: columns as docs/functions.md describes them, the room for a
 * batch, results, messages, and printing. No library is needed below it.
 *
 *   #include "diligence.h"
 *   DILIGENCE_EXPORT("first") uint32_t first(uint32_t rows, const diligence_column *given, diligence_column *result) { … }
 *
 *   clang --target=wasm32 -O2 -nostdlib -Iwasm/guest -Wl,--no-entry -o first.wasm first.c
 *
 * Include it in one file of a module: it defines diligence_alloc and diligence_reset.
 */
#ifndef DILIGENCE_H
#define DILIGENCE_H

#include <stdint.h>

#define DILIGENCE_EXPORT(name) __attribute__((export_name(name)))

/* Kinds of columns. That of arrays is DILIGENCE_ARRAYS_FROM beside that of their elements. */
enum {
    DILIGENCE_BOOLEAN, DILIGENCE_SMALLINT, DILIGENCE_INTEGER, DILIGENCE_BIGINT, DILIGENCE_REAL, DILIGENCE_DOUBLE,
    DILIGENCE_NUMERIC, DILIGENCE_TEXT, DILIGENCE_BYTES, DILIGENCE_ARRAYS_FROM = 16
};

/* A column. Validity: a bit for each row, the lowest first, 0 for NULL; no address if there are no NULLs. Offsets: one
 * more than rows, of values of any length. Values: numbers, bits, bytes, or of arrays the column of all elements. */
typedef struct {
    uint32_t kind, rows, validity, offsets, values, bytes;
} diligence_column;

static inline int diligence_is_null(const diligence_column *column, uint32_t row) {
    const uint8_t *bits = (const uint8_t *)column->validity;
    return bits && !(bits[row / 8] >> (row % 8) & 1);
}

static inline const uint32_t *diligence_offsets(const diligence_column *column) {
    return (const uint32_t *)column->offsets;
}

static inline const void *diligence_values(const diligence_column *column) { return (const void *)column->values; }

/* The column of all elements of a column of arrays. */
static inline const diligence_column *diligence_elements(const diligence_column *column) {
    return (const diligence_column *)column->values;
}

extern unsigned char __heap_base;
static uint32_t diligence_next;

/* Gives the room of the batch before back. The engine calls it before each batch. */
DILIGENCE_EXPORT("diligence_reset") void diligence_reset(void) {
    diligence_next = ((uint32_t)&__heap_base + 7) & ~7u;
}

/* The address of so many bytes, a multiple of 8, which stay until the next batch; 0 if there is no more memory. */
DILIGENCE_EXPORT("diligence_alloc") uint32_t diligence_alloc(uint32_t bytes) {
    if (diligence_next == 0) diligence_reset();
    uint64_t end = (uint64_t)diligence_next + ((bytes + 7u) & ~7u);
    uint64_t have = (uint64_t)__builtin_wasm_memory_size(0) << 16;
    if (bytes > UINT32_MAX - 7u || end > UINT32_MAX) return 0;
    if (end > have && __builtin_wasm_memory_grow(0, (end - have + 65535) >> 16) == (unsigned long)-1) return 0;
    uint32_t address = diligence_next;
    diligence_next = (uint32_t)end;
    return address;
}

/* The same as a pointer. Without memory the function ends, and so does the query. */
static inline void *diligence_block(uint32_t bytes) {
    uint32_t address = diligence_alloc(bytes);
    if (!address) __builtin_trap();
    return (void *)address;
}

/* What a function returns that fails with this message: return diligence_fail("…"); */
static inline uint32_t diligence_fail(const char *message) {
    uint32_t bytes = 0;
    while (message[bytes]) bytes++;
    uint32_t *block = diligence_block(4 + bytes);
    block[0] = bytes;
    for (uint32_t at = 0; at < bytes; at++) ((char *)(block + 1))[at] = message[at];
    return (uint32_t)block;
}

/* Prints a text: the client whose query calls the function gets it as a notice. */
__attribute__((import_module("diligence"), import_name("print"))) void diligence_print(const char *text, uint32_t bytes);

#endif
